//! Handles and settings of cuSOLVER.

use crate::session::{Session, session};
use crate::status::put;

use super::super::stream_handle::stream_handle;

stream_handle!(CusolverStatus: cusolverDnCreate, cusolverDnDestroy, cusolverDnSetStream, cusolverDnGetStream);

/// The session, if `handle` is a cuSOLVER handle.
pub(super) fn session_of(handle: u64) -> Result<&'static Session, CusolverStatus> {
    let session = session().ok_or(CusolverStatus::NOT_INITIALIZED)?;
    if session.handles::<Handle>().has(handle) {
        Ok(session)
    } else {
        Err(CusolverStatus::NOT_INITIALIZED)
    }
}

/// Settings of a solver: how long it iterates, which changes nothing here.
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

macro_rules! settings {
    ($($name:ident($type:ty);)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: accepted for settings that exist.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(parameters: u64, value: $type) -> CusolverStatus {
            let _ = value;
            match session() {
                Some(session) if session.handles::<Parameters>().has(parameters) => CusolverStatus::SUCCESS,
                _ => CusolverStatus::INVALID_VALUE,
            }
        }
    )+ };
}

settings! {
    cusolverDnXgesvdjSetMaxSweeps(i32);
    cusolverDnXgesvdjSetSortEig(i32);
    cusolverDnXgesvdjSetTolerance(f64);
    cusolverDnXsyevjSetMaxSweeps(i32);
    cusolverDnXsyevjSetSortEig(i32);
    cusolverDnXsyevjSetTolerance(f64);
}
