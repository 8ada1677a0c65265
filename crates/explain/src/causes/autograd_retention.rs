//! Graphs that user code keeps: a sum of losses, a list of outputs, a hidden state carried over steps.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::moment::Moment;
use crate::script::Suspicion;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::AutogradRetention,
    title: "graphs kept by the script",
    meaning: "A sum of losses, a list of outputs, a hidden state or a hook keeps the graph of each step alive, and memory climbs.",
    apart: "Memory grows with each step and the first steps pass.",
    check: "oomproof run --memory MEMORY --full SCRIPT",
    detect,
};

/// From this step on the first ones have passed.
const LATE: u64 = 20;

fn detect(case: &Case<'_>) -> Option<Finding> {
    let suspect = case.suspects.iter().find(|suspect| {
        matches!(
            suspect.does,
            Suspicion::KeepsGraph | Suspicion::RetainsGraph
        )
    });
    if let Some(suspect) = suspect {
        return Some(Finding::candidate(
            86,
            format!(
                "line {} of the script keeps graphs: `{}`",
                suspect.line, suspect.code
            ),
        ));
    }
    let growth = case.held.map(|held| held.growth_bytes_per_step);
    if let Some(growth) = growth.filter(|growth| *growth > Bytes::ZERO) {
        return Some(Finding::candidate(
            88,
            format!("each step holds {growth} more than the one before"),
        ));
    }
    if let Some(place) = case.runs(&["retain_graph=True", "create_graph=True"]) {
        return Some(Finding::candidate(78, place));
    }
    let training = matches!(case.phase(), Some(Moment::Forward | Moment::Backward));
    let late = case
        .cues
        .steps_done(case.failure)
        .filter(|step| *step >= LATE);
    if let Some(step) = late.filter(|_| training || case.phase().is_none()) {
        return Some(Finding::candidate(
            46,
            format!("{step} steps had passed: what fits at first and not later has grown"),
        ));
    }
    let balance = case.balance.as_ref()?;
    let live = balance.percent(balance.live_bytes);
    (live >= 60 && balance.percent(balance.tried_bytes?) < 5).then(|| {
        Finding::candidate(
            18,
            "a small request failed on a card full of live tensors, as it does at the end of a climb",
        )
    })
}
