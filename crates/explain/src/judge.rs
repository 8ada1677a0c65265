//! From findings to a ranking. Scores order the candidates; whether one is sure is the word of its detector alone,
//! and stands only while no other cause is decided too.

use serde::Serialize;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding, Weight};
use crate::causes::CAUSES;

/// Fewer points than this is no candidate worth naming.
const LEAST: u8 = 12;

/// One cause with what speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Which it is.
    pub id: CauseId,
    /// What it is, in a few words.
    pub title: &'static str,
    /// From 0 to 100; it orders the causes of one failure and is no probability.
    pub score: u8,
    /// Whether the evidence decides it.
    pub sure: bool,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// What tells it from causes that look like it.
    pub apart: &'static str,
}

/// The causes of a case, the likeliest first.
pub(crate) fn causes(case: &Case<'_>) -> Vec<Candidate> {
    let mut found: Vec<(&Cause, Finding)> = CAUSES
        .iter()
        .filter_map(|cause| (cause.detect)(case).map(|finding| (cause, finding)))
        .filter(|(_, finding)| finding.score() >= LEAST)
        .collect();
    // The sort is stable: of equals the order of the table holds.
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.score()));
    let decided = found
        .iter()
        .filter(|(_, finding)| finding.weight == Weight::Decided)
        .count();
    found
        .into_iter()
        .map(|(cause, finding)| Candidate {
            id: cause.id,
            title: cause.title,
            score: finding.score(),
            sure: decided == 1 && finding.weight == Weight::Decided,
            evidence: finding.evidence,
            apart: cause.apart,
        })
        .collect()
}

/// The cause with this id.
pub(crate) fn described(id: CauseId) -> &'static Cause {
    CAUSES
        .iter()
        .find(|cause| cause.id == id)
        .expect("a test finds each id in the table")
}
