//! Every figure of `torch.cuda.memory_stats()`.
//!
//! Figures are signed: changing `max_split_size` while blocks are out makes PyTorch's own counts of large blocks
//! negative, and what is compared with them has to follow.

use crate::pool::PoolId;
use crate::release::Release;

/// A figure that goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Its present value.
    pub current: i64,
    /// Its highest value since the peaks were last reset.
    pub peak: i64,
    /// The sum of all increases.
    pub allocated: i64,
    /// The sum of all decreases.
    pub freed: i64,
}

impl Level {
    #[inline]
    pub(crate) fn increase(&mut self, amount: i64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated += amount;
    }

    #[inline]
    pub(crate) fn decrease(&mut self, amount: i64) {
        self.current -= amount;
        self.freed += amount;
    }

    pub(crate) fn reset_peak(&mut self) {
        self.peak = self.current;
    }

    pub(crate) fn reset_accumulated(&mut self) {
        self.allocated = 0;
        self.freed = 0;
    }

    fn values(self) -> [(&'static str, i64); 4] {
        [
            ("allocated", self.allocated),
            ("current", self.current),
            ("freed", self.freed),
            ("peak", self.peak),
        ]
    }
}

/// A figure of all memory, and of blocks up to 1 MiB and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByPool {
    /// All.
    pub all: Level,
    /// Of the pools for sizes up to 1 MiB.
    pub small_pool: Level,
    /// Of the pools for larger sizes.
    pub large_pool: Level,
}

/// Which half of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Rounded sizes up to 1 MiB.
    Small,
    /// Larger ones.
    Large,
}

impl ByPool {
    #[inline]
    fn half(&mut self, half: Half) -> &mut Level {
        match half {
            Half::Small => &mut self.small_pool,
            Half::Large => &mut self.large_pool,
        }
    }

    #[inline]
    pub(crate) fn increase(&mut self, half: Half, amount: i64) {
        self.all.increase(amount);
        self.half(half).increase(amount);
    }

    #[inline]
    pub(crate) fn decrease(&mut self, half: Half, amount: i64) {
        self.all.decrease(amount);
        self.half(half).decrease(amount);
    }

    pub(crate) fn levels_mut(&mut self) -> [&mut Level; 3] {
        [&mut self.all, &mut self.small_pool, &mut self.large_pool]
    }

    fn values(&self) -> [(&'static str, Level); 3] {
        [
            ("all", self.all),
            ("large_pool", self.large_pool),
            ("small_pool", self.small_pool),
        ]
    }

    /// One net change, up or down.
    pub(crate) fn change(&mut self, half: Half, amount: i64) {
        if amount > 0 {
            self.increase(half, amount);
        } else if amount < 0 {
            self.decrease(half, -amount);
        }
    }
}

/// What `memory_stats()` holds. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks that the program holds.
    pub allocation: ByPool,
    /// Segments that were made by `cudaMalloc`; expandable ones do not count.
    pub segment: ByPool,
    /// Blocks that are held, or that another stream may still use.
    pub active: ByPool,
    /// Free blocks of segments that are partly in use, without expandable ones.
    pub inactive_split: ByPool,
    /// Sizes of the blocks that the program holds.
    pub allocated_bytes: ByPool,
    /// Memory that was taken from the device.
    pub reserved_bytes: ByPool,
    /// Sizes of the active blocks.
    pub active_bytes: ByPool,
    /// Sizes of the blocks counted in `inactive_split`.
    pub inactive_split_bytes: ByPool,
    /// What was asked for with the active blocks.
    pub requested_bytes: ByPool,
    /// Blocks of `max_split_size` and above.
    pub oversize_allocations: Level,
    /// Segments of `max_split_size` and above.
    pub oversize_segments: Level,
    /// Calls of `cudaMalloc` after everything cached was released.
    pub num_alloc_retries: i64,
    /// Errors for lack of memory.
    pub num_ooms: i64,
    /// Times that all streams were waited for.
    pub num_sync_all_streams: i64,
    /// Segments and pages taken from the device.
    pub num_device_alloc: i64,
    /// Segments and pages given back.
    pub num_device_free: i64,
    /// Requests refused by `throw_on_cudamalloc_oom`.
    pub num_oom_rejections: i64,
    /// `max_split_size` when the allocator was made; -1 is no limit.
    pub max_split_size: i64,
    /// `reserved_bytes` of each private pool that took memory, by its id.
    pub reserved_bytes_by_private_pools: Vec<(PoolId, ByPool)>,
}

impl Statistics {
    fn arrays(&self) -> [(&'static str, &ByPool); 9] {
        [
            ("active", &self.active),
            ("active_bytes", &self.active_bytes),
            ("allocated_bytes", &self.allocated_bytes),
            ("allocation", &self.allocation),
            ("inactive_split", &self.inactive_split),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("segment", &self.segment),
        ]
    }

    fn levels_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        let Self {
            allocation,
            segment,
            active,
            inactive_split,
            allocated_bytes,
            reserved_bytes,
            active_bytes,
            inactive_split_bytes,
            requested_bytes,
            oversize_allocations,
            oversize_segments,
            reserved_bytes_by_private_pools,
            ..
        } = self;
        [
            allocation,
            segment,
            active,
            inactive_split,
            allocated_bytes,
            reserved_bytes,
            active_bytes,
            inactive_split_bytes,
            requested_bytes,
        ]
        .into_iter()
        .flat_map(ByPool::levels_mut)
        .chain([oversize_allocations, oversize_segments])
        .chain(
            reserved_bytes_by_private_pools
                .iter_mut()
                .flat_map(|(_, by)| by.levels_mut()),
        )
    }

    pub(crate) fn reset_peaks(&mut self) {
        self.levels_mut().for_each(Level::reset_peak);
    }

    pub(crate) fn reset_accumulated(&mut self) {
        self.levels_mut().for_each(Level::reset_accumulated);
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_sync_all_streams = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
        self.num_oom_rejections = 0;
    }

    /// The keys and values of `torch.cuda.memory_stats()` of a release, sorted by key.
    pub fn flat(&self, release: Release) -> Vec<(String, i64)> {
        let mut flat = Vec::new();
        let mut arrays: Vec<(String, &ByPool)> =
            self.arrays().map(|(name, by)| (name.to_owned(), by)).into();
        if release.reports_private_pools() {
            arrays.extend(self.reserved_bytes_by_private_pools.iter().map(|(id, by)| {
                let PoolId(first, second) = id;
                (
                    format!("reserved_bytes_by_private_pools.{first}_{second}"),
                    by,
                )
            }));
        }
        for (name, by) in arrays {
            for (part, level) in by.values() {
                flat.extend(
                    level
                        .values()
                        .map(|(key, value)| (format!("{name}.{part}.{key}"), value)),
                );
            }
        }
        let single = [
            ("oversize_allocations", self.oversize_allocations),
            ("oversize_segments", self.oversize_segments),
        ];
        for (name, level) in single {
            flat.extend(
                level
                    .values()
                    .map(|(key, value)| (format!("{name}.{key}"), value)),
            );
        }
        let mut plain = vec![
            ("max_split_size", self.max_split_size),
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_ooms", self.num_ooms),
        ];
        if release.counts_driver_calls() {
            plain.extend([
                ("num_device_alloc", self.num_device_alloc),
                ("num_device_free", self.num_device_free),
                ("num_sync_all_streams", self.num_sync_all_streams),
            ]);
        }
        if release.counts_rejections() {
            plain.push(("num_oom_rejections", self.num_oom_rejections));
        }
        flat.extend(
            plain
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value)),
        );
        flat.sort();
        flat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(release: &str, n_keys: usize) {
        let flat = Statistics::default().flat(release.parse().unwrap());
        assert_eq!(flat.len(), n_keys, "{release}");
        assert!(flat.is_sorted());
    }

    #[test]
    fn each_release_has_its_number_of_keys() {
        check("2.0", 119);
        check("2.2", 119);
        check("2.3", 122);
        check("2.11", 122);
        check("2.12", 123);
        check("2.15", 123);
    }
}
