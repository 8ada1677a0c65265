//! How far the scratch memory of closed libraries can move the peak.
//!
//! PyTorch allocated the likely size each time, so its counters hold a guess. The profile says what else was allocated
//! where a range reached further than before; a block that is larger than all before it may not fit into what the
//! allocator holds in store, and then takes a segment of its own.

use oomproof_units::Bytes;

use crate::timeline::Timeline;

/// Segments of blocks up to 1 MiB, up to 10 MiB, and what larger ones are rounded to.
const SMALL: (u64, u64) = (1 << 20, 2 << 20);
const MIDDLE: (u64, u64) = (10 << 20, 20 << 20);
const LARGE: u64 = 2 << 20;

/// What the ranges of a run come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScratchRange {
    /// The peak of allocated memory may be this much lower.
    pub(crate) below: Bytes,
    /// The peak of allocated memory may be this much higher.
    pub(crate) above: Bytes,
    /// The allocator may hold this much more.
    pub(crate) segment: Bytes,
}

impl ScratchRange {
    /// The ranges told in a profile with this peak of allocated bytes.
    pub(crate) fn of(timeline: &Timeline, peak_allocated: u64) -> Self {
        let (mut slack, mut level, mut largest, mut held) = (0u64, 0u64, 0u64, 0u64);
        for note in timeline.notes.iter().filter(|note| note.kind == "scratch") {
            let number = |field| note.number(field).unwrap_or(0);
            let (low, likely, high) = (number("low"), number("likely"), number("high"));
            slack = slack.max(likely.saturating_sub(low));
            level = level.max(number("allocated_without").saturating_add(high));
            if high > largest.max(likely) {
                largest = high;
                held = held.saturating_add(segment(high));
            }
        }
        Self {
            below: Bytes::new(slack.min(peak_allocated)),
            above: Bytes::new(level.saturating_sub(peak_allocated)),
            segment: Bytes::new(held),
        }
    }
}

fn segment(block: u64) -> u64 {
    match block {
        0 => 0,
        _ if block <= SMALL.0 => SMALL.1,
        _ if block < MIDDLE.0 => MIDDLE.1,
        _ => block.checked_next_multiple_of(LARGE).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_those_of_pytorch() {
        let check = |block, expected| assert_eq!(segment(block), expected, "{block}");
        check(0, 0);
        check(1, 2 << 20);
        check(1 << 20, 2 << 20);
        check((1 << 20) + 1, 20 << 20);
        check(10 << 20, 10 << 20);
        check((10 << 20) + 1, 12 << 20);
    }
}
