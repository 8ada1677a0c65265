//! Segments and their blocks as they stood when the snapshot was taken, in columns; views put a row together.

use std::ops::Range;

use oomproof_units::{Bytes, DeviceAddress};

use crate::entry::{PoolId, StreamHandle};
use crate::stack_table::StackId;

/// Which of the allocator's two size classes a segment serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Blocks of at most 1 MiB.
    Small,
    /// The others.
    Large,
}

impl SegmentKind {
    /// PyTorch's word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// What a block is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Handed out.
    Allocated,
    /// Given back, and still in use by another stream.
    PendingFree,
    /// Free for reuse.
    Inactive,
}

impl BlockState {
    /// PyTorch's word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}

/// What a snapshot says of one segment, without its blocks. An expandable segment appears once for every contiguous
/// range of mapped pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Index of the device.
    pub device: u32,
    /// Where it begins.
    pub address: DeviceAddress,
    /// How long it is.
    pub total_size: Bytes,
    /// The sum of its allocated blocks, as it was recorded.
    pub allocated_size: Bytes,
    /// The sum of its allocated and pending blocks, as it was recorded.
    pub active_size: Bytes,
    /// The sum of what was requested for its active blocks, as it was recorded (torch 2.0 and later).
    pub requested_size: Bytes,
    /// The stream its blocks belong to.
    pub stream: StreamHandle,
    /// The size class.
    pub kind: SegmentKind,
    /// The pool; the default one where none was recorded (before torch 2.1).
    pub pool: PoolId,
    /// It is part of an expandable segment.
    pub is_expandable: bool,
    /// Where in the program it was allocated.
    pub stack: StackId,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins. Before torch 2.1 it was not recorded, and follows from the blocks before it.
    pub address: DeviceAddress,
    /// How long it is.
    pub size: Bytes,
    /// What was requested; in a block that is not active, that of an earlier use.
    pub requested_size: Bytes,
    /// What it is in.
    pub state: BlockState,
    /// Where in the program it was allocated, or, in a free block, was allocated last.
    pub stack: StackId,
}

impl Block {
    /// The first byte behind it.
    pub fn end(&self) -> DeviceAddress {
        self.address.offset(self.size)
    }
}

/// All segments of a snapshot, in the order in which it lists them.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    infos: Vec<SegmentInfo>,
    /// Where the blocks of each segment lie in `blocks`.
    ranges: Vec<Range<u32>>,
    blocks: Vec<Block>,
}

/// One segment with its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    info: &'a SegmentInfo,
    blocks: &'a [Block],
}

impl<'a> Segment<'a> {
    /// Its blocks, by address.
    pub fn blocks(&self) -> &'a [Block] {
        self.blocks
    }

    /// What is said of it as a whole.
    pub fn info(&self) -> &'a SegmentInfo {
        self.info
    }

    /// The first byte behind it.
    pub fn end(&self) -> DeviceAddress {
        self.info.address.offset(self.info.total_size)
    }
}

impl std::ops::Deref for Segment<'_> {
    type Target = SegmentInfo;

    fn deref(&self) -> &SegmentInfo {
        self.info
    }
}

impl Segments {
    /// The number of segments.
    pub fn len(&self) -> usize {
        self.infos.len()
    }

    /// The device holds nothing.
    pub fn is_empty(&self) -> bool {
        self.infos.is_empty()
    }

    /// One segment.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn segment(&self, index: usize) -> Segment<'_> {
        let range = &self.ranges[index];
        Segment {
            info: &self.infos[index],
            blocks: &self.blocks[range.start as usize..range.end as usize],
        }
    }

    /// All segments.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Segment<'_>> + DoubleEndedIterator + '_ {
        (0..self.len()).map(|index| self.segment(index))
    }

    /// The blocks of all segments, in their order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(crate) fn push(&mut self, info: SegmentInfo) {
        let end = self.blocks.len() as u32;
        self.infos.push(info);
        self.ranges.push(end..end);
    }

    /// Adds a block to the segment pushed last.
    pub(crate) fn push_block(&mut self, block: Block) {
        if let Some(range) = self.ranges.last_mut() {
            self.blocks.push(block);
            range.end += 1;
        }
    }
}
