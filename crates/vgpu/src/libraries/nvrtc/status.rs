//! Status codes of NVRTC.

use std::ffi::{CStr, c_char};

/// `nvrtcResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NvrtcStatus(pub i32);

macro_rules! statuses {
    ($($constant:ident = $code:literal, $name:literal;)+) => {
        impl NvrtcStatus {
            $(#[doc = concat!("Code ", $code, ".")] pub const $constant: Self = Self($code);)+

            fn name(self) -> &'static CStr {
                match self.0 { $($code => $name,)+ _ => c"NVRTC_ERROR unknown" }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"NVRTC_SUCCESS";
    PROGRAM_CREATION_FAILURE = 2, c"NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    INVALID_INPUT = 3, c"NVRTC_ERROR_INVALID_INPUT";
    INVALID_PROGRAM = 4, c"NVRTC_ERROR_INVALID_PROGRAM";
    NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8, c"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    NO_LOWERED_NAMES_BEFORE_COMPILATION = 9, c"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    NAME_EXPRESSION_NOT_VALID = 10, c"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(status: NvrtcStatus) -> *const c_char {
    status.name().as_ptr()
}
