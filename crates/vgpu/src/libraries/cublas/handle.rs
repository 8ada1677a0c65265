//! A cuBLAS handle: settings that the caller may ask for again.

use super::CublasStatus;
use crate::session::session;
use crate::status::put;

/// State of one handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) stream: u64,
    pub(super) math_mode: i32,
    /// Results of reductions go to device memory instead of the host.
    pub(super) device_results: bool,
    atomics: i32,
    multiprocessors: i32,
}

/// The version of cuBLAS in the form of `cublasGetVersion`.
///
/// The settings do not hold it; it is that of CUDA except for the patch level and, since CUDA 13, sometimes the minor
/// one, and nothing that PyTorch decides by it lies in between.
pub(in crate::libraries) fn version() -> Option<[i32; 3]> {
    let cuda = session()?.settings.cuda_version as i32;
    Some([cuda / 1000, cuda % 1000 / 10, 0])
}

/// A version as one number.
pub(in crate::libraries) fn version_number([major, minor, patch]: [i32; 3]) -> i32 {
    major * 10_000 + minor * 100 + patch
}

fn with<R>(handle: u64, look: impl FnOnce(&mut Handle) -> R) -> Result<R, CublasStatus> {
    session()
        .and_then(|session| session.handles::<Handle>().with(handle, look))
        .ok_or(CublasStatus::NOT_INITIALIZED)
}

fn set(handle: u64, change: impl FnOnce(&mut Handle)) -> CublasStatus {
    with(handle, change).map_or_else(|error| error, |()| CublasStatus::SUCCESS)
}

/// Writes a property of a handle, and `absent` when the handle has none to give.
///
/// # Safety
/// `out` must be null or valid for writing.
unsafe fn get<T>(
    handle: u64,
    out: *mut T,
    absent: T,
    look: impl FnOnce(&mut Handle) -> T,
) -> CublasStatus {
    let (status, value) = match with(handle, look) {
        Ok(_) if out.is_null() => (CublasStatus::INVALID_VALUE, absent),
        Ok(value) => (CublasStatus::SUCCESS, value),
        Err(error) => (error, absent),
    };
    // SAFETY: promised by the caller.
    unsafe { put(out, value) };
    status
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut u64) -> CublasStatus {
    let Some(session) = session() else {
        // SAFETY: the caller passes a place for a handle or null.
        unsafe { put(handle, 0) };
        return CublasStatus::NOT_INITIALIZED;
    };
    if handle.is_null() {
        return CublasStatus::INVALID_VALUE;
    }
    let new = Handle {
        stream: 0,
        math_mode: 0,
        device_results: false,
        atomics: 0,
        multiprocessors: 0,
    };
    // SAFETY: not null, and the caller passes a place for a handle.
    unsafe { put(handle, session.handles().add(new)) };
    CublasStatus::SUCCESS
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: u64) -> CublasStatus {
    match session().and_then(|session| session.handles::<Handle>().remove(handle)) {
        Some(_) => CublasStatus::SUCCESS,
        None => CublasStatus::NOT_INITIALIZED,
    }
}

/// Chooses the stream; as with cuBLAS the workspace goes back to the library's own.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetStream_v2(handle: u64, stream: u64) -> CublasStatus {
    set(handle, |handle| handle.stream = stream)
}

/// The stream of a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetStream_v2(handle: u64, stream: *mut u64) -> CublasStatus {
    // SAFETY: the caller passes a place for a stream or null.
    unsafe { get(handle, stream, 0, |handle| handle.stream) }
}

/// Gives a handle scratch memory.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetWorkspace_v2(handle: u64, workspace: u64, size: usize) -> CublasStatus {
    let status = set(handle, |_| ());
    if status == CublasStatus::SUCCESS
        && size > 0
        && let Some(session) = session()
    {
        session.workspace(workspace);
    }
    status
}

/// Chooses how products are computed.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetMathMode(handle: u64, mode: i32) -> CublasStatus {
    set(handle, |handle| handle.math_mode = mode)
}

/// How products are computed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetMathMode(handle: u64, mode: *mut i32) -> CublasStatus {
    // SAFETY: the caller passes a place for a mode or null.
    unsafe { get(handle, mode, 0, |handle| handle.math_mode) }
}

/// Chooses where scalars lie: 0 on the host, 1 on the device.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetPointerMode_v2(handle: u64, mode: i32) -> CublasStatus {
    match mode {
        0 | 1 => set(handle, |handle| handle.device_results = mode == 1),
        _ => CublasStatus::INVALID_VALUE,
    }
}

/// Where scalars lie.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetPointerMode_v2(handle: u64, mode: *mut i32) -> CublasStatus {
    // SAFETY: the caller passes a place for a mode or null.
    unsafe { get(handle, mode, 0, |handle| i32::from(handle.device_results)) }
}

/// Allows or forbids atomics.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetAtomicsMode(handle: u64, mode: i32) -> CublasStatus {
    set(handle, |handle| handle.atomics = mode)
}

/// Whether atomics are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetAtomicsMode(handle: u64, mode: *mut i32) -> CublasStatus {
    // SAFETY: the caller passes a place for a mode or null.
    unsafe { get(handle, mode, 0, |handle| handle.atomics) }
}

/// Limits the multiprocessors that a product may use.
#[unsafe(no_mangle)]
pub extern "C" fn cublasSetSmCountTarget(handle: u64, count: i32) -> CublasStatus {
    let limit = session().map_or(0, |session| session.settings.device.multiprocessors as i32);
    match count {
        0.. if count <= limit || limit == 0 => set(handle, |handle| handle.multiprocessors = count),
        _ => CublasStatus::INVALID_VALUE,
    }
}

/// The limit of multiprocessors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetSmCountTarget(handle: u64, count: *mut i32) -> CublasStatus {
    // SAFETY: the caller passes a place for a count or null.
    unsafe { get(handle, count, 0, |handle| handle.multiprocessors) }
}

/// The version of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetVersion_v2(handle: u64, out: *mut i32) -> CublasStatus {
    // A handle is not needed, and cuBLAS does not look at it.
    let _ = handle;
    let version = version();
    // SAFETY: the caller passes a place for a version or null.
    unsafe { put(out, version.map_or(0, version_number)) };
    match version {
        None => CublasStatus::NOT_INITIALIZED,
        Some(_) if out.is_null() => CublasStatus::INVALID_VALUE,
        Some(_) => CublasStatus::SUCCESS,
    }
}

/// A part of the version: 0 major, 1 minor, 2 patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetProperty(kind: i32, value: *mut i32) -> CublasStatus {
    let part = version().and_then(|version| version.get(usize::try_from(kind).ok()?).copied());
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(value, part.unwrap_or(0)) };
    match part {
        _ if session().is_none() => CublasStatus::NOT_INITIALIZED,
        Some(_) if !value.is_null() => CublasStatus::SUCCESS,
        _ => CublasStatus::INVALID_VALUE,
    }
}

/// The version of the CUDA runtime that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetCudartVersion() -> usize {
    session().map_or(0, |session| session.settings.cuda_version as usize)
}

/// Whether `handle` is a cuBLAS handle.
pub(in crate::libraries) fn is_cublas_handle(
    session: &crate::session::Session,
    handle: u64,
) -> bool {
    session.handles::<Handle>().has(handle)
}
