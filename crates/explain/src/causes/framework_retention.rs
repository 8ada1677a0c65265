//! Objects that a framework, a notebook or an earlier trial keeps.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::FrameworkRetention,
    title: "leftovers of an earlier run in the same process",
    meaning: "A notebook, a trainer, a trial or an exception that was caught still refers to an earlier model and its tensors.",
    apart: "The first run in a fresh process passes, and the second fails.",
    check: "python -c 'import gc, torch; gc.collect(); print(torch.cuda.memory_summary())'  # in that process, before the second run",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::BatchFinder) {
        return Some(Finding::candidate(
            48,
            "even a batch of one failed: trials that failed before may still hold their memory",
        ));
    }
    if case.cues.trials() {
        return Some(Finding::candidate(
            64,
            "the log is of several trials in one process",
        ));
    }
    let in_notebook = case
        .failure
        .frames
        .iter()
        .any(|frame| frame.file.starts_with("cell "));
    in_notebook.then(|| {
        Finding::candidate(
            44,
            "it failed in a notebook, whose variables and last exception keep earlier tensors alive",
        )
    })
}
