//! Memory pools: what stream-ordered allocation has taken from a device, and what it uses of that.
//!
//! How the driver places blocks inside a pool is not public. It can put any of a pool's physical memory behind any
//! address, so a pool is taken to hold exactly what its blocks need, in pieces of one size, until it is told or
//! allowed to give memory back.

use std::collections::HashMap;

/// A pool takes memory from the device in pieces of this size.
pub(crate) const PIECE: u64 = 32 << 20;
/// Sizes and starts of blocks are multiples of this.
pub(crate) const ALIGNMENT: u64 = 512;

/// One pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    /// What it keeps when the device has come to rest.
    pub(crate) threshold: u64,
    /// The most it may take; 0 for all.
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
}

impl Pool {
    /// What it must have taken to use `used` bytes.
    pub(crate) fn needs(used: u64) -> u64 {
        used.next_multiple_of(PIECE)
    }

    /// It now uses so much; how much more it takes from the device.
    pub(crate) fn grow(&mut self, by: u64) -> u64 {
        self.used += by;
        self.used_high = self.used_high.max(self.used);
        let more = Self::needs(self.used).saturating_sub(self.reserved);
        self.reserved += more;
        self.reserved_high = self.reserved_high.max(self.reserved);
        more
    }

    /// Gives back all but `keep` bytes of what it does not use; how much that is.
    pub(crate) fn trim(&mut self, keep: u64) -> u64 {
        let kept = Self::needs(self.used).max(Self::needs(keep.min(self.reserved)));
        let less = self.reserved.saturating_sub(kept);
        self.reserved -= less;
        less
    }
}

/// All pools of the devices, and which block came from which.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) by_handle: HashMap<u64, Pool>,
    pub(crate) owners: HashMap<u64, u64>,
}

impl Pools {
    /// The sum of a device's pools.
    pub(crate) fn of_device(&self, device: usize) -> Pool {
        let mut sum = Pool::default();
        for pool in self.by_handle.values().filter(|pool| pool.device == device) {
            sum.used += pool.used;
            sum.reserved += pool.reserved;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_pool_keeps_what_it_took_until_it_is_trimmed() {
        let mut pool = Pool::default();
        assert_eq!(pool.grow(MIB), PIECE);
        assert_eq!(pool.grow(40 * MIB), PIECE);
        pool.used -= 40 * MIB;
        assert_eq!(pool.grow(30 * MIB), 0, "what came back is used again");
        pool.used -= 30 * MIB;
        assert_eq!(pool.trim(u64::MAX), 0);
        assert_eq!(pool.trim(0), PIECE);
        assert_eq!((pool.reserved, pool.reserved_high), (PIECE, 2 * PIECE));
        assert_eq!((pool.used, pool.used_high), (MIB, 41 * MIB));
    }
}
