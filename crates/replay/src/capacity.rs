//! How much memory PyTorch had: a trace shows it only where it ran out.
//!
//! A failed request recorded what the device had free, and that with the segments at the time is all there was. Where
//! the allocator gave memory back for want of it and went on, the size that did not fit is a bound from above, and
//! the highest sum of segments one from below.

use oomproof_units::Bytes;

use crate::event::{Action, Event};
use crate::program::{Program, Step};
use crate::start::Segment;
use crate::undecided::{Question, Undecided};

/// Bytes for PyTorch's segments, and how they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Available {
    /// Nothing was ever refused.
    Unknown,
    /// A failed request recorded what was free.
    AtFailure(Bytes),
    /// A limit below the card's memory was in force: at least this much, less than `below`.
    Limited {
        /// The highest sum of segments.
        at_least: Bytes,
        /// What did not fit.
        below: Bytes,
    },
    /// Memory was given back for want of it: at least this much, less than `below`.
    Between {
        /// The highest sum of segments.
        at_least: Bytes,
        /// What did not fit.
        below: Bytes,
    },
    /// The user said so.
    Given(Bytes),
}

impl Available {
    /// What a what-if may use: the lower end.
    pub const fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Unknown => None,
            Self::AtFailure(bytes) | Self::Given(bytes) => Some(bytes),
            Self::Limited { at_least, .. } | Self::Between { at_least, .. } => Some(at_least),
        }
    }
}

/// What the trace of a device says.
pub(crate) fn available(
    program: &Program,
    start: &[Segment],
    events: &[Event],
    undecided: &mut Undecided,
) -> Available {
    let mut reserved: u64 = start.iter().map(|segment| segment.size).sum();
    let mut highest = reserved;
    let mut at_failure: Option<u64> = None;
    let mut refused: Option<u64> = None;
    let mut is_limited = false;
    for (step_idx, step) in program.steps.iter().enumerate() {
        let before = reserved;
        let mut gave_back = false;
        let mut asked = 0;
        for event in &events[program.entries_of(step_idx)] {
            if event.action.gives_back() {
                reserved = reserved.saturating_sub(event.size);
                gave_back = true;
            } else if event.action.is_of_driver() {
                reserved += event.size;
                asked = event.size;
                highest = highest.max(reserved);
            } else if event.action == Action::OutOfMemory {
                let segment = segment_size(event.size);
                if event.address >= segment {
                    is_limited = true;
                    let below = reserved + segment;
                    refused = Some(refused.map_or(below, |least| least.min(below)));
                } else {
                    let all = reserved + event.address;
                    at_failure = Some(at_failure.map_or(all, |least| least.min(all)));
                }
            }
        }
        if gave_back && matches!(step, Step::Allocate { .. }) {
            let below = before + asked;
            refused = Some(refused.map_or(below, |least| least.min(below)));
        }
    }
    let at_least = Bytes::new(highest);
    let found = match (at_failure, refused) {
        (Some(all), _) if !is_limited => Available::AtFailure(Bytes::new(all.max(highest))),
        (_, Some(below)) if is_limited => Available::Limited {
            at_least,
            below: Bytes::new(below),
        },
        (_, Some(below)) => Available::Between {
            at_least,
            below: Bytes::new(below.max(highest)),
        },
        _ => Available::Unknown,
    };
    match found {
        Available::Unknown => undecided.ask(Question::CapacityUnknown),
        Available::Limited { .. } | Available::Between { .. } => {
            undecided.ask(Question::CapacityIsRange);
        }
        _ => {}
    }
    found
}

/// What the allocator asks of the device for a request, at its default settings.
fn segment_size(rounded: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    if rounded <= MIB {
        2 * MIB
    } else if rounded < 10 * MIB {
        20 * MIB
    } else {
        rounded.next_multiple_of(2 * MIB)
    }
}
