//! Segments and blocks as a snapshot of PyTorch shows them, and an allocator that goes on from there.

use oomproof_units::{Bytes, DeviceAddress};

use crate::allocator::{Allocator, Configuration};
use crate::block::{Block, BlockId, ExpandableId};
use crate::driver::Driver;
use crate::expandable::Expandable;
use crate::pool::{HalfIndex, PoolId, PoolOptions};
use crate::state_error::StateError;
use crate::statistics::Half;
use crate::stream::Stream;
use crate::trace::{Action, TraceEntry, TraceSink};

/// What a block is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// The program holds it (`active_allocated`).
    Allocated,
    /// The program gave it back, and another stream may still use it (`active_pending_free`).
    PendingFree,
    /// It is free (`inactive`).
    Inactive,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBlock {
    /// Where it begins.
    pub address: DeviceAddress,
    /// How large it is.
    pub size: Bytes,
    /// What was asked for; of a free block by who had it last.
    pub requested: Bytes,
    /// What it is to the program.
    pub state: BlockState,
}

/// How a segment came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// By one call of `cudaMalloc`.
    Fixed,
    /// By mapping pages. A segment is then one unbroken run of pages, and several may share one address space.
    Expandable {
        /// Start and size of the address space, where they are known. A snapshot of PyTorch does not tell; the space
        /// is then taken to begin at the first page that is mapped.
        space: Option<(DeviceAddress, Bytes)>,
    },
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: DeviceAddress,
    /// How large it is.
    pub size: Bytes,
    /// The stream that it belongs to.
    pub stream: Stream,
    /// For which sizes it is.
    pub half: Half,
    /// The pool that it belongs to.
    pub pool: PoolId,
    /// How it came to be.
    pub kind: SegmentKind,
    /// Its blocks, from the first address to the last, without gaps.
    pub blocks: Vec<SegmentBlock>,
}

impl Segment {
    fn sum(
        &self,
        of: impl Fn(&SegmentBlock) -> bool,
        what: impl Fn(&SegmentBlock) -> Bytes,
    ) -> Bytes {
        self.blocks.iter().filter(|block| of(block)).map(what).sum()
    }

    /// `allocated_size`: the blocks that the program holds.
    pub fn allocated(&self) -> Bytes {
        self.sum(
            |block| block.state == BlockState::Allocated,
            |block| block.size,
        )
    }

    /// `active_size`: these, and the ones that another stream may still use.
    pub fn active(&self) -> Bytes {
        self.sum(
            |block| block.state != BlockState::Inactive,
            |block| block.size,
        )
    }

    /// `requested_size`: what was asked for with the active blocks.
    pub fn requested(&self) -> Bytes {
        self.sum(
            |block| block.state != BlockState::Inactive,
            |block| block.requested,
        )
    }
}

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// All segments by address, as `torch.cuda.memory_snapshot()` lists them.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.is_mapped)
            .filter(|(_, block)| {
                let before = block.prev.some().map(|prev| &self.blocks[prev]);
                before.is_none_or(|before| !before.is_mapped)
            })
            .map(|(id, _)| self.segment_from(id))
            .collect();
        segments.sort_by_key(|segment| segment.address);
        segments
    }

    fn segment_from(&self, head: BlockId) -> Segment {
        let first = self.blocks[head];
        let mut blocks = Vec::new();
        let mut at = Some(head);
        while let Some(id) = at
            && self.blocks[id].is_mapped
        {
            let block = &self.blocks[id];
            blocks.push(SegmentBlock {
                address: DeviceAddress::new(block.address),
                size: Bytes::new(block.size),
                requested: Bytes::new(block.requested),
                state: match (block.is_allocated, block.is_active()) {
                    (true, _) => BlockState::Allocated,
                    (false, true) => BlockState::PendingFree,
                    (false, false) => BlockState::Inactive,
                },
            });
            at = block.next.some();
        }
        let space = self
            .expandables
            .get(first.expandable.0 as usize)
            .copied()
            .flatten()
            .map(|space| (DeviceAddress::new(space.address), Bytes::new(space.size)));
        Segment {
            address: DeviceAddress::new(first.address),
            size: blocks.iter().map(|block| block.size).sum(),
            stream: self.streams.get(first.stream),
            half: first.half.half(),
            pool: self.pools[first.half.pool().0 as usize].id,
            kind: if first.is_expandable() {
                SegmentKind::Expandable { space }
            } else {
                SegmentKind::Fixed
            },
            blocks,
        }
    }

    /// [`Allocator::segments`], with the entry in the trace that taking a snapshot leaves.
    pub fn snapshot(&mut self) -> Vec<Segment> {
        let segments = self.segments();
        self.sink.record(TraceEntry {
            action: Action::Snapshot,
            address: DeviceAddress::default(),
            size: segments.iter().map(Segment::active).sum(),
            stream: 0,
            pool: PoolId::DEFAULT,
        });
        segments
    }

    /// An allocator that already has these segments, as if their blocks had been allocated in the order of their
    /// addresses and the statistics had begun then. Private pools have one user.
    ///
    /// The driver is not asked for this memory: it has to know of it already.
    pub fn from_state(
        configuration: Configuration,
        driver: D,
        sink: S,
        state: &[Segment],
    ) -> Result<Self, StateError> {
        let mut allocator = Self::with_trace(configuration, driver, sink);
        let mut sorted: Vec<&Segment> = state.iter().collect();
        sorted.sort_by_key(|segment| segment.address);
        let mut end = 0;
        for segment in sorted {
            let next = checked_end(segment)?;
            if segment.address.get() < end {
                return Err(StateError::Overlap(segment.address));
            }
            end = next;
            allocator.add_state(segment)?;
        }
        Ok(allocator)
    }

    fn add_state(&mut self, segment: &Segment) -> Result<(), StateError> {
        let pool = if segment.pool == PoolId::DEFAULT {
            crate::pool::PoolIndex::DEFAULT
        } else {
            let known = self.pool_ids.get(segment.pool.hash(), &segment.pool);
            known
                .copied()
                .unwrap_or_else(|| self.new_pool(segment.pool, PoolOptions::default()))
        };
        let half = HalfIndex::of(pool, segment.half);
        let stream = self.streams.index(segment.stream);
        match segment.kind {
            SegmentKind::Fixed => {
                self.statistics.segment.increase(segment.half, 1);
                if segment.size.get() >= self.settings.max_split() {
                    self.statistics.oversize_segments.increase(1);
                }
                self.chain(segment, half, stream, ExpandableId::NONE, BlockId::NONE);
            }
            SegmentKind::Expandable { space } => {
                let tail = self.tail_for(segment, half, stream, space)?;
                self.chain_into(segment, half, stream, tail);
            }
        }
        self.count_reserved(half, segment.size.get());
        self.pools[pool.0 as usize].device_allocations += 1;
        Ok(())
    }

    /// The unmapped block in which a run of pages lies, in a space that is known or made for it.
    fn tail_for(
        &mut self,
        segment: &Segment,
        half: HalfIndex,
        stream: u32,
        space: Option<(DeviceAddress, Bytes)>,
    ) -> Result<BlockId, StateError> {
        let (start, end) = (segment.address.get(), checked_end(segment)?);
        let existing = self.halves[half.0 as usize]
            .unmapped
            .of_stream(segment.stream.handle)
            .find(|id| {
                let block = &self.blocks[*id];
                block.address <= start && end <= block.address + block.size
            });
        if let Some(block) = existing {
            return Ok(block);
        }
        let page = self.page_size(half);
        let (address, size) = match space {
            Some((address, size)) => (address.get(), size.get()),
            None => (start, self.reserve_size(page).max(segment.size.get())),
        };
        let holds = address <= start && address.checked_add(size).is_some_and(|last| end <= last);
        if !holds
            || !(start - address).is_multiple_of(page)
            || !segment.size.get().is_multiple_of(page)
        {
            return Err(StateError::Pages(segment.address));
        }
        let expandable = self.add_expandable(Expandable {
            address,
            size,
            page,
        });
        let block = self.add_segment_block(Block {
            address,
            size,
            ..empty_block(half, stream, expandable)
        });
        self.insert_unmapped(block);
        Ok(block)
    }

    /// Puts the blocks of a run of pages into the unmapped block around it.
    fn chain_into(&mut self, segment: &Segment, half: HalfIndex, stream: u32, hole: BlockId) {
        self.remove_unmapped(hole);
        let whole = self.blocks[hole];
        let before = segment.address.get() - whole.address;
        let behind = whole.size - before - segment.size.get();
        let first_prev = if before > 0 {
            self.blocks[hole].size = before;
            self.insert_unmapped(hole);
            hole
        } else {
            self.blocks.remove(hole);
            whole.prev
        };
        let last = self.chain(segment, half, stream, whole.expandable, first_prev);
        let mut next = whole.next;
        if behind > 0 {
            let rest = self.add_block(Block {
                address: segment.address.get() + segment.size.get(),
                size: behind,
                prev: last,
                next: whole.next,
                ..whole
            });
            self.insert_unmapped(rest);
            if let Some(after) = whole.next.some() {
                self.blocks[after].prev = rest;
            }
            next = rest;
        } else if let Some(after) = whole.next.some() {
            self.blocks[after].prev = last;
        }
        self.blocks[last].next = next;
    }

    /// Links the blocks of a segment behind `prev`; the last of them.
    fn chain(
        &mut self,
        segment: &Segment,
        half: HalfIndex,
        stream: u32,
        expandable: ExpandableId,
        prev: BlockId,
    ) -> BlockId {
        let mut last = prev;
        let mut number = prev.some().map(|prev| self.blocks[prev].number);
        for block in &segment.blocks {
            let new = Block {
                address: block.address.get(),
                size: block.size.get(),
                requested: block.requested.get(),
                prev: last,
                number: number.unwrap_or(0),
                is_allocated: block.state == BlockState::Allocated,
                is_mapped: true,
                n_events: u32::from(block.state == BlockState::PendingFree),
                ..empty_block(half, stream, expandable)
            };
            let id = if number.is_some() {
                self.add_block(new)
            } else {
                self.add_segment_block(new)
            };
            number = Some(self.blocks[id].number);
            if let Some(before) = last.some() {
                self.blocks[before].next = id;
            }
            last = id;
            self.count_state(block, id, segment);
        }
        last
    }

    fn count_state(&mut self, block: &SegmentBlock, id: BlockId, segment: &Segment) {
        let half = segment.half;
        let size = block.size.get().cast_signed();
        if block.state == BlockState::Inactive {
            self.insert_free(id);
            if segment.kind == SegmentKind::Fixed && segment.blocks.len() > 1 {
                self.statistics.inactive_split.increase(half, 1);
                self.statistics.inactive_split_bytes.increase(half, size);
            }
            return;
        }
        self.statistics.active.increase(half, 1);
        self.statistics.active_bytes.increase(half, size);
        let requested = block.requested.get().cast_signed();
        self.statistics.requested_bytes.increase(half, requested);
        if block.state == BlockState::PendingFree {
            self.events.stranded.insert(block.address.get(), id);
            return;
        }
        self.held.insert(block.address.get(), id);
        self.statistics.allocation.increase(half, 1);
        self.statistics.allocated_bytes.increase(half, size);
        if block.size.get() >= self.settings.max_split() {
            self.statistics.oversize_allocations.increase(1);
        }
    }
}

fn empty_block(half: HalfIndex, stream: u32, expandable: ExpandableId) -> Block {
    Block {
        address: 0,
        size: 0,
        requested: 0,
        age_base: 0,
        prev: BlockId::NONE,
        next: BlockId::NONE,
        half,
        stream,
        number: 0,
        expandable,
        n_events: 0,
        is_allocated: false,
        is_mapped: false,
        has_users: false,
        is_in_use: true,
    }
}

/// Where a segment ends, once its blocks are known to fill it.
fn checked_end(segment: &Segment) -> Result<u64, StateError> {
    let mut at = segment.address.get();
    for block in &segment.blocks {
        if block.address.get() != at || block.size == Bytes::ZERO {
            return Err(StateError::Blocks(segment.address));
        }
        at = at
            .checked_add(block.size.get())
            .ok_or(StateError::Blocks(segment.address))?;
    }
    let end = segment.address.get().checked_add(segment.size.get());
    if end != Some(at) || segment.blocks.is_empty() {
        return Err(StateError::Blocks(segment.address));
    }
    Ok(at)
}
