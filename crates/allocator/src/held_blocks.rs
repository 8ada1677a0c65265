//! Which block the program means by an address. One look-up a free, so it is the other half of the allocator's time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::block::BlockId;

/// How blocks are found by address. It changes nothing but the time it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressStructure {
    /// A hash table.
    #[default]
    Hashed,
    /// A tree.
    Sorted,
}

/// The blocks that the program holds, by address.
#[derive(Clone, Debug)]
pub(crate) enum HeldBlocks {
    Hashed(FxHashMap<u64, BlockId>),
    Sorted(BTreeMap<u64, BlockId>),
}

impl HeldBlocks {
    pub(crate) fn new(structure: AddressStructure) -> Self {
        match structure {
            AddressStructure::Hashed => Self::Hashed(FxHashMap::default()),
            AddressStructure::Sorted => Self::Sorted(BTreeMap::new()),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, address: u64, block: BlockId) {
        match self {
            Self::Hashed(map) => map.insert(address, block),
            Self::Sorted(map) => map.insert(address, block),
        };
    }

    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<BlockId> {
        match self {
            Self::Hashed(map) => map.get(&address).copied(),
            Self::Sorted(map) => map.get(&address).copied(),
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<BlockId> {
        match self {
            Self::Hashed(map) => map.remove(&address),
            Self::Sorted(map) => map.remove(&address),
        }
    }
}
