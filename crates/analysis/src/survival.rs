//! Whether the script went on after PyTorch ran out of memory. An error that is caught and followed by a whole step is
//! how programs search for a batch size; one that is caught and only printed is a failure. A script that only
//! infers has no steps, so there running the model again and a clean end count.

use oomproof_profile::Phase;

use crate::circumstances::{Circumstances, EndedBy};
use crate::timeline::Timeline;

/// Did work go on after the record with number `at`?
pub(crate) fn survived(timeline: &Timeline, at: usize, circumstances: &Circumstances) -> bool {
    let later_step = timeline.steps.iter().any(|step| step.at > at);
    let said_so = timeline
        .notes
        .iter()
        .any(|note| note.kind == "oom_survived" && note.at > at);
    let only_infers = !timeline.entered(Phase::Backward) && timeline.steps.is_empty();
    let ran_a_model_again = only_infers
        && circumstances.ended_by == EndedBy::Script
        && circumstances.exit_code == Some(0)
        && timeline.last_in_module.is_some_and(|last| last > at);
    later_step || said_so || ran_a_model_again
}
