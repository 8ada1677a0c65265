//! Pools: the default one, and private ones for graphs and for `torch.cuda.MemPool`.
//!
//! Each has two halves that never exchange blocks. Halves are numbered so that the small half of pool `n` is `2 n` and
//! the large one `2 n + 1`, which lets a block name its pool, its half and its owner by one number.

use std::fmt;

use crate::free_blocks::FreeBlocks;
use crate::statistics::Half;
use crate::unmapped::Unmapped;

/// PyTorch's name of a pool. [`PoolId::DEFAULT`] is the pool of everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool of all blocks that are in no private one.
    pub const DEFAULT: Self = Self(0, 0);

    /// PyTorch's hash of it.
    pub(crate) const fn hash(self) -> u64 {
        if self.0 != 0 { self.0 } else { self.1 }
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.0, self.1)
    }
}

/// How a private pool differs from the others. The default is a pool without any oddity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Its free blocks serve other requests before these fail (since 2.8).
    pub use_on_oom: bool,
    /// Its blocks are never split (since 2.10).
    pub no_split: bool,
    /// Its segments come from an allocator of the program's own, which has no expandable ones.
    pub has_own_allocator: bool,
}

/// Why memory goes to a private pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Inside `torch.cuda.use_mem_pool`.
    Context,
    /// While a graph is captured.
    Capture,
}

/// Which requests go to a pool while it is filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Those of every stream.
    All,
    /// Those of one stream, by its handle.
    Stream(u64),
}

impl Accepts {
    pub(crate) fn accepts(&self, handle: u64) -> bool {
        match self {
            Self::All => true,
            Self::Stream(only) => *only == handle,
        }
    }
}

/// The number of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfIndex(pub(crate) u32);

impl HalfIndex {
    pub(crate) const SMALL: Self = Self(0);
    pub(crate) const LARGE: Self = Self(1);

    /// A half of a pool.
    pub(crate) const fn of(pool: PoolIndex, half: Half) -> Self {
        match half {
            Half::Small => Self(2 * pool.0),
            Half::Large => Self(2 * pool.0 + 1),
        }
    }

    #[inline]
    pub(crate) const fn half(self) -> Half {
        if self.0 & 1 == 0 {
            Half::Small
        } else {
            Half::Large
        }
    }

    #[inline]
    pub(crate) const fn pool(self) -> PoolIndex {
        PoolIndex(self.0 / 2)
    }
}

/// The number of a pool; the default one is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolIndex(pub(crate) u32);

impl PoolIndex {
    pub(crate) const DEFAULT: Self = Self(0);

    pub(crate) fn is_private(self) -> bool {
        self.0 != 0
    }
}

/// One half of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolHalf {
    pub(crate) free: FreeBlocks,
    pub(crate) unmapped: Unmapped,
    /// How often a block was looked for, which is the clock of garbage collection.
    pub(crate) searches: u64,
}

/// A pool as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) options: PoolOptions,
    /// How many graphs and contexts hold it.
    pub(crate) uses: u64,
    /// Segments taken from the device; with expandable ones PyTorch's count may go astray, and this follows it.
    pub(crate) device_allocations: i64,
}

impl Pool {
    pub(crate) fn new(id: PoolId, options: PoolOptions) -> Self {
        Self {
            id,
            options,
            uses: 1,
            device_allocations: 0,
        }
    }
}
