//! NCCL: what callers ask to write a message. Communicators are not modelled, and the stand-in says so by name.
//!
//! PyTorch puts the text of an error into its exception without looking whether there is one, so a function that
//! answers with a status code in place of a text would end the process.

use std::ffi::{c_char, c_int};

use crate::session::session;
use crate::status::put;

/// `ncclResult_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NcclResult(pub i32);

impl NcclResult {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// The library is not ready.
    pub const INTERNAL_ERROR: Self = Self(3);
    /// A pointer is missing.
    pub const INVALID_ARGUMENT: Self = Self(4);
}

/// The version of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> NcclResult {
    let known = session().map(|session| session.settings.nccl_version);
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(version, known.unwrap_or(0).cast_signed()) };
    match known {
        None => NcclResult::INTERNAL_ERROR,
        Some(_) if version.is_null() => NcclResult::INVALID_ARGUMENT,
        Some(_) => NcclResult::SUCCESS,
    }
}

/// What a result means.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: NcclResult) -> *const c_char {
    let text = match result.0 {
        0 => c"no error",
        1 => c"unhandled cuda error",
        2 => c"unhandled system error",
        3 => c"internal error: the virtual GPU does not model NCCL",
        4 => c"invalid argument",
        5 => c"invalid usage",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// The last message of the library's own: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_communicator: u64) -> *const c_char {
    c"".as_ptr()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::libraries::testing::machine;

    #[test]
    fn the_version_is_that_of_the_settings() {
        machine();
        let mut version = -1;
        // SAFETY: what is passed is null or valid for the call, as the test wants it.
        let result = unsafe { ncclGetVersion(&raw mut version) };
        assert_eq!((result, version), (NcclResult::SUCCESS, 23007));
        // SAFETY: what is passed is null or valid for the call, as the test wants it.
        let result = unsafe { ncclGetVersion(std::ptr::null_mut()) };
        assert_eq!(result, NcclResult::INVALID_ARGUMENT);
    }

    #[test]
    fn every_result_has_a_text() {
        for code in -1..20 {
            // SAFETY: what is passed is null or valid for the call, as the test wants it.
            let text = unsafe { CStr::from_ptr(ncclGetErrorString(NcclResult(code))) };
            assert!(!text.is_empty(), "{code}");
        }
        // SAFETY: what is passed is null or valid for the call, as the test wants it.
        assert!(unsafe { CStr::from_ptr(ncclGetLastError(0)) }.is_empty());
    }
}
