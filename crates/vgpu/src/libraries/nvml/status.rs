//! Status codes of NVML.

use std::ffi::{CStr, c_char};

/// `nvmlReturn_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NvmlStatus(pub i32);

macro_rules! statuses {
    ($($constant:ident = $code:literal, $text:literal;)+) => {
        impl NvmlStatus {
            $(#[doc = concat!("Code ", $code, ".")] pub const $constant: Self = Self($code);)+

            fn text(self) -> &'static CStr {
                match self.0 { $($code => $text,)+ _ => c"Unknown Error" }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"Success";
    UNINITIALIZED = 1, c"Uninitialized";
    INVALID_ARGUMENT = 2, c"Invalid Argument";
    NOT_SUPPORTED = 3, c"Not Supported";
    NOT_FOUND = 6, c"Not Found";
    INSUFFICIENT_SIZE = 7, c"Insufficient Size";
    DRIVER_NOT_LOADED = 9, c"Driver Not Loaded";
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(status: NvmlStatus) -> *const c_char {
    status.text().as_ptr()
}
