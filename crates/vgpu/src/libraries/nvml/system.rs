//! Starting and ending NVML, and the versions of the driver.

use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, Ordering};

use super::NvmlStatus;
use crate::session::{Session, session};
use crate::status::put;

static USERS: AtomicU32 = AtomicU32::new(0);

/// The session, if NVML was started.
pub(super) fn started() -> Result<&'static Session, NvmlStatus> {
    session()
        .filter(|_| USERS.load(Ordering::Relaxed) > 0)
        .ok_or(NvmlStatus::UNINITIALIZED)
}

/// Starts NVML.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> NvmlStatus {
    if session().is_none() {
        return NvmlStatus::DRIVER_NOT_LOADED;
    }
    USERS.fetch_add(1, Ordering::Relaxed);
    NvmlStatus::SUCCESS
}

/// Starts NVML.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit() -> NvmlStatus {
    nvmlInit_v2()
}

/// Starts NVML; the flags say what to do about machines without devices.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(flags: u32) -> NvmlStatus {
    let _ = flags;
    nvmlInit_v2()
}

/// Ends NVML for one user.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> NvmlStatus {
    let one_less = USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |users| {
        users.checked_sub(1)
    });
    if one_less.is_ok() {
        NvmlStatus::SUCCESS
    } else {
        NvmlStatus::UNINITIALIZED
    }
}

/// Writes a text with its NUL, or an empty one when it does not fit.
///
/// # Safety
/// `out` must be null or valid for writing `room` characters.
pub(super) unsafe fn put_text(
    out: *mut c_char,
    room: u32,
    text: Result<&str, NvmlStatus>,
) -> NvmlStatus {
    let status = match text {
        Err(error) => error,
        Ok(_) if out.is_null() => return NvmlStatus::INVALID_ARGUMENT,
        Ok(text) if text.len() >= room as usize => NvmlStatus::INSUFFICIENT_SIZE,
        Ok(text) => {
            // SAFETY: there is room for the text and its NUL.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
                put(out.add(text.len()), 0);
            }
            return NvmlStatus::SUCCESS;
        }
    };
    if room > 0 {
        // SAFETY: there is room for one character, or `out` is null.
        unsafe { put(out, 0) };
    }
    status
}

/// The oldest driver that brings a CUDA version.
fn driver_version(cuda: u32) -> &'static str {
    match cuda {
        13_010.. => "590.44.01",
        13_000.. => "580.65.06",
        12_090.. => "575.51.03",
        12_080.. => "570.26",
        12_060.. => "560.28.03",
        12_040.. => "550.54.14",
        12_010.. => "530.30.02",
        _ => "525.60.13",
    }
}

/// The version of the driver: the oldest one that brings the CUDA version of the settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, room: u32) -> NvmlStatus {
    let version = started().map(|session| driver_version(session.settings.cuda_version));
    // SAFETY: the caller passes `room` characters or null.
    unsafe { put_text(out, room, version) }
}

/// The version of NVML: that of the driver behind the major version of CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, room: u32) -> NvmlStatus {
    let version = started().map(|session| {
        let cuda = session.settings.cuda_version;
        format!("{}.{}", cuda / 1000, driver_version(cuda))
    });
    // SAFETY: the caller passes `room` characters or null.
    unsafe { put_text(out, room, version.as_deref().map_err(|error| *error)) }
}

/// The CUDA version of the driver, which is known without starting NVML.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut i32) -> NvmlStatus {
    let version = session().map(|session| session.settings.cuda_version as i32);
    // SAFETY: the caller passes a place for a version or null.
    unsafe { put(out, version.unwrap_or(0)) };
    match version {
        None => NvmlStatus::DRIVER_NOT_LOADED,
        Some(_) if out.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Some(_) => NvmlStatus::SUCCESS,
    }
}

/// The CUDA version of the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut i32) -> NvmlStatus {
    // SAFETY: the same contract.
    unsafe { nvmlSystemGetCudaDriverVersion_v2(out) }
}
