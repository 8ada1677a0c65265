//! Starting, devices, errors.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::answer::{answer, give, of_argument, started};
use crate::runtime::attribute;
use crate::session::session;
use crate::status::{CudaError, DriverError, put};
use crate::visible::uuid;

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> DriverError {
    answer(|| {
        if flags == 0 {
            started().map(drop)
        } else {
            Err(DriverError::INVALID_VALUE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            version,
            Ok(session().map_or(0, |session| session.settings.cuda_version as c_int)),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give(device, of_argument(ordinal).map(|_| ordinal)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            count,
            started().map(|session| session.visible().len() as c_int),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(
    name: *mut c_char,
    len: c_int,
    device: c_int,
) -> DriverError {
    answer(|| {
        let room = usize::try_from(len).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err(DriverError::INVALID_VALUE);
        }
        let found = of_argument(device);
        let text = found
            .as_ref()
            .map_or("", |current| current.session.settings.device.name.as_str());
        let n_chars = text.len().min(room - 1);
        // SAFETY: the caller gives room for `len` characters, of which at most all are written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, n_chars);
            name.add(n_chars).write(0);
        }
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            bytes,
            of_argument(device).map(|c| c.session.settings.device.total_bytes as usize),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    number: c_int,
    device: c_int,
) -> DriverError {
    let found = of_argument(device).and_then(|c| {
        attribute(c.session, c.machine as u32, number).ok_or(DriverError::INVALID_VALUE)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(value, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(id: *mut [u8; 16], device: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            id,
            of_argument(device).map(|current| uuid(current.machine as u32)),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(id: *mut [u8; 16], device: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { cuDeviceGetUuid(id, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    id: *mut c_char,
    len: c_int,
    device: c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { crate::runtime::cudaDeviceGetPCIBusId(id, len, device).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    device: c_int,
) -> DriverError {
    let capability =
        of_argument(device).map(|current| current.session.settings.device.compute_capability);
    // SAFETY: as for the CUDA function.
    unsafe {
        let first = give(major, capability.map(|(major, _)| major as c_int));
        let second = give(minor, capability.map(|(_, minor)| minor as c_int));
        if first == DriverError::SUCCESS {
            second
        } else {
            first
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(
    can: *mut c_int,
    device: c_int,
    peer: c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            can,
            of_argument(device).and_then(|first| {
                let second = of_argument(peer)?;
                Ok(c_int::from(first.machine != second.machine))
            }),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(
    error: DriverError,
    text: *mut *const c_char,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give_text(text, error.name()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(
    error: DriverError,
    text: *mut *const c_char,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give_text(text, error.name().map(|_| CudaError(error.0).text())) }
}

/// # Safety
/// `out` must be null or valid.
unsafe fn give_text(out: *mut *const c_char, text: Option<&'static CStr>) -> DriverError {
    // SAFETY: promised by the caller.
    unsafe { put(out, text.map_or(std::ptr::null(), CStr::as_ptr)) };
    if out.is_null() || text.is_none() {
        DriverError::INVALID_VALUE
    } else {
        DriverError::SUCCESS
    }
}

/// Nothing is ever logged, so the callback is never called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLogsRegisterCallback(
    callback: *const c_void,
    _data: *mut c_void,
    handle: *mut u64,
) -> DriverError {
    let registered = started().and_then(|session| {
        if callback.is_null() {
            return Err(DriverError::INVALID_VALUE);
        }
        Ok(session.handles().add(LogCallback))
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(handle, registered) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLogsUnregisterCallback(handle: u64) -> DriverError {
    answer(|| {
        started()?
            .handles::<LogCallback>()
            .remove(handle)
            .map(drop)
            .ok_or(DriverError::INVALID_HANDLE)
    })
}

struct LogCallback;
