//! cuSPARSE: handles only. Products and their scratch sizes are not modelled; the stand-ins say so by name.

use crate::session::session;
use crate::status::put;

/// `cusparseStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CusparseStatus(pub i32);

impl CusparseStatus {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// The handle does not exist.
    pub const NOT_INITIALIZED: Self = Self(1);
    /// A pointer is missing.
    pub const INVALID_VALUE: Self = Self(3);
}

/// State of one handle.
struct Handle {
    stream: u64,
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseCreate(handle: *mut u64) -> CusparseStatus {
    let session = session();
    let new = session
        .filter(|_| !handle.is_null())
        .map_or(0, |session| session.handles().add(Handle { stream: 0 }));
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put(handle, new) };
    match session {
        None => CusparseStatus::NOT_INITIALIZED,
        Some(_) if new == 0 => CusparseStatus::INVALID_VALUE,
        Some(_) => CusparseStatus::SUCCESS,
    }
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseDestroy(handle: u64) -> CusparseStatus {
    match session().and_then(|session| session.handles::<Handle>().remove(handle)) {
        Some(_) => CusparseStatus::SUCCESS,
        None => CusparseStatus::NOT_INITIALIZED,
    }
}

/// Chooses the stream.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSetStream(handle: u64, stream: u64) -> CusparseStatus {
    let change = |handle: &mut Handle| handle.stream = stream;
    match session().and_then(|session| session.handles().with(handle, change)) {
        Some(()) => CusparseStatus::SUCCESS,
        None => CusparseStatus::NOT_INITIALIZED,
    }
}

/// The stream of a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseGetStream(handle: u64, stream: *mut u64) -> CusparseStatus {
    let kept = session().and_then(|session| {
        session
            .handles()
            .with(handle, |handle: &mut Handle| handle.stream)
    });
    // SAFETY: the caller passes a place for a stream or null.
    unsafe { put(stream, kept.unwrap_or(0)) };
    match kept {
        None => CusparseStatus::NOT_INITIALIZED,
        Some(_) if stream.is_null() => CusparseStatus::INVALID_VALUE,
        Some(_) => CusparseStatus::SUCCESS,
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
