//! What a cuDNN call that computes does here: it checks its handle, notes its scratch memory and spoils what is known
//! of its outputs.

use super::CudnnStatus;
use super::handle::timing_of;
use crate::clock::Cost;

/// Functions that compute: a handle and parameters, the outputs among them, and scratch or reserve memory.
macro_rules! operations {
    ($($name:ident($($parameter:ident: $type:ty),* $(,)?)
        writes [$($output:ident),*] scratch [$($scratch:ident),*] $(cost $cost:expr)?;)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> super::CudnnStatus {
            // Most parameters say how to compute, which is not done.
            let _ = ($($parameter),*);
            super::operation::operate(handle, stringify!($name), &[$($output),*], &[$($scratch),*], [$($cost)?].into_iter().next())
        }
    )+ };
}

/// Accepts a call of `name` that would have written from each of `outputs` on, with scratch memory at `scratch`, at
/// this cost where it is known.
pub(super) fn operate(
    handle: u64,
    name: &str,
    outputs: &[u64],
    scratch: &[u64],
    cost: Option<Cost>,
) -> CudnnStatus {
    let (session, timing) = match timing_of(handle, cost) {
        Ok(found) => found,
        Err(error) => return error,
    };
    for &address in scratch {
        session.workspace(address);
    }
    session.library_worked(name, outputs, timing);
    CudnnStatus::SUCCESS
}
