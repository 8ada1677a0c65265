//! Status codes of cuBLAS and cuBLASLt.

use std::ffi::{CStr, c_char};

/// `cublasStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CublasStatus(pub i32);

macro_rules! statuses {
    ($($constant:ident = $code:literal, $name:literal, $text:literal;)+) => {
        impl CublasStatus {
            $(#[doc = concat!("Code ", $code, ".")] pub const $constant: Self = Self($code);)+

            fn name(self) -> &'static CStr {
                match self.0 { $($code => $name,)+ _ => c"CUBLAS_STATUS_UNKNOWN" }
            }

            fn text(self) -> &'static CStr {
                match self.0 { $($code => $text,)+ _ => c"the status is not one of cuBLAS" }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"CUBLAS_STATUS_SUCCESS", c"success";
    NOT_INITIALIZED = 1, c"CUBLAS_STATUS_NOT_INITIALIZED", c"the library was not initialized";
    ALLOC_FAILED = 3, c"CUBLAS_STATUS_ALLOC_FAILED", c"the resource allocation failed";
    INVALID_VALUE = 7, c"CUBLAS_STATUS_INVALID_VALUE", c"an unsupported value or parameter was passed to the function";
    ARCH_MISMATCH = 8, c"CUBLAS_STATUS_ARCH_MISMATCH", c"the function requires a feature absent from the device architecture";
    MAPPING_ERROR = 11, c"CUBLAS_STATUS_MAPPING_ERROR", c"an access to GPU memory space failed";
    EXECUTION_FAILED = 13, c"CUBLAS_STATUS_EXECUTION_FAILED", c"the GPU program failed to execute";
    INTERNAL_ERROR = 14, c"CUBLAS_STATUS_INTERNAL_ERROR", c"an internal operation failed";
    NOT_SUPPORTED = 15, c"CUBLAS_STATUS_NOT_SUPPORTED", c"the functionality requested is not supported";
    LICENSE_ERROR = 16, c"CUBLAS_STATUS_LICENSE_ERROR", c"the functionality requires a license";
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(status: CublasStatus) -> *const c_char {
    status.text().as_ptr()
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusName(status: CublasStatus) -> *const c_char {
    status.name().as_ptr()
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetStatusString(status: CublasStatus) -> *const c_char {
    status.text().as_ptr()
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetStatusName(status: CublasStatus) -> *const c_char {
    status.name().as_ptr()
}
