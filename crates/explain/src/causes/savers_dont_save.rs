//! Means that save less than was hoped: adapters keep activations, checkpointing is switched off by accident, offload
//! has a unit larger than the card.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::SaversDontSave,
    title: "a saver that saves less than expected",
    meaning: "LoRA keeps the activations of the whole model, gradient checkpointing is not in effect, or offloading needs a unit on the card that does not fit.",
    apart: "A memory saver is in use, and the peak is close to what it is without it.",
    check: "oomproof run --memory MEMORY SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    let saver = case.cues.savers()?;
    Some(Finding::candidate(
        38,
        format!("{saver} is in use, and memory ran out all the same"),
    ))
}
