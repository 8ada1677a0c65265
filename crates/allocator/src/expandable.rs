//! Expandable segments: address space for more than the whole card, into which pages are mapped as they are needed.
//!
//! Free memory, unmapped addresses and blocks in use lie in one chain of blocks, so that growing is mapping the
//! addresses behind a free block. Whether blocks merge depends on both being mapped or both not.

use oomproof_units::{Bytes, DeviceAddress};

use crate::allocator::{Allocator, Wanted, share};
use crate::block::{Block, BlockId, ExpandableId};
use crate::driver::{Driver, Pages, SegmentRequest};
use crate::out_of_memory::InternalError;
use crate::pool::HalfIndex;
use crate::settings::Reserve;
use crate::sizes;
use crate::statistics::Half;
use crate::trace::{Action, TraceSink};

/// Address space of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expandable {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) page: u64,
}

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// Pages enough for a block, mapped behind a free block or at unmapped addresses.
    pub(crate) fn grow_expandable(&mut self, wanted: &Wanted) -> Option<BlockId> {
        let mut grown = match self.find_unmapped(wanted) {
            Some(block) => block,
            None => self.new_expandable(wanted)?,
        };
        if !self.blocks[grown].is_mapped {
            let size = self.blocks[grown].size.min(wanted.size);
            self.map(grown, size)?;
        }
        while self.blocks[grown].size < wanted.size {
            let next = self.blocks[grown].next.some()?;
            let missing = wanted.size - self.blocks[grown].size;
            let size = missing.min(self.blocks[next].size);
            self.map(next, size)?;
            grown = next;
        }
        self.remove_free(grown);
        Some(grown)
    }

    /// The first run of free and unmapped blocks with an unmapped one in it that is long enough.
    fn find_unmapped(&self, wanted: &Wanted) -> Option<BlockId> {
        let half = &self.halves[wanted.half.0 as usize];
        half.unmapped
            .of_stream(wanted.handle)
            .map(|unmapped| {
                let before = self.blocks[unmapped].prev.some();
                before
                    .filter(|before| !self.blocks[*before].is_active())
                    .unwrap_or(unmapped)
            })
            .find(|first| self.has_room_from(*first, wanted.size))
    }

    fn has_room_from(&self, first: BlockId, size: u64) -> bool {
        let mut room = 0_u64;
        let mut at = Some(first);
        while let Some(id) = at
            && !self.blocks[id].is_active()
        {
            room = room.saturating_add(self.blocks[id].size);
            if room >= size {
                return true;
            }
            at = self.blocks[id].next.some();
        }
        false
    }

    fn new_expandable(&mut self, wanted: &Wanted) -> Option<BlockId> {
        let page = self.page_size(wanted.half);
        let size = self.reserve_size(page);
        if size < wanted.size && self.release.looks_before_reserving() {
            return None;
        }
        let address = self.driver.reserve(SegmentRequest {
            size: Bytes::new(size),
            stream: self.streams.get(wanted.stream),
            pool: self.pools[wanted.half.pool().0 as usize].id,
        })?;
        let expandable = self.add_expandable(Expandable {
            address: address.get(),
            size,
            page,
        });
        let block = self.add_segment_block(Block {
            address: address.get(),
            size,
            requested: 0,
            age_base: 0,
            prev: BlockId::NONE,
            next: BlockId::NONE,
            half: wanted.half,
            stream: wanted.stream,
            number: 0,
            expandable,
            n_events: 0,
            is_allocated: false,
            is_mapped: false,
            has_users: false,
            is_in_use: true,
        });
        self.insert_unmapped(block);
        Some(block)
    }

    pub(crate) fn page_size(&self, half: HalfIndex) -> u64 {
        match half.half() {
            Half::Small => sizes::SMALL_SEGMENT,
            Half::Large => self.settings.large_segment_size.get(),
        }
    }

    /// How much address space a new segment takes.
    pub(crate) fn reserve_size(&self, page: u64) -> u64 {
        self.asked_reserve().div_ceil(page).saturating_mul(page)
    }

    /// The same before it becomes whole pages.
    pub(crate) fn asked_reserve(&self) -> u64 {
        let total = self.driver.memory_info().total;
        let whole = total.get().saturating_add(total.get() / 8);
        match self.settings.expandable_segments_reserve {
            Reserve::Whole => whole,
            Reserve::Fraction(fraction) => share(fraction, total).min(whole),
            Reserve::Bytes(bytes) => bytes.get().min(whole),
        }
    }

    pub(crate) fn add_expandable(&mut self, expandable: Expandable) -> ExpandableId {
        let free = self.expandables.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.expandables.push(None);
            self.expandables.len() - 1
        });
        self.expandables[at] = Some(expandable);
        ExpandableId(at as u32)
    }

    pub(crate) fn insert_unmapped(&mut self, id: BlockId) {
        let handle = self.handle_of(id);
        let block = &self.blocks[id];
        self.halves[block.half.0 as usize]
            .unmapped
            .insert(handle, block.address, id);
    }

    pub(crate) fn remove_unmapped(&mut self, id: BlockId) {
        let handle = self.handle_of(id);
        let block = &self.blocks[id];
        self.halves[block.half.0 as usize]
            .unmapped
            .remove(handle, block.address, id);
    }

    fn expandable_of(&self, block: &Block) -> Option<Expandable> {
        self.expandables
            .get(block.expandable.0 as usize)
            .copied()
            .flatten()
    }

    /// Maps at least `size` bytes from the start of an unmapped block; `None` when the device has no room.
    fn map(&mut self, id: BlockId, size: u64) -> Option<()> {
        let block = self.blocks[id];
        let segment = self.expandable_of(&block)?;
        let mapped = size.div_ceil(segment.page) * segment.page;
        let is_mapped = self.driver.map(Pages {
            address: DeviceAddress::new(block.address),
            size: Bytes::new(mapped),
            page_size: Bytes::new(segment.page),
            stream: self.streams.get(block.stream),
        });
        if !is_mapped {
            return None;
        }
        self.remove_unmapped(id);
        self.blocks[id].is_mapped = true;
        if mapped < block.size {
            let rest = self.add_block(Block {
                address: block.address + mapped,
                size: block.size - mapped,
                requested: 0,
                prev: id,
                next: block.next,
                ..block
            });
            if let Some(next) = block.next.some() {
                self.blocks[next].prev = rest;
            }
            self.blocks[id].next = rest;
            self.blocks[id].size = mapped;
            self.insert_unmapped(rest);
        }
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        self.merge(id, prev);
        self.merge(id, next);
        self.insert_free(id);
        self.count_reserved(block.half, mapped);
        let handle = self.handle_of(id);
        self.trace(
            Action::SegmentMap,
            block.half.pool(),
            block.address,
            mapped,
            handle,
        );
        Some(())
    }

    /// Gives the pages that lie wholly inside a free block back, and the whole segment when nothing else is in it.
    pub(crate) fn unmap(&mut self, id: BlockId) -> Result<(), InternalError> {
        self.unmap_pages(id)?;
        let block = self.blocks[id];
        if block.is_mapped || block.is_split() {
            return Ok(());
        }
        if let Some(segment) = self.expandable_of(&block) {
            self.driver.unreserve(
                DeviceAddress::new(segment.address),
                Bytes::new(segment.size),
            );
            self.expandables[block.expandable.0 as usize] = None;
        }
        self.remove_unmapped(id);
        self.blocks.remove(id);
        Ok(())
    }

    fn unmap_pages(&mut self, id: BlockId) -> Result<(), InternalError> {
        let block = self.blocks[id];
        let Some(segment) = self.expandable_of(&block) else {
            return Ok(());
        };
        let offset = block.address - segment.address;
        let first = offset.div_ceil(segment.page) * segment.page;
        let end = (offset + block.size) / segment.page * segment.page;
        if first >= end {
            return Ok(());
        }
        let (address, size) = (segment.address + first, end - first);
        self.driver.unmap(Pages {
            address: DeviceAddress::new(address),
            size: Bytes::new(size),
            page_size: Bytes::new(segment.page),
            stream: self.streams.get(block.stream),
        });
        self.remove_free(id);
        let before = address - block.address;
        if before > 0 {
            let left = self.add_block(Block {
                size: before,
                requested: 0,
                next: id,
                ..block
            });
            if let Some(prev) = block.prev.some() {
                self.blocks[prev].next = left;
            }
            self.blocks[id].prev = left;
            self.insert_free(left);
        }
        let behind = block.size - before - size;
        if behind > 0 {
            let right = self.add_block(Block {
                address: address + size,
                size: behind,
                requested: 0,
                prev: id,
                ..block
            });
            if let Some(next) = block.next.some() {
                self.blocks[next].prev = right;
            }
            self.blocks[id].next = right;
            self.insert_free(right);
        }
        let middle = &mut self.blocks[id];
        middle.address = address;
        middle.size = size;
        middle.is_mapped = false;
        let (prev, next) = (middle.prev, middle.next);
        self.merge(id, prev);
        self.merge(id, next);
        self.insert_unmapped(id);
        self.count_returned(block.half, size);
        let handle = self.handle_of(id);
        let pool = block.half.pool();
        if pool.is_private() {
            let pool = &mut self.pools[pool.0 as usize];
            if pool.device_allocations <= 0 {
                return Err(InternalError::PoolCountBelowZero(pool.id));
            }
            pool.device_allocations -= 1;
        }
        self.trace(Action::SegmentUnmap, pool, address, size, handle);
        Ok(())
    }
}
