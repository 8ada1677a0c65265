//! Results of NCCL, their texts, and the last message of a thread.
//!
//! PyTorch puts the text of an error into its exception without looking whether there is one, so a function that
//! answers with a status code in place of a text would end the process.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

/// `ncclResult_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NcclResult(pub i32);

impl NcclResult {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// CUDA refused something.
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    /// The library is not ready.
    pub const INTERNAL_ERROR: Self = Self(3);
    /// An argument is wrong.
    pub const INVALID_ARGUMENT: Self = Self(4);
    /// The arguments of the ranks do not go together.
    pub const INVALID_USAGE: Self = Self(5);
    /// Another rank has ended.
    pub const REMOTE_ERROR: Self = Self(6);
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Remembers what went wrong for `ncclGetLastError`, and gives `result` back.
pub(super) fn refuse(result: NcclResult, text: &str) -> NcclResult {
    LAST.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
    result
}

/// The result of a body that may be refused.
pub(super) fn result(body: impl FnOnce() -> Result<(), NcclResult>) -> NcclResult {
    body().err().unwrap_or(NcclResult::SUCCESS)
}

/// What a result means.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: NcclResult) -> *const c_char {
    let text: &CStr = match result.0 {
        0 => c"no error",
        1 => c"unhandled cuda error",
        2 => c"unhandled system error",
        3 => c"internal error: the virtual GPU does not model this of NCCL",
        4 => c"invalid argument",
        5 => c"invalid usage",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// The last message of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_communicator: u64) -> *const c_char {
    // Valid until the next error of this thread, as with the real library.
    LAST.with_borrow(|last| last.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_a_text() {
        for code in -1..20 {
            // SAFETY: the function gives C strings that live as long as the process.
            let text = unsafe { CStr::from_ptr(ncclGetErrorString(NcclResult(code))) };
            assert!(!text.is_empty(), "{code}");
        }
    }

    #[test]
    fn the_last_message_is_remembered() {
        let refused = refuse(NcclResult::INVALID_USAGE, "two ranks");
        assert_eq!(refused, NcclResult::INVALID_USAGE);
        // SAFETY: the message lives until the next one of this thread.
        let text = unsafe { CStr::from_ptr(ncclGetLastError(0)) };
        assert_eq!(text, c"two ranks");
    }
}
