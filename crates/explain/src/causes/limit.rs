//! A limit that was set: a memory fraction, a quota.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Limit,
    title: "a limit that was set",
    meaning: "`set_per_process_memory_fraction`, the same setting in the allocator's configuration, or a server's share allows only a part of the card.",
    apart: "The text names an amount that is allowed, below the card; or there is room on the card for the request.",
    check: "grep -rn 'memory_fraction\\|gpu_memory_utilization\\|PYTORCH_CUDA_ALLOC_CONF' .",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::V2Preempt) {
        return Some(Finding::decided(
            "PyTorch refused the request itself, because it is above the memory fraction that was set",
        ));
    }
    let figures = &case.failure.figures;
    // The limit of Apple's GPUs is one of the system, and part of every text.
    if case.backend() == Backend::Mps {
        return None;
    }
    let free = case
        .balance
        .as_ref()
        .is_some_and(crate::balance::Balance::free_covers_request);
    let Some(allowed) = figures.allowed_bytes else {
        return free.then(|| {
            Finding::candidate(
                36,
                "the card had room; some releases do not print a limit that is set",
            )
        });
    };
    let total = figures.total_bytes?;
    if crate::balance::share(allowed, total) >= 99 {
        return None;
    }
    let reserved = figures
        .reserved_bytes
        .or(figures.allocated_bytes)
        .unwrap_or_default();
    let tried = figures.tried_bytes?;
    let evidence =
        format!("{allowed} of {total} was allowed, {reserved} was reserved and {tried} asked for");
    Some(match (reserved + tried > allowed, free) {
        (true, true) => Finding::decided(evidence),
        (true, false) => Finding::candidate(80, evidence),
        (false, _) => Finding::candidate(50, evidence),
    })
}
