//! A cuBLASLt handle. A cuBLAS handle is one too, as PyTorch takes for granted.

use crate::libraries::cublas::{CublasStatus, is_cublas_handle, version, version_number};
use crate::session::{Session, session};
use crate::status::put;

/// State of one handle: none.
struct LtHandle;

/// The session, if `handle` is one of this library.
pub(super) fn session_of(handle: u64) -> Result<&'static Session, CublasStatus> {
    session()
        .filter(|session| {
            session.handles::<LtHandle>().has(handle) || is_cublas_handle(session, handle)
        })
        .ok_or(CublasStatus::NOT_INITIALIZED)
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtCreate(handle: *mut u64) -> CublasStatus {
    let session = session();
    let new = session
        .filter(|_| !handle.is_null())
        .map_or(0, |session| session.handles().add(LtHandle));
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put(handle, new) };
    match session {
        None => CublasStatus::NOT_INITIALIZED,
        Some(_) if handle.is_null() => CublasStatus::INVALID_VALUE,
        Some(_) => CublasStatus::SUCCESS,
    }
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtDestroy(handle: u64) -> CublasStatus {
    match session().and_then(|session| session.handles::<LtHandle>().remove(handle)) {
        Some(_) => CublasStatus::SUCCESS,
        None => CublasStatus::NOT_INITIALIZED,
    }
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetVersion() -> usize {
    version().map_or(0, |version| version_number(version) as usize)
}

/// The version of the CUDA runtime that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetCudartVersion() -> usize {
    session().map_or(0, |session| session.settings.cuda_version as usize)
}

/// A part of the version: 0 major, 1 minor, 2 patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtGetProperty(kind: i32, value: *mut i32) -> CublasStatus {
    let part = version().and_then(|version| version.get(usize::try_from(kind).ok()?).copied());
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(value, part.unwrap_or(0)) };
    match part {
        Some(_) if !value.is_null() => CublasStatus::SUCCESS,
        _ => CublasStatus::INVALID_VALUE,
    }
}
