//! Stream-ordered allocation (`cudaMallocAsync`). A pool hands out device memory like `cudaMalloc` and counts it;
//! it keeps nothing back for reuse, so its reserved figure is what is in use.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::current::{Current, answer, current, of_argument, output};
use super::memory::{allocate, release};
use crate::memory::Kind;
use crate::status::CudaError;

/// What a pool holds.
#[derive(Default)]
struct Counts {
    live: HashMap<u64, u64>,
    used: u64,
    used_high: u64,
    release_threshold: u64,
}

static POOLS: Mutex<Option<HashMap<usize, Counts>>> = Mutex::new(None);
const FIRST_POOL: u64 = 0x7500_0001_0000;

fn counts<R>(machine: usize, look: impl FnOnce(&mut Counts) -> R) -> R {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    look(pools.get_or_insert_default().entry(machine).or_default())
}

/// The machine's number of the device whose default pool has this handle.
fn device_of(pool: u64) -> Result<usize, CudaError> {
    let n_devices = current()?.session.settings.device_count as usize;
    let index = pool
        .checked_sub(FIRST_POOL)
        .ok_or(CudaError::INVALID_VALUE)? as usize;
    if index < n_devices {
        Ok(index)
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetDefaultMemPool(pool: *mut u64, device: c_int) -> CudaError {
    answer(|| {
        let pool = output(pool)?;
        let machine = of_argument(device).map(|current| current.machine);
        pool.set(machine.map_or(0, |machine| FIRST_POOL + machine as u64));
        machine.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetMemPool(pool: *mut u64, device: c_int) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaDeviceGetDefaultMemPool(pool, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocAsync(
    address: *mut u64,
    size: usize,
    _stream: u64,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| {
            let start = allocate(current, size, Kind::Pool)?;
            counts(current.machine, |counts| {
                counts.live.insert(start, size as u64);
                counts.used += size as u64;
                counts.used_high = counts.used_high.max(counts.used);
            });
            Ok(start)
        });
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeAsync(address: u64, _stream: u64) -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        release(session, address)?;
        counts(machine, |counts| {
            counts.used -= counts.live.remove(&address).unwrap_or(0);
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAttribute(
    pool: u64,
    attribute: c_int,
    value: *mut c_void,
) -> CudaError {
    answer(|| {
        let machine = device_of(pool)?;
        match attribute {
            // The three reuse policies are ints, the rest are 64-bit.
            1..=3 => output(value.cast::<c_int>())?.set(1),
            4 => {
                output(value.cast::<u64>())?
                    .set(counts(machine, |counts| counts.release_threshold));
            }
            5 | 7 => output(value.cast::<u64>())?.set(counts(machine, |counts| counts.used)),
            6 | 8 => output(value.cast::<u64>())?.set(counts(machine, |counts| counts.used_high)),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolSetAttribute(
    pool: u64,
    attribute: c_int,
    value: *const c_void,
) -> CudaError {
    answer(|| {
        let machine = device_of(pool)?;
        if value.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        match attribute {
            1..=3 => {}
            4 => {
                // SAFETY: the caller passes a 64-bit value for this attribute.
                let threshold = unsafe { value.cast::<u64>().read_unaligned() };
                counts(machine, |counts| counts.release_threshold = threshold);
            }
            6 | 8 => counts(machine, |counts| counts.used_high = counts.used),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolTrimTo(pool: u64, _keep: usize) -> CudaError {
    answer(|| device_of(pool).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolSetAccess(
    pool: u64,
    _accesses: *const c_void,
    _count: usize,
) -> CudaError {
    answer(|| device_of(pool).map(drop))
}
