//! Giving segments back to the device: old ones, large ones, or all that are free.

use oomproof_units::{Bytes, DeviceAddress};

use crate::allocator::{Allocator, Wanted, share};
use crate::block::BlockId;
use crate::driver::Driver;
use crate::out_of_memory::InternalError;
use crate::pool::{HalfIndex, PoolId};
use crate::statistics::Half;
use crate::trace::{Action, TraceSink};

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// Releases segments of the default pool that were long unused, until enough is free again.
    pub(crate) fn collect_garbage(&mut self) {
        let limit = Bytes::new(self.limit.unwrap_or(u64::MAX));
        let threshold = share(self.settings.garbage_collection_threshold, limit);
        if self.reserved <= threshold {
            return;
        }
        let target = self.reserved - threshold;
        let half = &self.halves[HalfIndex::LARGE.0 as usize];
        let now = half.searches;
        let mut candidates: Vec<BlockId> = half
            .free
            .keys()
            .iter()
            .map(|key| key.block)
            .filter(|id| !self.blocks[*id].is_split())
            .collect();
        let age = |allocator: &Self, id: BlockId| (now - allocator.blocks[id].age_base) as f64;
        let mut total_age: f64 = candidates.iter().map(|id| age(self, *id)).sum();
        let mut count = candidates.len();
        let mut released = 0_u64;
        let mut went_on = true;
        while released < target && went_on && count > 0 {
            went_on = false;
            let cutoff = total_age / count as f64;
            let mut kept = Vec::new();
            for id in candidates {
                let block = self.blocks[id];
                if block.is_expandable() || age(self, id) < cutoff {
                    kept.push(id);
                    continue;
                }
                went_on = true;
                released = released.saturating_add(block.size);
                total_age -= age(self, id);
                count -= 1;
                self.release_segment(id);
            }
            candidates = kept;
        }
    }

    /// With a `max_split_size`: releases one block that is large enough, or several that are so together. Whether it
    /// did.
    pub(crate) fn release_oversize(&mut self, wanted: &Wanted) -> Result<bool, InternalError> {
        let max_split = self.settings.max_split();
        if max_split == u64::MAX {
            return Ok(false);
        }
        let least = wanted.size.max(max_split);
        let free = &self.halves[wanted.half.0 as usize].free;
        if let Some(key) = free.at_least(wanted.handle, least)
            && !self.is_passed_over(key.block)?
        {
            self.release_whole(key.block)?;
            return Ok(true);
        }
        let free = &self.halves[wanted.half.0 as usize].free;
        let mut released = 0_u64;
        let bound = free.at_least(wanted.handle, least);
        for key in free.downwards_below(wanted.handle, bound.map_or(u64::MAX, |key| key.size)) {
            if released >= least || key.size < max_split {
                break;
            }
            if !self.is_passed_over(key.block)? {
                released = released.saturating_add(key.size);
                self.release_whole(key.block)?;
            }
        }
        Ok(released >= least)
    }

    /// Whether a block is expandable, which some releases do not expect.
    fn is_passed_over(&self, id: BlockId) -> Result<bool, InternalError> {
        let is_expandable = self.blocks[id].is_expandable();
        if is_expandable && !self.release.oversize_release_skips_expandable() {
            return Err(InternalError::ExpandableReleased);
        }
        Ok(is_expandable)
    }

    /// Releases a large block, which is a segment of its own unless `max_split_size` was set while it was in use.
    /// PyTorch does not look, and CUDA refuses the address.
    fn release_whole(&mut self, id: BlockId) -> Result<(), InternalError> {
        let block = self.blocks[id];
        if !block.is_split() {
            self.release_segment(id);
            return Ok(());
        }
        let handle = self.handle_of(id);
        let pool = block.half.pool();
        self.statistics.num_device_free += 1;
        self.trace(Action::SegmentFree, pool, block.address, block.size, handle);
        Err(InternalError::SplitBlockReleased)
    }

    /// Everything that is wholly free, of the default pool and of private ones that nobody uses any more.
    pub(crate) fn release_cached(&mut self) -> Result<(), InternalError> {
        if self.fillings.is_any() && !self.release.empties_cache_during_pool() {
            self.statistics.num_sync_all_streams += 1;
            return Err(InternalError::EmptiedWhilePoolIsFilled);
        }
        if !self.frees_are_deferred() {
            self.statistics.num_sync_all_streams += 1;
            self.wait_for_events(None);
            self.release_half(HalfIndex::LARGE)?;
            self.release_half(HalfIndex::SMALL)?;
        }
        self.release_freeable(None)
    }

    /// `torch.cuda.MemPool` was emptied: as [`Allocator::empty_cache`], of one private pool that nobody uses any more.
    pub fn empty_pool(&mut self, id: PoolId) -> Result<(), InternalError> {
        self.release_freeable(Some(id))
    }

    fn release_freeable(&mut self, only: Option<PoolId>) -> Result<(), InternalError> {
        let mut at = 0;
        while let Some((slot, id, pool)) = self.freeable.next_from(at) {
            let (id, pool) = (*id, *pool);
            at = slot + 1;
            if only.is_some_and(|only| only != id) {
                continue;
            }
            if only.is_some() {
                self.statistics.num_sync_all_streams += 1;
                self.wait_for_events(Some(pool));
            }
            self.release_half(HalfIndex::of(pool, Half::Small))?;
            self.release_half(HalfIndex::of(pool, Half::Large))?;
            if self.pools[pool.0 as usize].device_allocations == 0 {
                let is_empty = self
                    .blocks
                    .iter()
                    .all(|(_, block)| block.half.pool() != pool);
                if !is_empty {
                    self.pool_deleted_in_use.get_or_insert(id);
                }
                self.freeable.remove_at(slot);
                self.pool_ids.remove(id.hash(), &id);
                at = slot;
            }
        }
        Ok(())
    }

    fn release_half(&mut self, half: HalfIndex) -> Result<(), InternalError> {
        let mut expandable = Vec::new();
        for key in self.halves[half.0 as usize].free.keys() {
            let block = &self.blocks[key.block];
            if block.is_expandable() {
                expandable.push(key.block);
            } else if !block.is_split() {
                self.release_segment(key.block);
            }
        }
        for id in expandable {
            self.unmap(id)?;
        }
        Ok(())
    }

    /// `cudaFree` of a segment that is one free block.
    fn release_segment(&mut self, id: BlockId) {
        let block = self.blocks[id];
        let half = block.half.half();
        let handle = self.handle_of(id);
        let pool = block.half.pool();
        self.trace(Action::SegmentFree, pool, block.address, block.size, handle);
        self.driver
            .release(DeviceAddress::new(block.address), Bytes::new(block.size));
        self.remove_free(id);
        self.blocks.remove(id);
        self.count_returned(block.half, block.size);
        self.pools[pool.0 as usize].device_allocations -= 1;
        self.statistics.segment.decrease(half, 1);
        if block.size >= self.settings.max_split() {
            self.statistics.oversize_segments.decrease(1);
        }
    }
}
