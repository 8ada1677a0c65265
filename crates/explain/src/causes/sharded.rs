//! Several processes with parts of one model: full copies where parts were expected, buffers of collectives.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;
use crate::moment::Moment;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Sharded,
    title: "sharding that saves less than expected",
    meaning: "Each rank gathers whole layers, keeps full gradients or states, or loads the whole model first; NCCL's buffers come on top.",
    apart: "It is a distributed run, and each rank holds more than its part.",
    check: "oomproof run --gpu NxNAME -m torch.distributed.run --nproc-per-node N SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::Nccl) {
        return Some(Finding::candidate(
            56,
            "NCCL serves several processes, and its buffers grow with their number",
        ));
    }
    let place = case.runs(&[
        "fsdp",
        "deepspeed",
        "_fully_shard",
        "zero/stage",
        "distributed/",
        "megatron",
    ]);
    if let Some(place) = place {
        let gathers = matches!(case.phase(), Some(Moment::Save | Moment::Load));
        return Some(Finding::candidate(if gathers { 74 } else { 60 }, place));
    }
    if case.cues.sharded() {
        return Some(Finding::candidate(40, "the log is of a distributed run"));
    }
    let ranks = case.failures.iter().filter_map(|failure| failure.rank);
    let highest = ranks.max()?;
    Some(Finding::candidate(
        36,
        format!("the log is of a distributed run: it has lines of rank {highest}"),
    ))
}
