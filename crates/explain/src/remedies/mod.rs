//! The remedies, by subject. A row in its subject's table is all that a new one needs.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all rows of a table have one type, and most may decline"
)]

use std::sync::LazyLock;

use crate::remedy::Kind;

mod allocator;
mod batch;
mod device;
mod evaluation;
mod host;
mod kernels;
mod lifetime;
mod loading;
mod model;
mod observation;
mod optimizer;
mod parallel;

/// All remedies; of those that rank alike the earlier is named first.
pub(crate) static REMEDIES: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| {
    [
        host::KINDS,
        kernels::KINDS,
        device::KINDS,
        evaluation::KINDS,
        loading::KINDS,
        allocator::KINDS,
        batch::KINDS,
        lifetime::KINDS,
        optimizer::KINDS,
        model::KINDS,
        parallel::KINDS,
        observation::KINDS,
    ]
    .into_iter()
    .flatten()
    .collect()
});
