//! The first step of an optimizer creates its state: as much again as the parameters, or twice that.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::moment::Moment;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::OptimizerFirstStep,
    title: "the optimizer's first step",
    meaning: "Adam creates two tensors for each parameter at its first step, and its default form a temporary copy of them in every step.",
    apart: "Forward and backward of the first step pass, and `optimizer.step()` fails.",
    check: "oomproof run --memory MEMORY --steps 2 SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.phase() != Some(Moment::Optimizer) {
        return None;
    }
    // PyTorch's optimizers create their state there, and do nothing else there that takes memory.
    if let Some(place) = case.runs(&["_init_group"]) {
        return Some(Finding::decided(format!(
            "the optimizer was creating its state: {place}"
        )));
    }
    let place = case.runs(&["optim", "step"]);
    Some(Finding::candidate(
        80,
        place.unwrap_or_else(|| "the optimizer was running".to_owned()),
    ))
}
