//! Too much on one device: ranks that all use the first one, the outputs of data parallelism, a wrong index.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Device0,
    title: "the wrong device, or one that all use",
    meaning: "Ranks open contexts on or load onto the first GPU, data parallelism gathers there, or a device index is wrong, while other GPUs are idle.",
    apart: "Several processes of the same job hold memory on one device, mostly equal amounts.",
    check: "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if let Some(balance) = &case.balance {
        let equal = balance.equal_processes();
        if equal >= 3 {
            return Some(Finding::candidate(
                90,
                format!(
                    "{equal} other processes hold equal amounts on this device, as the ranks of one job do"
                ),
            ));
        }
        if equal == 2 {
            return Some(Finding::candidate(
                55,
                "two other processes hold equal amounts on this device, as the ranks of one job do",
            ));
        }
    }
    if let Some(place) = case.runs(&[
        "data_parallel.py",
        "parallel_apply",
        "DataParallel(",
        "scatter_gather.py",
    ]) {
        return Some(Finding::candidate(
            66,
            format!("data parallelism in one process gathers on one device: {place}"),
        ));
    }
    let on_first = case.failure.device == Some(0);
    let later_rank = case.failure.rank.filter(|rank| *rank > 0)?;
    on_first.then(|| {
        Finding::candidate(
            48,
            format!("rank {later_rank} ran out of memory on device 0; unless each rank sees one device only, it should use its own"),
        )
    })
}
