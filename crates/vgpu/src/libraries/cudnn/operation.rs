//! What a cuDNN call that computes does here: it checks its handle, notes its scratch memory and spoils what is known
//! of its outputs.

use super::CudnnStatus;
use super::handle::session_of;

/// Functions that compute: a handle and parameters, the outputs among them, and scratch or reserve memory.
macro_rules! operations {
    ($($name:ident($($parameter:ident: $type:ty),* $(,)?)
        writes [$($output:ident),*] scratch [$($scratch:ident),*];)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> super::CudnnStatus {
            // Most parameters say how to compute, which is not done.
            let _ = ($($parameter),*);
            super::operation::operate(handle, stringify!($name), &[$($output),*], &[$($scratch),*])
        }
    )+ };
}

/// Accepts a call of `name` that would have written from each of `outputs` on, with scratch memory at `scratch`.
pub(super) fn operate(handle: u64, name: &str, outputs: &[u64], scratch: &[u64]) -> CudnnStatus {
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    for &address in scratch {
        session.workspace(address);
    }
    session.library_wrote(name, outputs);
    CudnnStatus::SUCCESS
}
