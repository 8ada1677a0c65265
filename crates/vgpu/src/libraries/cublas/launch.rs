//! What a cuBLAS call that computes does here: it checks its handle and spoils what is known of its outputs.

use super::CublasStatus;
use super::handle::Handle;
use crate::clock::Timing;
use crate::libraries::product::{Product, Singles};
use crate::session::{Session, session};

/// Functions that write device memory: a handle, then the parameters, the outputs among them, and the product that they
/// compute where that is what takes their time.
macro_rules! launches {
    ($($name:ident($($parameter:ident: $type:ty),*) writes [$($output:ident),*] $(product $product:expr)?;)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> super::CublasStatus {
            // Most parameters say how to compute, which is not done.
            let _ = ($($parameter,)*);
            let product = [$($product)?].into_iter().next();
            super::launch::launch(handle, stringify!($name), &[$($output),*], product)
        }
    )+ };
}

/// Accepts a call of `name` on `handle` that would have written device memory from each of `outputs` on.
pub(super) fn launch(
    handle: u64,
    name: &str,
    outputs: &[u64],
    product: Option<Product>,
) -> CublasStatus {
    let Some(session) = session() else {
        return CublasStatus::NOT_INITIALIZED;
    };
    let Some(timing) = timing(session, handle, product) else {
        return CublasStatus::NOT_INITIALIZED;
    };
    session.library_worked(name, outputs, timing);
    CublasStatus::SUCCESS
}

/// What is known of the time of a call on `handle`; `None` where that is no handle.
pub(super) fn timing(session: &Session, handle: u64, product: Option<Product>) -> Option<Timing> {
    let handle = session.handles::<Handle>().with(handle, |handle| *handle)?;
    Some(Timing {
        stream: Some(handle.stream),
        cost: product.map(|product| product.cost(Singles::of_mode(handle.math_mode))),
    })
}
