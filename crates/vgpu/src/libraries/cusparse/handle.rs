//! Handles and status codes of cuSPARSE.

use crate::libraries::stream_handle::stream_handle;
use crate::session::{Session, session};

stream_handle!(CusparseStatus: cusparseCreate, cusparseDestroy, cusparseSetStream, cusparseGetStream);

impl CusparseStatus {
    /// What was asked for is not modelled.
    pub const NOT_SUPPORTED: Self = Self(10);
}

/// The session, if `handle` is a cuSPARSE handle.
pub(super) fn session_of(handle: u64) -> Result<&'static Session, CusparseStatus> {
    let session = session().ok_or(CusparseStatus::NOT_INITIALIZED)?;
    if session.handles::<Handle>().has(handle) {
        Ok(session)
    } else {
        Err(CusparseStatus::NOT_INITIALIZED)
    }
}

/// Chooses where scalars lie; only 0, on the host, is modelled.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSetPointerMode(handle: u64, mode: i32) -> CusparseStatus {
    match session_of(handle) {
        Err(error) => error,
        Ok(_) if mode == 0 => CusparseStatus::SUCCESS,
        Ok(_) => {
            crate::unsupported::unsupported("cusparseSetPointerMode", "libcusparse.so.12");
            CusparseStatus::NOT_SUPPORTED
        }
    }
}

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
