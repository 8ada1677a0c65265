//! Devices: how many, which, what they are.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::capture::refuse_waiting_for_all;
use super::current::{Current, answer, current, of_argument, output, set_current, started};
use super::pool::settle;
use super::properties::{Layout, attribute, device_prop};
use crate::status::{CudaError, put};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> CudaError {
    answer(|| {
        let count = output(count)?;
        let (n_devices, status) = match started() {
            Ok(session) => (session.visible().len() as c_int, Ok(())),
            Err(error) => (0, Err(error)),
        };
        count.set(n_devices);
        status
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDevice(device: *mut c_int) -> CudaError {
    answer(|| {
        let device = output(device)?;
        let current = current();
        device.set(current.map_or(0, |current| current.ordinal as c_int));
        current.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDevice(device: c_int) -> CudaError {
    answer(|| {
        let ordinal = usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
        let Current {
            session, machine, ..
        } = set_current(ordinal)?;
        session.ensure_context(machine);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaInitDevice(
    device: c_int,
    _device_flags: c_uint,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = of_argument(device)?;
        session.ensure_context(machine);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDeviceFlags(_flags: c_uint) -> CudaError {
    answer(|| current().map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceFlags(flags: *mut c_uint) -> CudaError {
    answer(|| {
        output(flags)?.set(0);
        current().map(drop)
    })
}

/// Writes a `cudaDeviceProp` in the given layout.
///
/// # Safety
/// `prop` must be null or hold one of that layout.
unsafe fn properties(prop: *mut c_void, device: c_int, layout: Layout) -> CudaError {
    answer(|| {
        if prop.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let Current {
            session, machine, ..
        } = of_argument(device)?;
        let bytes = device_prop(session, machine as u32, layout);
        // SAFETY: promised by the caller; the layouts are the whole structs.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), prop.cast(), bytes.len()) };
        Ok(())
    })
}

/// CUDA 13 gave the plain name the new layout; programs of CUDA 12 call `_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties(prop: *mut c_void, device: c_int) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { properties(prop, device, Layout::Cuda13) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties_v2(prop: *mut c_void, device: c_int) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { properties(prop, device, Layout::Cuda12) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetAttribute(
    value: *mut c_int,
    number: c_int,
    device: c_int,
) -> CudaError {
    answer(|| {
        let value = output(value)?;
        let found = of_argument(device).map(|c| attribute(c.session, c.machine as u32, number));
        value.set(found.ok().flatten().unwrap_or(0));
        found?.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}

/// The address of a device on the bus, as CUDA writes it.
pub(crate) fn bus_id(machine: usize) -> String {
    format!("0000:{:02x}:00.0", machine + 1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetPCIBusId(
    id: *mut c_char,
    len: c_int,
    device: c_int,
) -> CudaError {
    answer(|| {
        let text = bus_id(of_argument(device)?.machine);
        let room = usize::try_from(len).unwrap_or(0);
        if id.is_null() || room <= text.len() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller gives room for `len` characters, and the text with its NUL is shorter.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), id, text.len());
            id.add(text.len()).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetByPCIBusId(
    device: *mut c_int,
    id: *const c_char,
) -> CudaError {
    answer(|| {
        let device = output(device)?;
        if id.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller passes a C string.
        let id = unsafe { CStr::from_ptr(id) }
            .to_string_lossy()
            .to_ascii_lowercase();
        let found = started()?
            .visible()
            .iter()
            .position(|machine| id.ends_with(&bus_id(*machine as usize)));
        device.set(found.map_or(-1, |ordinal| ordinal as c_int));
        found.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> CudaError {
    answer(|| {
        // SAFETY: both may be null, and are ints otherwise.
        unsafe {
            put(least, 0);
            put(greatest, -5);
        }
        current().map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSynchronize() -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        refuse_waiting_for_all()?;
        crate::clock::seen_all();
        settle(session);
        Ok(())
    })
}

/// Devices of the machine do not reach each other: peers are part of no verdict yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceCanAccessPeer(
    can: *mut c_int,
    device: c_int,
    peer: c_int,
) -> CudaError {
    answer(|| {
        let can = output(can)?;
        let devices = of_argument(device).and_then(|first| Ok((first, of_argument(peer)?)));
        // Of this machine, every two devices can reach each other.
        let reaches = devices.is_ok_and(|(first, second)| first.machine != second.machine);
        can.set(c_int::from(reaches));
        devices.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetP2PAttribute(
    value: *mut c_int,
    _attribute: c_int,
    device: c_int,
    peer: c_int,
) -> CudaError {
    answer(|| {
        output(value)?.set(0);
        of_argument(device)?;
        of_argument(peer).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetLimit(value: *mut usize, limit: c_int) -> CudaError {
    answer(|| {
        // The defaults of stack, printf buffer and malloc heap.
        let default = match limit {
            0 => Some(1024),
            1 => Some(1 << 20),
            2 => Some(8 << 20),
            _ => None,
        };
        output(value)?.set(default.unwrap_or(0));
        current()?;
        default.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}
