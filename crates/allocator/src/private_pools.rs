//! Filling private pools, and letting go of them.

use oomproof_units::Bytes;

use crate::allocator::{Allocator, Wanted};
use crate::block::BlockId;
use crate::driver::Driver;
use crate::out_of_memory::{InternalError, UseError};
use crate::pool::{Accepts, Filling, HalfIndex, PoolId, PoolIndex, PoolOptions};
use crate::trace::TraceSink;

/// The pools that are filled at present, in the order in which that began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fillings {
    list: Vec<(PoolId, Accepts, Filling)>,
}

impl Fillings {
    pub(crate) fn is_any(&self) -> bool {
        !self.list.is_empty()
    }

    fn is_any_capture(&self) -> bool {
        self.list
            .iter()
            .any(|(_, _, filling)| *filling == Filling::Capture)
    }
}

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// Makes a private pool, or holds one that exists once more; `torch.cuda.MemPool()` does this.
    pub fn hold_pool(&mut self, id: PoolId, options: PoolOptions) -> Result<(), UseError> {
        if id == PoolId::DEFAULT {
            return Err(UseError::DefaultPool);
        }
        if let Some(pool) = self.pool_ids.get(id.hash(), &id) {
            let pool = &mut self.pools[pool.0 as usize];
            if pool.uses == 0 && !self.release.revives_pools() {
                return Err(UseError::Unused(id));
            }
            pool.uses += 1;
        } else {
            self.new_pool(id, options);
        }
        if options.use_on_oom && self.release.has_use_on_oom() {
            self.use_on_oom.entry(id.hash(), id, || ());
        }
        Ok(())
    }

    /// A private pool with one user.
    pub(crate) fn new_pool(&mut self, id: PoolId, options: PoolOptions) -> PoolIndex {
        let pool = self.add_pool(id, options);
        self.pool_ids.entry(id.hash(), id, || pool);
        pool
    }

    /// Changes the options of a pool.
    pub fn set_pool_options(&mut self, id: PoolId, options: PoolOptions) -> Result<(), UseError> {
        let pool = self.pool_of(id)?;
        self.pools[pool.0 as usize].options = options;
        if options.use_on_oom && self.release.has_use_on_oom() {
            self.use_on_oom.entry(id.hash(), id, || ());
        } else {
            self.use_on_oom.remove(id.hash(), &id);
        }
        Ok(())
    }

    /// From now on requests go to a private pool, which is made if it does not exist, and held once more if it does.
    pub fn begin_pool(
        &mut self,
        id: PoolId,
        accepts: Accepts,
        filling: Filling,
    ) -> Result<(), UseError> {
        let options = self.pool_of(id).map_or(PoolOptions::default(), |pool| {
            self.pools[pool.0 as usize].options
        });
        self.hold_pool(id, options)?;
        self.fillings.list.push((id, accepts, filling));
        Ok(())
    }

    /// Requests go to the pool no longer.
    pub fn end_pool(&mut self, id: PoolId) -> Result<(), UseError> {
        let at = self.fillings.list.iter().position(|(of, _, _)| *of == id);
        let at = at.ok_or(UseError::NotFilled(id))?;
        self.fillings.list.remove(at);
        Ok(())
    }

    /// One user less; the memory of a pool without users is given back with the cache.
    pub fn release_pool(&mut self, id: PoolId) -> Result<(), UseError> {
        let index = self.pool_of(id)?;
        let pool = &mut self.pools[index.0 as usize];
        pool.uses = pool.uses.checked_sub(1).ok_or(UseError::Unused(id))?;
        if pool.uses == 0 {
            self.freeable.entry(id.hash(), id, || index);
        }
        Ok(())
    }

    fn pool_of(&self, id: PoolId) -> Result<PoolIndex, UseError> {
        let pool = self.pool_ids.get(id.hash(), &id);
        pool.copied().ok_or(UseError::UnknownPool(id))
    }

    /// The pool that a request of a stream goes to.
    pub(crate) fn pool_for(&self, handle: u64) -> PoolIndex {
        let accepting = |(_, accepts, _): &&(PoolId, Accepts, Filling)| accepts.accepts(handle);
        let list = &self.fillings.list;
        let chosen = if self.release.newest_pool_wins() {
            list.iter().rev().find(accepting)
        } else {
            list.iter().find(accepting)
        };
        chosen
            .and_then(|(id, _, _)| self.pool_of(*id).ok())
            .unwrap_or(PoolIndex::DEFAULT)
    }

    /// Whether blocks that other streams use cannot be waited for at present.
    pub(crate) fn frees_are_deferred(&self) -> bool {
        if self.release.only_captures_defer() {
            self.fillings.is_any_capture()
        } else {
            self.fillings.is_any()
        }
    }

    /// A free block of a pool that was made to help out; the request is that pool's from then on.
    pub(crate) fn find_in_pools_for_oom(
        &mut self,
        wanted: &mut Wanted,
    ) -> Result<Option<BlockId>, InternalError> {
        if wanted.half.pool().is_private() || self.use_on_oom.is_empty() {
            return Ok(None);
        }
        let ids: Vec<PoolId> = self.use_on_oom.iter().map(|(id, ())| *id).collect();
        for id in ids {
            let Ok(pool) = self.pool_of(id) else {
                continue;
            };
            if self.pools[pool.0 as usize].uses == 0 && !self.release.revives_pools() {
                return Err(InternalError::PoolRevived(id));
            }
            let half = HalfIndex::of(pool, wanted.half.half());
            if let Some(block) = self.find_free(&Wanted { half, ..*wanted }) {
                wanted.half = half;
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Free memory of private pools.
    pub(crate) fn free_in_private_pools(&self) -> Bytes {
        self.pool_ids
            .iter()
            .flat_map(|(_, pool)| [2 * pool.0, 2 * pool.0 + 1])
            .flat_map(|half| self.halves[half as usize].free.keys())
            .map(|key| Bytes::new(key.size))
            .sum()
    }
}
