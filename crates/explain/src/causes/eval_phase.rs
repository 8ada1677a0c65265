//! Evaluation: graphs that nobody needs, outputs of the whole set kept, or a batch larger than in training.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::moment::Moment;
use crate::script::Suspicion;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::EvalPhase,
    title: "evaluation needs more than training",
    meaning: "Validation or test runs without `no_grad`, keeps the outputs of the whole set on the card, or uses larger inputs than training.",
    apart: "Training steps pass, and it fails when evaluation begins or after many of its batches.",
    check: "oomproof run --memory MEMORY SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    let in_evaluation = case.phase() == Some(Moment::Evaluation);
    let suspect = case.suspects.iter().find(|suspect| {
        matches!(
            suspect.does,
            Suspicion::GradInEvaluation | Suspicion::CollectsOutputs
        )
    });
    let by_script = suspect.map(|suspect| {
        let score = if in_evaluation { 88 } else { 40 };
        Finding::candidate(
            score,
            format!("line {} of the script: `{}`", suspect.line, suspect.code),
        )
    });
    if in_evaluation {
        let place = case.runs(&["valid", "eval", "test", "predict"]);
        let evidence = place.unwrap_or_else(|| "the log had come to evaluation".to_owned());
        return Some(Finding::candidate(80, evidence).or_stronger(by_script));
    }
    by_script
}
