//! Which block the program means by an address.
//!
//! One look-up a free, of an address that was last touched long ago: what it costs is how many lines of memory it
//! reaches for. Addresses and numbers lie side by side, a search goes on to the neighbor, and what is taken out leaves
//! no mark behind, so that mostly one line is enough.

use std::collections::BTreeMap;

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
    Hashed(Table),
    Sorted(BTreeMap<u64, BlockId>),
}

impl HeldBlocks {
    pub(crate) fn new(structure: AddressStructure) -> Self {
        match structure {
            AddressStructure::Hashed => Self::Hashed(Table::default()),
            AddressStructure::Sorted => Self::Sorted(BTreeMap::new()),
        }
    }

    /// No address is held twice.
    #[inline]
    pub(crate) fn insert(&mut self, address: u64, block: BlockId) {
        match self {
            Self::Hashed(table) => table.insert(address, block),
            Self::Sorted(map) => {
                map.insert(address, block);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<BlockId> {
        match self {
            Self::Hashed(table) => table.find(address).map(|at| table.places[at].block),
            Self::Sorted(map) => map.get(&address).copied(),
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<BlockId> {
        match self {
            Self::Hashed(table) => table.remove(address),
            Self::Sorted(map) => map.remove(&address),
        }
    }
}

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
const FEWEST_PLACES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Place {
    address: u64,
    /// [`BlockId::NONE`] where nothing is.
    block: BlockId,
}

const EMPTY: Place = Place {
    address: 0,
    block: BlockId::NONE,
};

/// Open addressing, at most half full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// None, or a power of two.
    places: Vec<Place>,
    len: usize,
}

impl Table {
    fn home(&self, address: u64) -> usize {
        let bits = self.places.len().trailing_zeros();
        (address.wrapping_mul(GOLDEN_RATIO) >> (64 - bits)) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn find(&self, address: u64) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(address);
        while self.places[at].block != BlockId::NONE {
            if self.places[at].address == address {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn insert(&mut self, address: u64, block: BlockId) {
        if (self.len + 1) * 2 > self.places.len() {
            let n_places = (self.places.len() * 2).max(FEWEST_PLACES);
            let old = std::mem::replace(&mut self.places, vec![EMPTY; n_places]);
            for place in old.into_iter().filter(|place| place.block != BlockId::NONE) {
                self.put(place);
            }
        }
        self.put(Place { address, block });
        self.len += 1;
    }

    fn put(&mut self, place: Place) {
        let mut at = self.home(place.address);
        while self.places[at].block != BlockId::NONE {
            at = self.after(at);
        }
        self.places[at] = place;
    }

    /// What follows moves up, unless it lies where it belongs.
    fn remove(&mut self, address: u64) -> Option<BlockId> {
        let mut hole = self.find(address)?;
        let removed = self.places[hole].block;
        let mask = self.places.len() - 1;
        let mut at = self.after(hole);
        while self.places[at].block != BlockId::NONE {
            let from_home = at.wrapping_sub(self.home(self.places[at].address)) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.places[hole] = EMPTY;
        self.len -= 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn the_table_answers_as_a_tree_does(steps in prop::collection::vec((0..60_u64, any::<bool>()), 1..500)) {
            let mut table = HeldBlocks::new(AddressStructure::Hashed);
            let mut tree = HeldBlocks::new(AddressStructure::Sorted);
            for (at, (address, is_wanted)) in steps.into_iter().enumerate() {
                // Addresses that share a home are what can go wrong.
                let address = address << 56;
                prop_assert_eq!(table.get(address), tree.get(address));
                if !is_wanted {
                    prop_assert_eq!(table.remove(address), tree.remove(address));
                } else if tree.get(address).is_none() {
                    for held in [&mut table, &mut tree] {
                        held.insert(address, BlockId(at as u32));
                    }
                }
            }
            for address in 0..60 {
                prop_assert_eq!(table.get(address << 56), tree.get(address << 56));
            }
        }
    }
}
