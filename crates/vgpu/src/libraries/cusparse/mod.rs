//! cuSPARSE: handles only. Products and their scratch sizes are not modelled; the stand-ins say so by name.

use super::stream_handle::stream_handle;

stream_handle!(CusparseStatus: cusparseCreate, cusparseDestroy, cusparseSetStream, cusparseGetStream);

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseGetErrorName(status: CusparseStatus) -> *const std::ffi::c_char {
    let name = match status.0 {
        0 => c"CUSPARSE_STATUS_SUCCESS",
        1 => c"CUSPARSE_STATUS_NOT_INITIALIZED",
        2 => c"CUSPARSE_STATUS_ALLOC_FAILED",
        3 => c"CUSPARSE_STATUS_INVALID_VALUE",
        10 => c"CUSPARSE_STATUS_NOT_SUPPORTED",
        _ => c"unrecognized error code",
    };
    name.as_ptr()
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseGetErrorString(status: CusparseStatus) -> *const std::ffi::c_char {
    let text = match status.0 {
        0 => c"success",
        1 => c"initialization error",
        2 => c"out of memory",
        3 => c"invalid value",
        10 => c"operation not supported",
        _ => c"unrecognized error code",
    };
    text.as_ptr()
}
