//! What the allocator held before the first entry of a trace.
//!
//! A snapshot shows the end and the trace the way there, so the beginning is found by undoing the trace entry by entry
//! from the end. What was never touched has its exact layout from the snapshot. A block that was freed in between is
//! known by what was asked for; the rest of its size is bounded by its neighbors.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::event::{Action, Event, PoolId};
use crate::undecided::{Question, Undecided};

const MIB: u64 = 1 << 20;
/// Segments of the small pool have this size, and only they.
const SMALL_SEGMENT: u64 = 2 * MIB;

/// A segment, or of an expandable segment a range of mapped pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) stream: u64,
    pub(crate) pool: PoolId,
    pub(crate) is_small: bool,
    pub(crate) is_expandable: bool,
    /// Without gaps, in the order of addresses.
    pub(crate) blocks: Vec<Block>,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) state: BlockState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Allocated,
    /// Freed, and waited for by another stream.
    Pending,
    Free,
}

/// A block in use, while the trace is undone.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// The size of the block where the snapshot shows it.
    size: Option<u64>,
    requested: u64,
    is_pending: bool,
    stream: u64,
}

/// The bytes that a request takes when nothing is known of the settings: multiples of 512.
fn rounded(requested: u64) -> u64 {
    requested.max(1).next_multiple_of(512)
}

/// Undoes `events` from `end`; the segments come in the order of addresses.
///
/// `end` is empty when the input does not show it.
pub(crate) fn undo(end: &[Segment], events: &[Event], undecided: &mut Undecided) -> Vec<Segment> {
    let mut undoing = Undoing::new(end);
    for event in events.iter().rev() {
        undoing.undo(event, undecided);
    }
    let start = undoing.finish(events, undecided);
    if !start.is_empty() {
        undecided.ask(Question::StartInferred);
    }
    start
}

struct Undoing {
    segments: BTreeMap<u64, Segment>,
    live: FxHashMap<u64, Live>,
}

impl Undoing {
    fn new(end: &[Segment]) -> Self {
        let mut live = FxHashMap::default();
        let mut segments = BTreeMap::new();
        for segment in end {
            for block in &segment.blocks {
                if block.state != BlockState::Free {
                    let one = Live {
                        size: Some(block.size),
                        requested: block.requested,
                        is_pending: block.state == BlockState::Pending,
                        stream: segment.stream,
                    };
                    live.insert(block.address, one);
                }
            }
            let bare = Segment {
                blocks: Vec::new(),
                ..segment.clone()
            };
            segments.insert(segment.address, bare);
        }
        Self { segments, live }
    }

    fn undo(&mut self, event: &Event, undecided: &mut Undecided) {
        match event.action {
            Action::Alloc => {
                if self.live.remove(&event.address).is_none() {
                    undecided.ask(Question::EndDiffers);
                }
            }
            Action::FreeCompleted => {
                let one = Live {
                    size: None,
                    requested: event.size,
                    is_pending: true,
                    stream: event.stream,
                };
                if self.live.insert(event.address, one).is_some() {
                    undecided.ask(Question::EndDiffers);
                }
            }
            Action::FreeRequested => {
                self.live
                    .entry(event.address)
                    .and_modify(|one| one.is_pending = false)
                    .or_insert(Live {
                        size: None,
                        requested: event.size,
                        is_pending: false,
                        stream: event.stream,
                    });
            }
            Action::SegmentAlloc => {
                if self.segments.remove(&event.address).is_none() {
                    undecided.ask(Question::EndDiffers);
                }
            }
            Action::SegmentFree => {
                let segment = Segment {
                    address: event.address,
                    size: event.size,
                    stream: event.stream,
                    pool: event.pool.unwrap_or_default(),
                    is_small: event.size == SMALL_SEGMENT,
                    is_expandable: false,
                    blocks: Vec::new(),
                };
                if self.segments.insert(event.address, segment).is_some() {
                    undecided.ask(Question::EndDiffers);
                }
            }
            Action::SegmentMap => self.cut(event, undecided),
            Action::SegmentUnmap => self.join(event),
            Action::OutOfMemory | Action::Other => {}
        }
    }

    /// Takes a mapped range out of the segment that it lies in.
    fn cut(&mut self, event: &Event, undecided: &mut Undecided) {
        let (start, end) = (event.address, event.address + event.size);
        let around = self.segments.range(..=start).next_back();
        let Some((&at, _)) = around.filter(|(_, segment)| segment.address + segment.size >= end)
        else {
            undecided.ask(Question::EndDiffers);
            return;
        };
        let Some(whole) = self.segments.remove(&at) else {
            return;
        };
        let mut keep = |address: u64, until: u64| {
            if until > address {
                let part = Segment {
                    address,
                    size: until - address,
                    ..whole.clone()
                };
                self.segments.insert(address, part);
            }
        };
        keep(whole.address, start);
        keep(end, whole.address + whole.size);
    }

    /// Puts a range back that was unmapped, together with what it touches.
    fn join(&mut self, event: &Event) {
        let mut joined = Segment {
            address: event.address,
            size: event.size,
            stream: event.stream,
            pool: event.pool.unwrap_or_default(),
            is_small: !event.size.is_multiple_of(20 * MIB),
            is_expandable: true,
            blocks: Vec::new(),
        };
        let touches = |segment: &Segment| {
            segment.is_expandable && segment.stream == event.stream
        };
        if let Some((&at, before)) = self.segments.range(..event.address).next_back()
            && touches(before)
            && before.address + before.size == event.address
        {
            joined = Segment {
                size: before.size + joined.size,
                ..before.clone()
            };
            self.segments.remove(&at);
        }
        let end = joined.address + joined.size;
        if let Some(after) = self.segments.get(&end).filter(|after| touches(after)) {
            joined.size += after.size;
            joined.is_small = after.is_small;
            joined.pool = after.pool;
            self.segments.remove(&end);
        }
        self.segments.insert(joined.address, joined);
    }

    fn finish(self, events: &[Event], undecided: &mut Undecided) -> Vec<Segment> {
        let mut live: Vec<(u64, Live)> = self.live.into_iter().collect();
        live.sort_unstable_by_key(|(address, _)| *address);
        let mut segments: Vec<Segment> = self.segments.into_values().collect();
        let mut rest = &live[..];
        for segment in &mut segments {
            let outside = rest.partition_point(|(address, _)| *address < segment.address);
            let end = segment.address + segment.size;
            let inside = rest.partition_point(|(address, _)| *address < end);
            for _ in 0..outside {
                undecided.ask(Question::UnknownBlock);
            }
            segment.blocks = filled(segment, &rest[outside..inside], events, undecided);
            rest = &rest[inside..];
        }
        for _ in rest {
            undecided.ask(Question::UnknownBlock);
        }
        segments
    }
}

/// The blocks of a segment, with free ones in the gaps.
fn filled(
    segment: &Segment,
    live: &[(u64, Live)],
    events: &[Event],
    undecided: &mut Undecided,
) -> Vec<Block> {
    let end = segment.address + segment.size;
    let mut blocks = Vec::with_capacity(live.len() + 1);
    let mut at = segment.address;
    for (idx, &(address, one)) in live.iter().enumerate() {
        if address < at || one.stream != segment.stream {
            undecided.ask(Question::UnknownBlock);
            continue;
        }
        push_free(&mut blocks, at, address);
        let next = live.get(idx + 1).map_or(end, |(next, _)| *next);
        let size = one
            .size
            .unwrap_or_else(|| inferred_size(segment, address, one.requested, next, events, undecided))
            .min(next - address);
        blocks.push(Block {
            address,
            size,
            requested: one.requested,
            state: if one.is_pending {
                BlockState::Pending
            } else {
                BlockState::Allocated
            },
        });
        at = address + size;
    }
    push_free(&mut blocks, at, end);
    blocks
}

fn push_free(blocks: &mut Vec<Block>, from: u64, to: u64) {
    if to > from {
        blocks.push(Block {
            address: from,
            size: to - from,
            requested: 0,
            state: BlockState::Free,
        });
    }
}

/// The size of a block of which only the request is known: free pieces of the large pool are larger than 1 MiB, so a
/// smaller rest belongs to the block; a larger one begins where something is placed first, if that is within reach.
fn inferred_size(
    segment: &Segment,
    address: u64,
    requested: u64,
    next: u64,
    events: &[Event],
    undecided: &mut Undecided,
) -> u64 {
    let size = rounded(requested);
    let gap = (next - address).saturating_sub(size);
    if segment.is_small || segment.is_expandable || gap == 0 {
        return size;
    }
    if gap <= MIB {
        return size + gap;
    }
    undecided.ask(Question::StartBlockSize);
    let reach = address + size..=address + size + MIB;
    let first_beyond = events
        .iter()
        .take_while(|event| !(event.action == Action::FreeCompleted && event.address == address))
        .filter(|event| event.action == Action::Alloc && reach.contains(&event.address))
        .map(|event| event.address)
        .min();
    first_beyond.map_or(size, |found| found - address)
}
