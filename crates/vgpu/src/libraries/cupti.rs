//! CUPTI: what a profiler is told when it asks for the kernels of the device, of which there are none to record.
//!
//! A profiler asks for the version and subscribes before anything else; both are refused as on a driver that forbids
//! profiling, and the profile says what follows from that. It then reads the text of that very error from a pointer
//! that only a real answer would set.

use std::ffi::c_char;

use super::estimate::say;
use crate::status::put;

/// `CUptiResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CuptiResult(pub i32);

impl CuptiResult {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// An argument is wrong.
    pub const INVALID_PARAMETER: Self = Self(1);
    /// Profiling is not supported here.
    pub const NOT_SUPPORTED: Self = Self(27);
}

fn refuse() -> CuptiResult {
    say(
        "profiler",
        "profiler_kernels",
        "kernels are not executed, so torch.profiler lists none and its device times are 0; its memory columns are \
         PyTorch's own",
    );
    CuptiResult::NOT_SUPPORTED
}

/// The version of CUPTI: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> CuptiResult {
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(version, 0) };
    refuse()
}

/// Listens to calls of CUDA: refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe(
    subscriber: *mut u64,
    callback: u64,
    data: u64,
) -> CuptiResult {
    // Nothing is ever told.
    let _ = (callback, data);
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put(subscriber, 0) };
    refuse()
}

/// The name of a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetResultString(
    result: CuptiResult,
    text: *mut *const c_char,
) -> CuptiResult {
    let name = match result.0 {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        14 => c"CUPTI_ERROR_NOT_COMPATIBLE",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => c"CUPTI error without a name here",
    };
    // SAFETY: the caller passes a place for a pointer or null.
    unsafe { put(text, name.as_ptr()) };
    if text.is_null() {
        CuptiResult::INVALID_PARAMETER
    } else {
        CuptiResult::SUCCESS
    }
}

/// The last error of the thread: errors are not kept, because each is answered at once.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetLastError() -> CuptiResult {
    CuptiResult::SUCCESS
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn every_result_has_a_text() {
        for code in [-1, 0, 1, 15, 27, 999, 12345] {
            let mut text = std::ptr::null();
            // SAFETY: the output is a place for a pointer.
            let result = unsafe { cuptiGetResultString(CuptiResult(code), &raw mut text) };
            assert_eq!(result, CuptiResult::SUCCESS);
            // SAFETY: what is passed is null or valid for the call, as the test wants it.
            assert!(!unsafe { CStr::from_ptr(text) }.is_empty(), "{code}");
        }
        // SAFETY: what is passed is null or valid for the call, as the test wants it.
        let result = unsafe { cuptiGetResultString(CuptiResult(0), std::ptr::null_mut()) };
        assert_eq!(result, CuptiResult::INVALID_PARAMETER);
    }

    #[test]
    fn a_profiler_is_refused_and_told_why_once() {
        crate::libraries::testing::machine();
        let (mut version, mut subscriber) = (7, 7);
        // SAFETY: the outputs are locals.
        let results = unsafe {
            [
                cuptiGetVersion(&raw mut version),
                cuptiSubscribe(&raw mut subscriber, 1, 2),
                cuptiGetVersion(std::ptr::null_mut()),
            ]
        };
        assert_eq!(results, [CuptiResult::NOT_SUPPORTED; 3]);
        assert_eq!((version, subscriber), (0, 0));
    }
}
