//! One tensor that is absurdly large. A batch that is a little smaller will not do; the shape is wrong, or an
//! operation makes a matrix that nobody thought of.

use oomproof_units::Bytes;

use crate::balance::share;
use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::SingleHuge,
    title: "one huge block",
    meaning: "A single request is a large part of the card or larger: logits of a long sequence, attention scores, a broadcast or a wrong shape, the work space of a convolution.",
    apart: "The request itself is large next to the card, wherever it fails; a smaller batch helps only in proportion.",
    check: "oomproof run --memory MEMORY SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::AbsurdSize) {
        return Some(Finding::decided(
            "the size that was asked for is negative or more than any memory has: it was computed wrongly",
        ));
    }
    if case.backend() == Backend::Host {
        return None;
    }
    let tried = case.tried()?;
    if case.is(Format::MpsBuffer) {
        return Some(Finding::decided(format!(
            "one buffer of {tried} was asked for, which is more than the device allows for a single one"
        )));
    }
    let total = case
        .failure
        .figures
        .total_bytes
        .or(case.failure.figures.allowed_bytes)
        .or(case.balance.as_ref().map(|balance| balance.total_bytes));
    let Some(total) = total else {
        return large_by_itself(case, tried);
    };
    // Scores, logits and work spaces need something on the card to be computed from.
    let first_of_all = case
        .balance
        .as_ref()
        .is_some_and(|balance| balance.reserved() == Bytes::ZERO);
    if tried > total && first_of_all {
        return Some(Finding::candidate(
            66,
            format!("the very first request, of {tried}, is larger than the whole card of {total}"),
        ));
    }
    if tried > total {
        return Some(Finding::decided(format!(
            "one request of {tried} is larger than the whole card of {total}"
        )));
    }
    let percent = share(tried, total);
    let score = match percent {
        50.. => 78,
        30..=49 => 58,
        20..=29 => 42,
        12..=19 => 25,
        _ => return None,
    };
    Some(Finding::candidate(
        score,
        format!("one request of {tried} is {percent} % of the card"),
    ))
}

fn large_by_itself(case: &Case<'_>, tried: Bytes) -> Option<Finding> {
    let gib = tried.get() >> 30;
    let score = match gib {
        // More than any card that is sold.
        300.. => {
            return Some(Finding::decided(format!(
                "one request of {tried} is larger than any card"
            )));
        }
        24.. => 75,
        4.. => 50,
        _ if case.says("cannotallocatememoryblock") => 45,
        _ => return None,
    };
    Some(Finding::candidate(score, format!("one request of {tried}")))
}
