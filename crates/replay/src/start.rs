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
/// Size of the pages of expandable segments of the large pool; those of the small one have 2 MiB.
const LARGE_PAGE: u64 = 20 * MIB;
/// Address space of an expandable segment whose size is not known: a multiple of both pages that never ends.
const EXPANDABLE_RESERVE: u64 = 50_000 * LARGE_PAGE;

/// A segment, or of an expandable segment a range of mapped pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) stream: u64,
    pub(crate) pool: PoolId,
    pub(crate) is_small: bool,
    pub(crate) is_expandable: bool,
    /// Start and size of the address space of an expandable segment, where entries show that it begins before the pages.
    pub(crate) space: Option<(u64, u64)>,
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

/// Undoes `events` from `end`; the segments come in the order of addresses.
///
/// `end` is empty when the input does not show it. `block_size` is how large the block for a request is.
pub(crate) fn undo(
    end: &[Segment],
    events: &[Event],
    block_size: &dyn Fn(u64) -> u64,
    undecided: &mut Undecided,
) -> Vec<Segment> {
    let mut undoing = Undoing::new(end);
    let mut contradictions = Undecided::default();
    for event in events.iter().rev() {
        undoing.undo(event, &mut contradictions);
    }
    // Where the end is not shown, everything that is in use there seems to be missing.
    if !end.is_empty() {
        undecided.extend(&contradictions);
    }
    let start = undoing.finish(events, block_size, undecided);
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
                    space: None,
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
            is_small: !event.size.is_multiple_of(LARGE_PAGE),
            is_expandable: true,
            space: None,
            blocks: Vec::new(),
        };
        let touches = |segment: &Segment| segment.is_expandable && segment.stream == event.stream;
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

    fn finish(
        self,
        events: &[Event],
        block_size: &dyn Fn(u64) -> u64,
        undecided: &mut Undecided,
    ) -> Vec<Segment> {
        let mut live: Vec<(u64, Live)> = self.live.into_iter().collect();
        live.sort_unstable_by_key(|(address, _)| *address);
        let mut segments: Vec<Segment> = self.segments.into_values().collect();
        let mut rest = &live[..];
        let mut uses = Uses {
            events,
            block_size,
            index: None,
        };
        for segment in &mut segments {
            let outside = rest.partition_point(|(address, _)| *address < segment.address);
            let end = segment.address + segment.size;
            let inside = rest.partition_point(|(address, _)| *address < end);
            for _ in 0..outside {
                undecided.ask(Question::UnknownBlock);
            }
            segment.blocks = filled(segment, &rest[outside..inside], &mut uses, undecided);
            rest = &rest[inside..];
        }
        find_spaces(&mut segments, events, undecided);
        for _ in rest {
            undecided.ask(Question::UnknownBlock);
        }
        segments
    }
}

/// Pages of one stream and kind that lie below those which were mapped at the start, and nothing else between, are of
/// the same address space.
fn find_spaces(segments: &mut [Segment], events: &[Event], undecided: &mut Undecided) {
    let is_small_page = |event: &Event| !event.size.is_multiple_of(LARGE_PAGE);
    let mut below: Option<u64> = None;
    for segment in segments {
        let floor = below.replace(segment.address + segment.size);
        if !segment.is_expandable {
            continue;
        }
        undecided.ask(Question::ExpandableReserve);
        let first = events
            .iter()
            .filter(|event| {
                matches!(event.action, Action::SegmentMap | Action::SegmentUnmap)
                    && event.stream == segment.stream
                    && event.address < segment.address
                    && floor.is_none_or(|floor| event.address >= floor)
                    && is_small_page(event) == segment.is_small
            })
            .map(|event| event.address)
            .min();
        let page = if segment.is_small {
            SMALL_SEGMENT
        } else {
            LARGE_PAGE
        };
        let aligned = first.filter(|first| (segment.address - first).is_multiple_of(page));
        segment.space = aligned.map(|first| (first, EXPANDABLE_RESERVE));
    }
}

/// The blocks of a segment, with free ones in the gaps.
fn filled(
    segment: &Segment,
    live: &[(u64, Live)],
    uses: &mut Uses<'_>,
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
            .unwrap_or_else(|| {
                inferred_size(segment, address, one.requested, next, uses, undecided)
            })
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
    uses: &mut Uses<'_>,
    undecided: &mut Undecided,
) -> u64 {
    let size = (uses.block_size)(requested);
    let gap = (next - address).saturating_sub(size);
    if segment.is_small || segment.is_expandable || gap == 0 {
        return size;
    }
    if gap <= MIB {
        return size + gap;
    }
    undecided.ask(Question::StartBlockSize);
    uses.first_behind(address, address + size)
        .map_or(size, |found| found - address)
}

/// When addresses were used first, looked up only when a block's size is in doubt.
struct Uses<'a> {
    events: &'a [Event],
    block_size: &'a dyn Fn(u64) -> u64,
    index: Option<Index>,
}

struct Index {
    /// The first allocation at each address.
    allocated: BTreeMap<u64, usize>,
    /// The first free at each address.
    freed: FxHashMap<u64, usize>,
}

impl Uses<'_> {
    /// The lowest address within 1 MiB of `from` at which something was placed while the block at `address` was there.
    fn first_behind(&mut self, address: u64, from: u64) -> Option<u64> {
        let events = self.events;
        let index = self.index.get_or_insert_with(|| Index::of(events));
        let until = index.freed.get(&address).copied().unwrap_or(events.len());
        let mut near = index.allocated.range(from..=from + MIB);
        near.find(|(_, event_idx)| **event_idx < until)
            .map(|(&found, _)| found)
    }
}

impl Index {
    fn of(events: &[Event]) -> Self {
        let mut index = Self {
            allocated: BTreeMap::new(),
            freed: FxHashMap::default(),
        };
        for (event_idx, event) in events.iter().enumerate() {
            match event.action {
                Action::Alloc => {
                    index.allocated.entry(event.address).or_insert(event_idx);
                }
                Action::FreeCompleted => {
                    index.freed.entry(event.address).or_insert(event_idx);
                }
                _ => {}
            }
        }
        index
    }
}
