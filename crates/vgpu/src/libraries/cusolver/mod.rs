//! cuSOLVER: handles and settings only. Factorizations and their scratch sizes are not modelled; the stand-ins say so by
//! name.

use crate::session::session;
use crate::status::put;

use super::stream_handle::stream_handle;

stream_handle!(CusolverStatus: cusolverDnCreate, cusolverDnDestroy, cusolverDnSetStream, cusolverDnGetStream);

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
