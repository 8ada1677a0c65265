//! cuSOLVER: handles and settings only. Factorizations and their scratch sizes are not modelled; the stand-ins say so by
//! name.

use crate::session::session;
use crate::status::put;

/// `cusolverStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CusolverStatus(pub i32);

impl CusolverStatus {
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
pub unsafe extern "C" fn cusolverDnCreate(handle: *mut u64) -> CusolverStatus {
    let session = session();
    let new = session
        .filter(|_| !handle.is_null())
        .map_or(0, |session| session.handles().add(Handle { stream: 0 }));
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put(handle, new) };
    match session {
        None => CusolverStatus::NOT_INITIALIZED,
        Some(_) if new == 0 => CusolverStatus::INVALID_VALUE,
        Some(_) => CusolverStatus::SUCCESS,
    }
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub extern "C" fn cusolverDnDestroy(handle: u64) -> CusolverStatus {
    match session().and_then(|session| session.handles::<Handle>().remove(handle)) {
        Some(_) => CusolverStatus::SUCCESS,
        None => CusolverStatus::NOT_INITIALIZED,
    }
}

/// Chooses the stream.
#[unsafe(no_mangle)]
pub extern "C" fn cusolverDnSetStream(handle: u64, stream: u64) -> CusolverStatus {
    let change = |handle: &mut Handle| handle.stream = stream;
    match session().and_then(|session| session.handles().with(handle, change)) {
        Some(()) => CusolverStatus::SUCCESS,
        None => CusolverStatus::NOT_INITIALIZED,
    }
}

/// The stream of a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnGetStream(handle: u64, stream: *mut u64) -> CusolverStatus {
    let kept = session().and_then(|session| {
        session
            .handles()
            .with(handle, |handle: &mut Handle| handle.stream)
    });
    // SAFETY: the caller passes a place for a stream or null.
    unsafe { put(stream, kept.unwrap_or(0)) };
    match kept {
        None => CusolverStatus::NOT_INITIALIZED,
        Some(_) if stream.is_null() => CusolverStatus::INVALID_VALUE,
        Some(_) => CusolverStatus::SUCCESS,
    }
}

/// Settings of a solver; which ones is left to the functions that are not modelled.
struct Parameters;

macro_rules! parameters {
    ($($create:ident, $destroy:ident;)+) => { $(
        #[doc = concat!("`", stringify!($create), "`: makes settings of a solver.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(out: *mut u64) -> CusolverStatus {
            let session = session();
            let new = session.filter(|_| !out.is_null()).map_or(0, |session| session.handles().add(Parameters));
            // SAFETY: the caller passes a place for a handle or null.
            unsafe { put(out, new) };
            match session {
                None => CusolverStatus::NOT_INITIALIZED,
                Some(_) if new == 0 => CusolverStatus::INVALID_VALUE,
                Some(_) => CusolverStatus::SUCCESS,
            }
        }

        #[doc = concat!("`", stringify!($destroy), "`: ends settings of a solver.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(parameters: u64) -> CusolverStatus {
            match session().and_then(|session| session.handles::<Parameters>().remove(parameters)) {
                Some(Parameters) => CusolverStatus::SUCCESS,
                None => CusolverStatus::INVALID_VALUE,
            }
        }
    )+ };
}

parameters! {
    cusolverDnCreateParams, cusolverDnDestroyParams;
    cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo;
    cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo;
}
