//! Blocks lie in one array and name each other by number: 64 bytes a block, one line of the processor's cache.

/// The number of a block; numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(crate) u32);

impl BlockId {
    pub(crate) const FIRST: Self = Self(0);
    /// No block.
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The number of an expandable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpandableId(pub(crate) u32);

impl ExpandableId {
    /// The segment is not expandable.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What was asked for; of a free block by who had it last.
    pub(crate) requested: u64,
    /// The clock of the pool when it was last put among the free blocks.
    pub(crate) age_base: u64,
    /// Neighbors in the segment.
    pub(crate) prev: BlockId,
    pub(crate) next: BlockId,
    pub(crate) half: crate::pool::HalfIndex,
    pub(crate) stream: u32,
    /// What decides between free blocks of one size, by the release.
    pub(crate) number: i32,
    pub(crate) expandable: ExpandableId,
    /// Events that other streams have not reached.
    pub(crate) n_events: u32,
    pub(crate) is_allocated: bool,
    pub(crate) is_mapped: bool,
    /// Whether other streams are known to use it.
    pub(crate) has_users: bool,
    /// Whether the number is given to a block at present.
    pub(crate) is_in_use: bool,
}

impl Block {
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.prev != BlockId::NONE || self.next != BlockId::NONE
    }

    #[inline]
    pub(crate) fn is_expandable(&self) -> bool {
        self.expandable != ExpandableId::NONE
    }

    /// Held by the program, or by a stream that is not done with it.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_allocated || self.n_events > 0 || self.has_users
    }
}

/// All blocks of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    unused: Vec<BlockId>,
}

impl Blocks {
    /// Four billion blocks would take 256 GiB before their numbers ran out.
    #[inline]
    pub(crate) fn add(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.unused.pop() {
            self[id] = block;
            return id;
        }
        let id = BlockId(self.blocks.len() as u32);
        self.blocks.push(block);
        id
    }

    pub(crate) fn remove(&mut self, id: BlockId) {
        self[id].is_in_use = false;
        self.unused.push(id);
    }

    /// All, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.is_in_use)
            .map(|(index, block)| (BlockId(index as u32), block))
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;
    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }
}
