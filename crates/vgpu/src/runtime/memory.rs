//! Device memory: given, taken back, asked about.

use std::ffi::{c_int, c_long};

use super::capture::refuse_unsafe;
use super::current::{Current, answer, current, output};
use super::error::version;
use super::host::unmap_host;
use crate::memory::{HostUse, Kind, Refusal};
use crate::session::Session;
use crate::status::{CudaError, put};

impl From<Refusal> for CudaError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::OutOfMemory => Self::OUT_OF_MEMORY,
            Refusal::Invalid => Self::INVALID_VALUE,
        }
    }
}

/// New device memory; a refusal for lack of space is recorded too.
pub(crate) fn allocate(current: Current, size: usize, kind: Kind) -> Result<u64, CudaError> {
    let Current {
        session, machine, ..
    } = current;
    session.ensure_context(machine);
    if size == 0 {
        return Ok(0);
    }
    let outcome = session.memory().allocate(machine, size as u64, kind);
    match outcome {
        Ok((address, event)) => {
            session.driver_event(event);
            Ok(address)
        }
        Err((refusal, event)) => {
            session.driver_event(event);
            Err(refusal.into())
        }
    }
}

/// Takes device memory back.
pub(crate) fn release(session: &Session, address: u64) -> Result<(), CudaError> {
    if address == 0 {
        return Ok(());
    }
    if unmap_host(session, address, HostUse::Managed).is_ok() {
        return Ok(());
    }
    let event = {
        let mut memory = session.memory();
        match memory.release_to_pool(address) {
            Ok(event) => event,
            Err(_) => memory.release(address, &[Kind::Malloc])?,
        }
    };
    session.driver_event(event);
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(address: *mut u64, size: usize) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| {
            refuse_unsafe()?;
            allocate(current, size, Kind::Malloc)
        });
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(address: u64) -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        refuse_unsafe()?;
        release(session, address)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocPitch(
    address: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> CudaError {
    let row = width.checked_next_multiple_of(512).unwrap_or(usize::MAX);
    // SAFETY: as for the CUDA function.
    unsafe {
        put(pitch, row);
        cudaMalloc(address, row.saturating_mul(height))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> CudaError {
    answer(|| {
        let figures = current().map(
            |Current {
                 session, machine, ..
             }| {
                session.ensure_context(machine);
                (
                    session.memory().free(machine) as usize,
                    session.settings.device.total_bytes as usize,
                )
            },
        );
        let (free_bytes, total_bytes) = figures.unwrap_or((0, 0));
        // SAFETY: as for the CUDA function.
        unsafe {
            put(free, free_bytes);
            put(total, total_bytes);
        }
        figures.map(drop)
    })
}

/// `cudaPointerAttributes` of CUDA 12: callers built for it have room for no more.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

/// `cudaPointerAttributes` since CUDA 13.
#[repr(C)]
#[derive(Clone, Copy)]
struct PointerAttributes13 {
    known: PointerAttributes,
    reserved: [c_long; 8],
}

/// `cudaMemoryType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerKind {
    Unregistered = 0,
    Host = 1,
    Device = 2,
    Managed = 3,
}

/// What kind of memory an address is, and the machine's number of its device.
pub(crate) fn pointer_kind(session: &Session, address: u64) -> (PointerKind, Option<usize>) {
    let memory = session.memory();
    if let Some((_, range)) = memory.range_of(address) {
        (PointerKind::Device, Some(range.device))
    } else if let Some((_, range)) = memory.host_of(address) {
        let is_managed = range.usage == HostUse::Managed;
        let kind = if is_managed {
            PointerKind::Managed
        } else {
            PointerKind::Host
        };
        (kind, None)
    } else {
        (PointerKind::Unregistered, None)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaPointerGetAttributes(
    pointer: *mut PointerAttributes,
    address: u64,
) -> CudaError {
    /// `cudaInvalidDeviceId`.
    const NO_DEVICE: c_int = -2;
    answer(|| {
        let attributes = output(pointer)?;
        let mut found = PointerAttributes {
            kind: 0,
            device: NO_DEVICE,
            device_pointer: 0,
            host_pointer: address,
        };
        let current = current();
        if let Ok(Current {
            session, ordinal, ..
        }) = current
        {
            let (kind, machine) = pointer_kind(session, address);
            found.kind = kind as c_int;
            let of_machine = |machine| {
                session
                    .visible()
                    .iter()
                    .position(|visible| *visible as usize == machine)
            };
            match kind {
                PointerKind::Device => {
                    found.device = machine.and_then(of_machine).unwrap_or(0) as c_int;
                    (found.device_pointer, found.host_pointer) = (address, 0);
                }
                PointerKind::Host | PointerKind::Managed => {
                    found.device = ordinal as c_int;
                    found.device_pointer = address;
                }
                PointerKind::Unregistered => {}
            }
        }
        if version() >= 13_000 {
            output(pointer.cast::<PointerAttributes13>())?.set(PointerAttributes13 {
                known: found,
                reserved: [0; 8],
            });
        } else {
            attributes.set(found);
        }
        current.map(drop)
    })
}
