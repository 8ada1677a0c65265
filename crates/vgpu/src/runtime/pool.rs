//! Stream-ordered allocation (`cudaMallocAsync`) and the pools it takes memory from.

use std::collections::HashMap;
use std::ffi::{c_int, c_ushort, c_void};
use std::sync::{Mutex, PoisonError};

use super::capture::{self, Lane};
use super::current::{Current, answer, current, of_argument, output};
use super::memory::release;
use super::stream::is_stream;
use crate::pools::Pool;
use crate::session::Session;
use crate::status::CudaError;

/// Default pools have the number of their device after this one.
const FIRST_DEFAULT: u64 = 0x7500_0001_0000;
/// What graphs allocate for themselves, likewise.
const FIRST_OF_GRAPHS: u64 = 0x7500_0002_0000;

/// The pool that a device uses now, where that is not its default one.
static CHOSEN: Mutex<Option<HashMap<usize, u64>>> = Mutex::new(None);
/// A handle that a program's own pool has.
struct Own;

/// The pool with a fixed handle, made when it is first asked for.
fn fixed(session: &Session, first: u64, machine: usize) -> u64 {
    let handle = first + machine as u64;
    let device = machine;
    session
        .memory()
        .pools
        .by_handle
        .entry(handle)
        .or_insert_with(|| {
            let pool = Pool::default();
            Pool { device, ..pool }
        });
    handle
}

fn default_pool(current: Current) -> u64 {
    fixed(current.session, FIRST_DEFAULT, current.machine)
}

fn chosen_pool(current: Current) -> u64 {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let own = chosen
        .as_ref()
        .and_then(|chosen| chosen.get(&current.machine));
    own.copied().unwrap_or_else(|| default_pool(current))
}

/// Looks at or changes a pool.
fn with_pool<R>(handle: u64, look: impl FnOnce(&mut Pool) -> R) -> Result<R, CudaError> {
    let mut memory = current()?.session.memory();
    let pool = memory.pools.by_handle.get_mut(&handle);
    pool.map(look).ok_or(CudaError::INVALID_VALUE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetDefaultMemPool(pool: *mut u64, device: c_int) -> CudaError {
    answer(|| {
        let pool = output(pool)?;
        let found = of_argument(device).map(default_pool);
        pool.set(found.unwrap_or(0));
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetMemPool(pool: *mut u64, device: c_int) -> CudaError {
    answer(|| {
        let pool = output(pool)?;
        let found = of_argument(device).map(chosen_pool);
        pool.set(found.unwrap_or(0));
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetMemPool(device: c_int, pool: u64) -> CudaError {
    answer(|| {
        let machine = of_argument(device)?.machine;
        if with_pool(pool, |pool| pool.device)? != machine {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.get_or_insert_default().insert(machine, pool);
        Ok(())
    })
}

/// `cudaMemPoolProps`.
#[repr(C)]
pub struct PoolProps {
    allocation: c_int,
    handles: c_int,
    location_kind: c_int,
    location: c_int,
    attributes: *const c_void,
    limit: usize,
    usage: c_ushort,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolCreate(pool: *mut u64, props: *const PoolProps) -> CudaError {
    /// `cudaMemLocationTypeDevice`.
    const DEVICE: c_int = 1;
    answer(|| {
        let pool = output(pool)?;
        let made = (|| {
            if props.is_null() {
                return Err(CudaError::INVALID_VALUE);
            }
            // SAFETY: the caller passes properties.
            let (kind, location, limit) =
                unsafe { ((*props).location_kind, (*props).location, (*props).limit) };
            if kind != DEVICE {
                crate::unsupported::unsupported("cudaMemPoolCreate on the host", "libcudart.so");
                return Err(CudaError::NOT_SUPPORTED);
            }
            let Current {
                session, machine, ..
            } = of_argument(location)?;
            let handle = session.handles().add(Own);
            let new = Pool {
                device: machine,
                limit: limit as u64,
                ..Pool::default()
            };
            session.memory().pools.by_handle.insert(handle, new);
            Ok(handle)
        })();
        pool.set(made.unwrap_or(0));
        made.map(drop)
    })
}

/// A pool whose blocks live ends with the last of them.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolDestroy(pool: u64) -> CudaError {
    answer(|| {
        let session = current()?.session;
        if session.handles::<Own>().remove(pool).is_none() {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        chosen
            .get_or_insert_default()
            .retain(|_, handle| *handle != pool);
        drop(chosen);
        trim(session, pool, 0);
        Ok(())
    })
}

fn trim(session: &Session, pool: u64, keep: u64) {
    let event = session.memory().trim_pool(pool, keep);
    if let Some(event) = event {
        session.driver_event(event);
    }
}

/// The device has come to rest: pools give back what they may not keep.
pub(crate) fn settle(session: &Session) {
    let pools: Vec<(u64, u64)> = {
        let memory = session.memory();
        let pools = memory.pools.by_handle.iter();
        pools
            .filter(|(_, pool)| pool.reserved > pool.threshold)
            .map(|(handle, pool)| (*handle, pool.threshold))
            .collect()
    };
    for (pool, threshold) in pools {
        trim(session, pool, threshold);
    }
}

/// Takes memory from a pool, for work on `stream`; a refusal for lack of space is recorded too.
fn allocate(
    current: Current,
    pool: Option<u64>,
    size: usize,
    stream: u64,
) -> Result<u64, CudaError> {
    let Current {
        session, machine, ..
    } = current;
    session.ensure_context(machine);
    if !is_stream(session, stream) {
        return Err(CudaError::INVALID_HANDLE);
    }
    // What is allocated while capturing belongs to the graph.
    let pool = match capture::lane(session, stream)? {
        Lane::Captured(_) => fixed(session, FIRST_OF_GRAPHS, machine),
        Lane::Now => pool.unwrap_or_else(|| chosen_pool(current)),
    };
    if size == 0 {
        return Ok(0);
    }
    session.note_once(
        r#"{"kind":"assumption","assumption":"driver_pool","text":"memory from the driver's own pools is taken to grow in pieces of 32 MiB and not to fragment","where":null}"#,
    );
    let outcome = session.memory().allocate_from_pool(pool, size as u64);
    let (address, event) = match outcome {
        Ok((address, event)) => (Ok(address), event),
        Err((refusal, event)) => (Err(refusal.into()), event),
    };
    session.driver_event(event);
    address
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocAsync(address: *mut u64, size: usize, stream: u64) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| allocate(current, None, size, stream));
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocFromPoolAsync(
    address: *mut u64,
    size: usize,
    pool: u64,
    stream: u64,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| allocate(current, Some(pool), size, stream));
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeAsync(address: u64, stream: u64) -> CudaError {
    answer(|| {
        let session = current()?.session;
        capture::lane(session, stream)?;
        release(session, address)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAttribute(
    pool: u64,
    attribute: c_int,
    value: *mut c_void,
) -> CudaError {
    answer(|| {
        let found = with_pool(pool, |pool| match attribute {
            // The three policies of reuse are on.
            1..=3 => Some(1),
            4 => Some(pool.threshold),
            5 => Some(pool.reserved),
            6 => Some(pool.reserved_high),
            7 => Some(pool.used),
            8 => Some(pool.used_high),
            _ => None,
        });
        let told = found.ok().flatten();
        // The policies are ints, the rest are 64-bit; nothing is known of the size of others.
        match attribute {
            1..=3 => output(value.cast::<c_int>())?.set(told.unwrap_or(0) as c_int),
            4..=8 => output(value.cast::<u64>())?.set(told.unwrap_or(0)),
            _ => {}
        }
        found?.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolSetAttribute(
    pool: u64,
    attribute: c_int,
    value: *const c_void,
) -> CudaError {
    answer(|| {
        if value.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let changed = with_pool(pool, |pool| {
            match attribute {
                1..=3 => {}
                // SAFETY: the caller passes a 64-bit value for this attribute.
                4 => pool.threshold = unsafe { value.cast::<u64>().read_unaligned() },
                // High-water marks can only be started anew.
                6 => pool.reserved_high = pool.reserved,
                8 => pool.used_high = pool.used,
                _ => return None,
            }
            Some(())
        });
        changed?.ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolTrimTo(pool: u64, keep: usize) -> CudaError {
    answer(|| {
        with_pool(pool, |_| ())?;
        trim(current()?.session, pool, keep as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolSetAccess(
    pool: u64,
    _accesses: *const c_void,
    _count: usize,
) -> CudaError {
    answer(|| with_pool(pool, |_| ()))
}

/// A pool is reached from its own device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAccess(
    flags: *mut c_int,
    pool: u64,
    location: *const [c_int; 2],
) -> CudaError {
    /// `cudaMemAccessFlagsProtReadWrite`.
    const READ_WRITE: c_int = 3;
    answer(|| {
        let flags = output(flags)?;
        let found = (|| {
            if location.is_null() {
                return Err(CudaError::INVALID_VALUE);
            }
            // SAFETY: the caller passes a kind and a number.
            let device = of_argument(unsafe { (*location)[1] })?.machine;
            with_pool(pool, |pool| pool.device == device)
        })();
        flags.set(if found == Ok(true) { READ_WRITE } else { 0 });
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetGraphMemAttribute(
    device: c_int,
    attribute: c_int,
    value: *mut c_void,
) -> CudaError {
    answer(|| {
        let value = output(value.cast::<u64>())?;
        let found = of_argument(device).and_then(|current| {
            let pool = fixed(current.session, FIRST_OF_GRAPHS, current.machine);
            with_pool(pool, |pool| match attribute {
                0 => Some(pool.used),
                1 => Some(pool.used_high),
                2 => Some(pool.reserved),
                3 => Some(pool.reserved_high),
                _ => None,
            })
        });
        value.set(found.ok().flatten().unwrap_or(0));
        found?.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetGraphMemAttribute(
    device: c_int,
    attribute: c_int,
    _value: *const c_void,
) -> CudaError {
    answer(|| {
        let current = of_argument(device)?;
        let pool = fixed(current.session, FIRST_OF_GRAPHS, current.machine);
        with_pool(pool, |pool| match attribute {
            1 => {
                pool.used_high = pool.used;
                Ok(())
            }
            3 => {
                pool.reserved_high = pool.reserved;
                Ok(())
            }
            _ => Err(CudaError::INVALID_VALUE),
        })?
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGraphMemTrim(device: c_int) -> CudaError {
    answer(|| {
        let current = of_argument(device)?;
        let pool = fixed(current.session, FIRST_OF_GRAPHS, current.machine);
        trim(current.session, pool, 0);
        Ok(())
    })
}
