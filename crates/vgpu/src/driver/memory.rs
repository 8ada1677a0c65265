//! Device and host memory through the driver.

use std::ffi::{c_int, c_uint, c_void};

use super::answer::{answer, current, give};
use crate::memory::Kind;
use crate::runtime::{
    Current, Direction, allocate_host, copy_bytes, copy_bytes_on, free_host, pointer_kind,
    register_host, set_bytes_on, unregister_host,
};
use crate::status::{CudaError, DriverError, put};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, size: usize) -> DriverError {
    if size == 0 {
        // SAFETY: as for the CUDA function.
        unsafe { put(address, 0) };
        return DriverError::INVALID_VALUE;
    }
    // SAFETY: as for the CUDA function.
    unsafe { forgetting(|| crate::runtime::cudaMalloc(address, size)) }
}

/// Runs a runtime function for the driver, which does not leave its error behind for `cudaGetLastError`.
fn forgetting(body: impl FnOnce() -> CudaError) -> DriverError {
    let before = CudaError::take_last();
    let error = body();
    let _ = CudaError::take_last();
    let _ = before.remember();
    error.into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> DriverError {
    forgetting(|| crate::runtime::cudaFree(address))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(
    address: *mut u64,
    size: usize,
    stream: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    forgetting(|| unsafe { crate::runtime::cudaMallocAsync(address, size, stream) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    size: usize,
    pool: u64,
    stream: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    forgetting(|| unsafe { crate::runtime::cudaMallocFromPoolAsync(address, size, pool, stream) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> DriverError {
    forgetting(|| crate::runtime::cudaFreeAsync(address, stream))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> DriverError {
    // SAFETY: as for the CUDA function.
    forgetting(|| unsafe { crate::runtime::cudaMemGetInfo(free, total) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut u64,
    size: *mut usize,
    address: u64,
) -> DriverError {
    let found = current().and_then(|current| {
        current
            .session
            .memory()
            .range_of(address)
            .filter(|(_, range)| range.kind != Kind::Reserved)
            .ok_or(DriverError::NOT_FOUND)
    });
    // SAFETY: as for the CUDA function; both may be null.
    unsafe {
        put(base, found.as_ref().map_or(0, |(start, _)| *start));
        put(
            size,
            found.as_ref().map_or(0, |(_, range)| range.len as usize),
        );
    }
    answer(|| found.map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    address: *mut u64,
    size: usize,
    _flags: c_uint,
) -> DriverError {
    let allocated = current().and_then(|current| Ok(allocate_host(current.session, size)?));
    // SAFETY: as for the CUDA function.
    unsafe { give(address, allocated) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(address: *mut u64, size: usize) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { cuMemHostAlloc(address, size, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: u64) -> DriverError {
    answer(|| Ok(free_host(current()?.session, address)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(address: u64, size: usize, _flags: c_uint) -> DriverError {
    answer(|| Ok(register_host(current()?.session, address, size)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(address: u64) -> DriverError {
    answer(|| Ok(unregister_host(current()?.session, address)?))
}

/// # Safety
/// A side that is host memory must be valid for `len` bytes.
unsafe fn copy(
    to: u64,
    from: u64,
    len: usize,
    direction: Direction,
    stream: Option<u64>,
) -> DriverError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        // SAFETY: promised by the caller.
        let copied = unsafe {
            match stream {
                Some(stream) => copy_bytes_on(stream, session, to, from, len as u64, direction),
                None => copy_bytes(session, to, from, len as u64, direction),
            }
        };
        Ok(copied?)
    })
}

macro_rules! copies {
    ($($name:ident, $name_async:ident, $direction:ident;)+) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(to: u64, from: u64, len: usize) -> DriverError {
                // SAFETY: as for the CUDA function.
                unsafe { copy(to, from, len, Direction::$direction, None) }
            }

            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name_async(to: u64, from: u64, len: usize, stream: u64) -> DriverError {
                // SAFETY: as for the CUDA function.
                unsafe { copy(to, from, len, Direction::$direction, Some(stream)) }
            }
        )+
    };
}

copies! {
    cuMemcpy, cuMemcpyAsync, Default;
    cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, HostToDevice;
    cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, DeviceToHost;
    cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, DeviceToDevice;
}

fn set(to: u64, element: &[u8], count: usize, stream: u64) -> DriverError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        Ok(set_bytes_on(stream, session, to, element, count as u64)?)
    })
}

macro_rules! sets {
    ($($name:ident, $name_async:ident, $element:ty;)+) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(to: u64, value: $element, count: usize) -> DriverError {
                set(to, &value.to_ne_bytes(), count, 0)
            }

            #[unsafe(no_mangle)]
            pub extern "C" fn $name_async(to: u64, value: $element, count: usize, stream: u64) -> DriverError {
                set(to, &value.to_ne_bytes(), count, stream)
            }
        )+
    };
}

sets! {
    cuMemsetD8_v2, cuMemsetD8Async, u8;
    cuMemsetD16_v2, cuMemsetD16Async, u16;
    cuMemsetD32_v2, cuMemsetD32Async, u32;
}

/// Attributes of an address by number, as far as they can be told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    out: *mut c_void,
    attribute: c_int,
    address: u64,
) -> DriverError {
    if out.is_null() {
        return DriverError::INVALID_VALUE;
    }
    answer(|| {
        let Current { session, .. } = current()?;
        let (kind, machine) = pointer_kind(session, address);
        let ordinal = machine.and_then(|machine| {
            session
                .visible()
                .iter()
                .position(|visible| *visible as usize == machine)
        });
        let range = session.memory().range_of(address);
        // SAFETY: the caller gives room for the type of the attribute it names: 8 bytes for addresses and sizes,
        // 4 for enumerations, ordinals and booleans.
        unsafe {
            let long = |value: u64| out.cast::<u64>().write_unaligned(value);
            let int = |value: c_int| out.cast::<c_int>().write_unaligned(value);
            let known = machine.is_some() || session.memory().host_of(address).is_some();
            match attribute {
                // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: 1 host, 2 device.
                2 => int(if known { kind as c_int } else { 0 }),
                3 | 4 => long(if known { address } else { 0 }),
                7 => long(range.map_or(0, |(start, _)| start)),
                8 => int(0),
                9 => int(ordinal.map_or(-2, |ordinal| ordinal as c_int)),
                11 => long(range.map_or(0, |(start, _)| start)),
                12 => long(range.map_or(0, |(_, range)| range.len)),
                13 => int(c_int::from(known)),
                _ => {
                    int(0);
                    return Err(DriverError::NOT_SUPPORTED);
                }
            }
            if known {
                Ok(())
            } else {
                Err(DriverError::INVALID_VALUE)
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *const c_int,
    outs: *mut *mut c_void,
    address: u64,
) -> DriverError {
    if attributes.is_null() || outs.is_null() {
        return DriverError::INVALID_VALUE;
    }
    for index in 0..count as usize {
        // Unlike the call for one attribute, this one leaves what it does not know at zero and succeeds.
        // SAFETY: the caller passes `count` attributes and places for them.
        unsafe { cuPointerGetAttribute(*outs.add(index), *attributes.add(index), address) };
    }
    DriverError::SUCCESS
}
