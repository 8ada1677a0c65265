//! Peaks while a checkpoint is read or written: the old and the new copy side by side, every rank with all of it, a
//! full state dict gathered on one device.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Backend;
use crate::moment::Moment;
use crate::script::Suspicion;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::LoadSaveResume,
    title: "a peak while loading, resuming or saving",
    meaning: "A checkpoint is read onto the card beside the live model, every rank loads all of it, or saving gathers it on one device.",
    apart: "A fresh start passes and resuming fails, or it fails where a checkpoint is written.",
    check: "oomproof run --memory MEMORY SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    let phase = case
        .phase()
        .filter(|phase| matches!(phase, Moment::Load | Moment::Save));
    let reads = [
        "torch.load(",
        "load_state_dict",
        "load_checkpoint",
        "resume",
        "save",
    ];
    let suspect = case
        .suspects
        .iter()
        .find(|suspect| suspect.does == Suspicion::LoadsOntoDevice);
    let by_script = suspect.map(|suspect| {
        Finding::candidate(
            if phase.is_some() { 84 } else { 30 },
            format!("line {} of the script: `{}`", suspect.line, suspect.code),
        )
    });
    let by_phase = phase.map(|phase| {
        let checkpoint = case.runs(&reads);
        let score = match (phase, &checkpoint) {
            (Moment::Save, _) => 86,
            (_, Some(_)) => 84,
            _ => 58,
        };
        let evidence = checkpoint.unwrap_or_else(|| format!("it failed {}", phase.clause()));
        Finding::candidate(
            if case.backend() == Backend::Host {
                score / 2
            } else {
                score
            },
            evidence,
        )
    });
    match by_phase {
        Some(finding) => Some(finding.or_stronger(by_script)),
        None => by_script,
    }
}
