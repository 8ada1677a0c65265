//! The allocator holds enough, but in pieces: every piece lies in a segment with something alive in it, because wholly
//! free segments were released before the text was written.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

/// What lies idle between live blocks in any program.
const ORDINARY_SLACK: Bytes = Bytes::from_mib(512);

/// More than this lies idle in no program without a reason.
const MUCH_SLACK: Bytes = Bytes::from_gib(2);

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Fragmentation,
    title: "fragmentation",
    meaning: "PyTorch holds enough memory that no tensor uses, but in pieces between live tensors, none of which is large enough.",
    apart: "Reserved but unallocated is larger than the request and a good part of the card; when allocated is close to reserved it is something else.",
    check: "oomproof replay SNAPSHOT --search",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::ExpandableAssert) {
        return Some(Finding::candidate(
            85,
            "`max_split_size_mb` and `expandable_segments` are set together, and the allocator cannot free segments under both",
        ));
    }
    if case.is(Format::CudaDriverError) {
        return Some(Finding::candidate(
            44,
            "the error is of the driver's mapping calls, which PyTorch makes with `expandable_segments` on",
        ));
    }
    let Some(balance) = case.balance.as_ref() else {
        return from_what_is_left(case);
    };
    let tried = balance.tried_bytes?;
    let idle = balance.idle_bytes;
    if tried > balance.total_bytes {
        return None;
    }
    let percent = balance.percent(idle);
    let free = balance.free_bytes.unwrap_or_default();
    let is_large = percent >= 10 && idle >= ORDINARY_SLACK;
    let score = match (idle >= tried, is_large) {
        (true, true) if percent >= 25 => 84,
        (true, true) => 76,
        (true, false) if percent >= 5 && idle >= ORDINARY_SLACK => 45,
        (false, true) if idle + free >= tried => 50,
        (true, false) if tried > Bytes::from_mib(20) && idle >= ORDINARY_SLACK => 30,
        (true, false) if tried > Bytes::from_mib(20) => 20,
        _ => return None,
    };
    let score = if case.cues.expandable_segments() {
        score / 2
    } else {
        score
    };
    let finding = Finding::candidate(
        score,
        format!(
            "{idle} was reserved without a tensor in it ({percent} % of the card), and {tried} was asked for"
        ),
    );
    let hole = case.held.and_then(|held| held.largest_hole_bytes);
    Some(match hole {
        Some(hole) => finding.and(format!("the largest piece without a tensor was {hole}")),
        None => finding,
    })
}

/// A cut text may still say how much was in the cache, and nothing to compare that with.
fn from_what_is_left(case: &Case<'_>) -> Option<Finding> {
    let idle = case.failure.figures.unallocated_bytes?;
    let tried = case.tried().unwrap_or_default();
    (idle >= MUCH_SLACK && idle >= tried).then(|| {
        Finding::candidate(
            56,
            format!(
                "{idle} was reserved without a tensor in it; the rest of the figures is cut off"
            ),
        )
    })
}
