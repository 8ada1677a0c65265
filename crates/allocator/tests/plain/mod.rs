//! A second opinion: the same allocator as briefly as it can be said, with one tree of free blocks and one hash table of all.
//!
//! It knows the default pool, streams, rounding to 512 bytes, best fit, splitting, merging and the release of the
//! cache, and of statistics only what is allocated and reserved. It shares no code with the crate. The bench measures
//! what its simplicity costs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

const MIB: u64 = 1 << 20;

/// What decides between free blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// Up to 2.11.
    Address,
    /// 2.12.
    BlockNumber,
    /// From 2.13 on.
    SegmentThenAddress,
}

#[derive(Clone, Copy)]
struct Block {
    address: u64,
    size: u64,
    /// Size of the segment.
    segment: u64,
    /// Where the neighbors in it begin.
    prev: Option<u64>,
    next: Option<u64>,
    stream: u64,
    is_small: bool,
    number: u64,
    is_free: bool,
}

type Key = (bool, u64, u64, u64, u64);

/// The allocator of a device that never runs out, whose memory begins at an address.
pub(crate) struct Plain {
    tie: Tie,
    blocks: HashMap<u64, Block>,
    free: BTreeSet<(Key, u64)>,
    holes: BTreeMap<u64, u64>,
    next_number: u64,
    /// Bytes of blocks that are held.
    pub(crate) allocated: u64,
    /// Bytes of segments.
    pub(crate) reserved: u64,
}

impl Plain {
    pub(crate) fn new(tie: Tie, first_address: u64) -> Self {
        Self {
            tie,
            blocks: HashMap::new(),
            free: BTreeSet::new(),
            holes: BTreeMap::from([(first_address, 1 << 46)]),
            next_number: 0,
            allocated: 0,
            reserved: 0,
        }
    }

    fn key(&self, block: &Block) -> (Key, u64) {
        let (first, second) = match self.tie {
            Tie::Address => (0, block.address),
            Tie::BlockNumber => (block.number, 0),
            Tie::SegmentThenAddress => (block.number, block.address),
        };
        let key = (block.is_small, block.stream, block.size, first, second);
        (key, block.address)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn allocate(&mut self, requested: u64, stream: u64) -> u64 {
        let size = requested.max(1).div_ceil(512) * 512;
        let is_small = size <= MIB;
        let least = ((is_small, stream, size, 0, 0), 0);
        let most = ((is_small, stream, u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        let found = self.free.range(least..most).next().copied();
        let address = match found {
            Some(entry) => {
                self.free.remove(&entry);
                entry.1
            }
            None => self.new_segment(size, is_small, stream),
        };
        let Some(mut block) = self.blocks.get(&address).copied() else {
            unreachable!("free blocks exist");
        };
        let rest = block.size - size;
        if if is_small { rest >= 512 } else { rest > MIB } {
            let tail = Block {
                address: address + size,
                size: rest,
                prev: Some(address),
                ..block
            };
            self.link(block.next, |after| after.prev = Some(tail.address));
            block.next = Some(tail.address);
            self.blocks.insert(tail.address, tail);
            let key = self.key(&tail);
            self.free.insert(key);
            block.size = size;
            if self.tie == Tie::BlockNumber {
                block.number = self.number();
            }
        }
        block.is_free = false;
        self.blocks.insert(address, block);
        self.allocated += block.size;
        address
    }

    fn link(&mut self, at: Option<u64>, change: impl FnOnce(&mut Block)) {
        if let Some(block) = at.and_then(|at| self.blocks.get_mut(&at)) {
            change(block);
        }
    }

    fn new_segment(&mut self, size: u64, is_small: bool, stream: u64) -> u64 {
        let size = match size {
            _ if is_small => 2 * MIB,
            size if size < 10 * MIB => 20 * MIB,
            size => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        let Some((&address, &hole)) = self.holes.iter().find(|(_, hole)| **hole >= size) else {
            unreachable!("64 TiB are enough");
        };
        self.holes.remove(&address);
        if hole > size {
            self.holes.insert(address + size, hole - size);
        }
        let number = self.number();
        let block = Block {
            address,
            size,
            segment: size,
            prev: None,
            next: None,
            stream,
            is_small,
            number,
            is_free: true,
        };
        self.blocks.insert(address, block);
        self.reserved += size;
        address
    }

    pub(crate) fn free(&mut self, address: u64) {
        let Some(mut block) = self.blocks.remove(&address) else {
            return;
        };
        self.allocated -= block.size;
        block.is_free = true;
        if let Some(before) = self.take_free(block.prev) {
            block.address = before.address;
            block.size += before.size;
            block.prev = before.prev;
        }
        if let Some(after) = self.take_free(block.next) {
            block.size += after.size;
            block.next = after.next;
        }
        self.link(block.prev, |before| before.next = Some(block.address));
        self.link(block.next, |after| after.prev = Some(block.address));
        self.blocks.insert(block.address, block);
        let key = self.key(&block);
        self.free.insert(key);
    }

    /// A neighbor, taken out, if it is free.
    fn take_free(&mut self, at: Option<u64>) -> Option<Block> {
        let block = *self.blocks.get(&at?)?;
        if !block.is_free {
            return None;
        }
        let key = self.key(&block);
        self.free.remove(&key);
        self.blocks.remove(&block.address)
    }

    pub(crate) fn empty_cache(&mut self) {
        let whole: Vec<Block> = self
            .blocks
            .values()
            .filter(|block| block.is_free && block.size == block.segment)
            .copied()
            .collect();
        for block in whole {
            let key = self.key(&block);
            self.free.remove(&key);
            self.blocks.remove(&block.address);
            self.reserved -= block.size;
            self.give(block.address, block.size);
        }
    }

    fn give(&mut self, mut address: u64, mut size: u64) {
        if let Some((&before, &len)) = self.holes.range(..address).next_back()
            && before + len == address
        {
            self.holes.remove(&before);
            address = before;
            size += len;
        }
        if let Some(len) = self.holes.remove(&(address + size)) {
            size += len;
        }
        self.holes.insert(address, size);
    }

    /// Address, size and whether it is free, of each block.
    pub(crate) fn layout(&self) -> Vec<(u64, u64, bool)> {
        let mut layout: Vec<(u64, u64, bool)> = self
            .blocks
            .values()
            .map(|block| (block.address, block.size, block.is_free))
            .collect();
        layout.sort_unstable();
        layout
    }
}
