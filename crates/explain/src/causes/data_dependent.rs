//! Sizes that depend on the sample: the longest text, the most crowded image, the last batch of a bucket.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::moment::Moment;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::DataDependent,
    title: "the size depends on the sample",
    meaning: "Most batches fit and the longest or most crowded one does not, so it fails late, at a step that shuffling changes.",
    apart: "It fails late, the request is large, and memory did not climb before.",
    check: "oomproof run --memory MEMORY --full SCRIPT",
    detect,
};

/// From this step on ordinary batches have passed.
const LATE: u64 = 20;

fn detect(case: &Case<'_>) -> Option<Finding> {
    let training = matches!(
        case.phase(),
        None | Some(Moment::Forward | Moment::Backward)
    );
    if !training {
        return None;
    }
    if let Some(step) = case
        .cues
        .steps_done(case.failure)
        .filter(|step| *step >= LATE)
    {
        return Some(Finding::candidate(
            50,
            format!("{step} steps had passed before one did not"),
        ));
    }
    let balance = case.balance.as_ref()?;
    let tried = balance.tried_bytes?;
    let percent = balance.percent(tried);
    ((3..30).contains(&percent) && balance.percent(balance.live_bytes) >= 40).then(|| {
        Finding::candidate(
            22,
            format!("a request of {tried} is of a size that grows with the batch or the sequence"),
        )
    })
}
