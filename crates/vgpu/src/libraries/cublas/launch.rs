//! What a cuBLAS call that computes does here: it checks its handle and spoils what is known of its outputs.

use super::CublasStatus;
use super::handle::Handle;
use crate::session::session;

/// Functions that write device memory: a handle, then the parameters, then the outputs among them.
macro_rules! launches {
    ($($name:ident($($parameter:ident: $type:ty),*) writes [$($output:ident),*];)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> super::CublasStatus {
            // Most parameters say how to compute, which is not done.
            let _ = ($($parameter,)*);
            super::launch::launch(handle, stringify!($name), &[$($output),*])
        }
    )+ };
}

/// Accepts a call of `name` on `handle` that would have written device memory from each of `outputs` on.
pub(super) fn launch(handle: u64, name: &str, outputs: &[u64]) -> CublasStatus {
    let Some(session) = session() else {
        return CublasStatus::NOT_INITIALIZED;
    };
    if !session.handles::<Handle>().has(handle) {
        return CublasStatus::NOT_INITIALIZED;
    }
    session.library_wrote(name, outputs);
    CublasStatus::SUCCESS
}
