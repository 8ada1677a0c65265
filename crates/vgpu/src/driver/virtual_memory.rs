//! Virtual memory management: addresses and physical memory apart, as expandable segments use them.

use std::ffi::{c_int, c_uint, c_void};

use super::answer::{answer, current, give, of_argument};
use crate::memory::GRANULARITY;
use crate::runtime::Current;
use crate::status::DriverError;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocationProp {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location_id: c_int,
    win32_handle: u64,
    flags: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    _prop: *const AllocationProp,
    _option: c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give(granularity, current().map(|_| GRANULARITY as usize)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    address: *mut u64,
    size: usize,
    align: usize,
    _hint: u64,
    _flags: u64,
) -> DriverError {
    let reserved = current().and_then(
        |Current {
             session, machine, ..
         }| {
            session.ensure_context(machine);
            Ok(session
                .memory()
                .reserve(machine, size as u64, align as u64)?)
        },
    );
    // SAFETY: as for the CUDA function.
    unsafe { give(address, reserved) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(address: u64, size: usize) -> DriverError {
    answer(|| {
        Ok(current()?
            .session
            .memory()
            .unreserve(address, size as u64)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    size: usize,
    prop: *const AllocationProp,
    _flags: u64,
) -> DriverError {
    let created = (|| {
        if prop.is_null() {
            return Err(DriverError::INVALID_VALUE);
        }
        // SAFETY: the caller passes a property struct.
        let Current {
            session, machine, ..
        } = of_argument(unsafe { (*prop).location_id })?;
        session.ensure_context(machine);
        let outcome = session.memory().create(machine, size as u64);
        match outcome {
            Ok((handle, event)) => {
                session.driver_event(event);
                Ok(handle)
            }
            Err((refusal, event)) => {
                session.driver_event(event);
                Err(refusal.into())
            }
        }
    })();
    // SAFETY: as for the CUDA function.
    unsafe { give(handle, created) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: u64) -> DriverError {
    answer(|| {
        let session = current()?.session;
        let event = session.memory().release_physical(handle)?;
        if let Some(event) = event {
            session.driver_event(event);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(
    address: u64,
    size: usize,
    offset: usize,
    handle: u64,
    _flags: u64,
) -> DriverError {
    answer(|| {
        if offset != 0 {
            return Err(DriverError::INVALID_VALUE);
        }
        Ok(current()?
            .session
            .memory()
            .map(address, size as u64, handle)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(address: u64, size: usize) -> DriverError {
    answer(|| {
        let session = current()?.session;
        let events = session.memory().unmap(address, size as u64)?;
        for event in events {
            session.driver_event(event);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemSetAccess(
    address: u64,
    size: usize,
    _accesses: *const c_void,
    _count: usize,
) -> DriverError {
    answer(|| {
        let mapped = current()?.session.memory().is_memory(address, size as u64);
        if mapped {
            Ok(())
        } else {
            Err(DriverError::INVALID_VALUE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRetainAllocationHandle(
    handle: *mut u64,
    address: u64,
) -> DriverError {
    let found = current().and_then(|c| {
        c.session
            .memory()
            .handle_mapped_at(address)
            .ok_or(DriverError::INVALID_VALUE)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(handle, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationPropertiesFromHandle(
    prop: *mut AllocationProp,
    handle: u64,
) -> DriverError {
    let found = current().and_then(|Current { session, .. }| {
        let physical = session
            .memory()
            .physical(handle)
            .ok_or(DriverError::INVALID_VALUE)?;
        let ordinal = session
            .visible()
            .iter()
            .position(|visible| *visible as usize == physical.device);
        // Pinned memory on a device.
        Ok(AllocationProp {
            kind: 1,
            location_kind: 1,
            location_id: ordinal.unwrap_or(0) as c_int,
            ..AllocationProp::default()
        })
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(prop, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAccess(
    flags: *mut u64,
    _location: *const c_void,
    address: u64,
) -> DriverError {
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
    const READ_WRITE: c_uint = 3;
    let found = current().map(|c| {
        if c.session.memory().is_memory(address, 1) {
            u64::from(READ_WRITE)
        } else {
            0
        }
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(flags, found) }
}
