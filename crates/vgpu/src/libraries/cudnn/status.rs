//! Status codes of cuDNN.

use std::ffi::{CStr, c_char};

/// `cudnnStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CudnnStatus(pub i32);

macro_rules! statuses {
    ($($constant:ident = $code:literal, $name:literal;)+) => {
        impl CudnnStatus {
            $(#[doc = concat!("Code ", $code, ".")] pub const $constant: Self = Self($code);)+

            fn name(self) -> &'static CStr {
                match self.0 { $($code => $name,)+ _ => c"CUDNN_UNKNOWN_STATUS" }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"CUDNN_STATUS_SUCCESS";
    NOT_INITIALIZED = 1001, c"CUDNN_STATUS_NOT_INITIALIZED";
    BAD_PARAM = 2000, c"CUDNN_STATUS_BAD_PARAM";
    NULL_POINTER = 2002, c"CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    NOT_FINALIZED = 2004, c"CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    SIZE_INSUFFICIENT = 2006, c"CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    ATTRIBUTE_TYPE = 2010, c"CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    DESCRIPTOR_TYPE = 2012, c"CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    NOT_SUPPORTED = 3000, c"CUDNN_STATUS_NOT_SUPPORTED";
    INTERNAL_ERROR = 4000, c"CUDNN_STATUS_INTERNAL_ERROR";
    EXECUTION_FAILED = 5000, c"CUDNN_STATUS_EXECUTION_FAILED";
}

impl CudnnStatus {
    /// Whether the call was accepted.
    pub(super) fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(status: CudnnStatus) -> *const c_char {
    status.name().as_ptr()
}

/// What went wrong last in words: nothing is kept, the status says it all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLastErrorString(message: *mut c_char, size: usize) {
    if size > 0 {
        // SAFETY: the caller passes room for `size` characters, at least one, or null.
        unsafe { crate::status::put(message, 0) };
    }
}
