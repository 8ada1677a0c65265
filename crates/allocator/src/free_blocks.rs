//! The free blocks of half a pool: by stream, then by size, then by what the release says.
//!
//! A block is put in or taken out at almost every event, so the order is kept where it is cheap. Sizes fall into bins
//! that follow each other, a bitmap says which bins hold anything, and only inside a bin are blocks sorted. Below 2 MiB
//! a bin is one size. One sorted tree gives the same answers ([`FreeStructure::Sorted`]), only slower.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::block::BlockId;

/// How free blocks are kept. It changes nothing but the time it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeStructure {
    /// Bins by size, found by a bitmap.
    #[default]
    Binned,
    /// One tree.
    Sorted,
}

/// Where a block stands among the free blocks of its stream. `number` and `address` are zero where the release does
/// not look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FreeKey {
    pub(crate) size: u64,
    pub(crate) number: i32,
    pub(crate) address: u64,
    pub(crate) block: BlockId,
}

/// Free blocks in order.
#[derive(Clone, Debug)]
pub(crate) struct FreeBlocks {
    structure: FreeStructure,
    /// By the handle of the stream, in order.
    streams: Vec<(u64, Ordered)>,
}

#[derive(Clone, Debug)]
enum Ordered {
    Binned(Box<Bins>),
    Sorted(BTreeSet<FreeKey>),
}

impl FreeBlocks {
    pub(crate) fn new(structure: FreeStructure) -> Self {
        Self {
            structure,
            streams: Vec::new(),
        }
    }

    fn position(&self, handle: u64) -> Result<usize, usize> {
        match self.streams.as_slice() {
            [(only, _)] if *only == handle => Ok(0),
            streams => streams.binary_search_by_key(&handle, |(handle, _)| *handle),
        }
    }

    fn of_stream(&self, handle: u64) -> Option<&Ordered> {
        let at = self.position(handle).ok()?;
        self.streams.get(at).map(|(_, blocks)| blocks)
    }

    pub(crate) fn insert(&mut self, handle: u64, key: FreeKey) {
        let at = match self.position(handle) {
            Ok(at) => at,
            Err(at) => {
                let new = match self.structure {
                    FreeStructure::Binned => Ordered::Binned(Box::default()),
                    FreeStructure::Sorted => Ordered::Sorted(BTreeSet::new()),
                };
                self.streams.insert(at, (handle, new));
                at
            }
        };
        match &mut self.streams[at].1 {
            Ordered::Binned(bins) => bins.insert(key),
            Ordered::Sorted(set) => {
                set.insert(key);
            }
        }
    }

    pub(crate) fn remove(&mut self, handle: u64, key: FreeKey) {
        let Ok(at) = self.position(handle) else {
            return;
        };
        match &mut self.streams[at].1 {
            Ordered::Binned(bins) => bins.remove(key),
            Ordered::Sorted(set) => {
                set.remove(&key);
            }
        }
    }

    /// The first block of at least `size` bytes.
    pub(crate) fn at_least(&self, handle: u64, size: u64) -> Option<FreeKey> {
        let least = FreeKey {
            size,
            number: i32::MIN,
            address: 0,
            block: BlockId::FIRST,
        };
        match self.of_stream(handle)? {
            Ordered::Binned(bins) => bins.next(Bound::Included(least)),
            Ordered::Sorted(set) => set.range(least..).next().copied(),
        }
    }

    /// The block that follows `key` on the same stream.
    pub(crate) fn after(&self, handle: u64, key: FreeKey) -> Option<FreeKey> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        match self.of_stream(handle)? {
            Ordered::Binned(bins) => bins.next(Bound::Excluded(key)),
            Ordered::Sorted(set) => set.range(behind).next().copied(),
        }
    }

    /// Blocks of a stream from the largest down that are smaller than `size`.
    pub(crate) fn downwards_below(&self, handle: u64, size: u64) -> Vec<FreeKey> {
        let mut found: Vec<FreeKey> = self
            .keys_of_stream(handle)
            .into_iter()
            .take_while(|key| key.size < size)
            .collect();
        found.reverse();
        found
    }

    fn keys_of_stream(&self, handle: u64) -> Vec<FreeKey> {
        self.of_stream(handle).map_or(Vec::new(), Ordered::keys)
    }

    /// All, in order.
    pub(crate) fn keys(&self) -> Vec<FreeKey> {
        self.streams
            .iter()
            .flat_map(|(_, blocks)| blocks.keys())
            .collect()
    }
}

impl Ordered {
    fn keys(&self) -> Vec<FreeKey> {
        match self {
            Self::Binned(bins) => bins.keys(),
            Self::Sorted(set) => set.iter().copied().collect(),
        }
    }
}

const UNIT_BITS: u32 = 9;
/// Sizes below 2 MiB have a bin for each 512 bytes.
const N_FINE: usize = 4096;
const FIRST_COARSE_BITS: u32 = 21;
/// Above, each power of two has so many.
const COARSE_BITS: u32 = 6;
const N_BINS: usize = N_FINE + (64 - FIRST_COARSE_BITS as usize) * (1 << COARSE_BITS);
const N_WORDS: usize = N_BINS.div_ceil(64);
const N_SUMMARY: usize = N_WORDS.div_ceil(64);

fn bin_of(size: u64) -> usize {
    let unit = (size >> UNIT_BITS) as usize;
    if unit < N_FINE {
        return unit;
    }
    let magnitude = size.ilog2();
    let part = (size >> (magnitude - COARSE_BITS)) as usize & ((1 << COARSE_BITS) - 1);
    N_FINE + ((magnitude - FIRST_COARSE_BITS) as usize) * (1 << COARSE_BITS) + part
}

/// 64 bins that follow each other, made when the first of them is used.
type Chunk = Box<[Bin; 64]>;

#[derive(Clone, Debug)]
struct Bins {
    chunks: Vec<Option<Chunk>>,
    /// A bit for each bin that holds something.
    words: [u64; N_WORDS],
    /// A bit for each such word.
    summary: [u64; N_SUMMARY],
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            chunks: (0..N_WORDS).map(|_| None).collect(),
            words: [0; N_WORDS],
            summary: [0; N_SUMMARY],
        }
    }
}

impl Bins {
    fn insert(&mut self, key: FreeKey) {
        let at = bin_of(key.size);
        let (word, bit) = (at / 64, at % 64);
        let chunk = self.chunks[word]
            .get_or_insert_with(|| Box::new(std::array::from_fn(|_| Bin::default())));
        chunk[bit].insert(key);
        self.words[word] |= 1 << bit;
        self.summary[word / 64] |= 1 << (word % 64);
    }

    fn remove(&mut self, key: FreeKey) {
        let at = bin_of(key.size);
        let (word, bit) = (at / 64, at % 64);
        let Some(chunk) = &mut self.chunks[word] else {
            return;
        };
        chunk[bit].remove(key);
        if chunk[bit].is_empty() {
            self.words[word] &= !(1 << bit);
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    fn bin(&self, at: usize) -> Option<&Bin> {
        self.chunks
            .get(at / 64)?
            .as_ref()
            .map(|chunk| &chunk[at % 64])
    }

    /// The first bin from `at` on that holds something.
    fn used_from(&self, at: usize) -> Option<usize> {
        let word = at / 64;
        let here = self.words.get(word)? & (u64::MAX << (at % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let next = word + 1;
        let mut group = next / 64;
        let mut bits = self.summary.get(group)? & (u64::MAX << (next % 64));
        while bits == 0 {
            group += 1;
            bits = *self.summary.get(group)?;
        }
        let word = group * 64 + bits.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    fn next(&self, from: Bound<FreeKey>) -> Option<FreeKey> {
        let (Bound::Included(key) | Bound::Excluded(key)) = from else {
            return None;
        };
        let at = bin_of(key.size);
        let found = self.bin(at).and_then(|bin| bin.next(from));
        found.or_else(|| {
            let at = self.used_from(at + 1)?;
            self.bin(at)?.first()
        })
    }

    fn keys(&self) -> Vec<FreeKey> {
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some(used) = self.used_from(at) {
            if let Some(bin) = self.bin(used) {
                bin.extend_into(&mut keys);
            }
            at = used + 1;
        }
        keys
    }
}

/// Up to here, moving entries along costs less than a tree.
const MAX_LISTED: usize = 192;

/// Few blocks are a list with the first at its end, where it is taken away at no cost; many are a tree.
#[derive(Clone, Debug)]
enum Bin {
    Listed(Vec<FreeKey>),
    Tree(BTreeSet<FreeKey>),
}

impl Default for Bin {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Bin {
    fn is_empty(&self) -> bool {
        match self {
            Self::Listed(list) => list.is_empty(),
            Self::Tree(tree) => tree.is_empty(),
        }
    }

    fn insert(&mut self, key: FreeKey) {
        match self {
            Self::Listed(list) if list.len() < MAX_LISTED => {
                let at = list.partition_point(|other| *other > key);
                list.insert(at, key);
            }
            Self::Listed(list) => {
                let mut tree: BTreeSet<FreeKey> = list.drain(..).collect();
                tree.insert(key);
                *self = Self::Tree(tree);
            }
            Self::Tree(tree) => {
                tree.insert(key);
            }
        }
    }

    fn remove(&mut self, key: FreeKey) {
        match self {
            Self::Listed(list) => {
                let at = list.partition_point(|other| *other > key);
                if list.get(at) == Some(&key) {
                    list.remove(at);
                }
            }
            Self::Tree(tree) => {
                tree.remove(&key);
                if tree.is_empty() {
                    *self = Self::default();
                }
            }
        }
    }

    fn first(&self) -> Option<FreeKey> {
        match self {
            Self::Listed(list) => list.last().copied(),
            Self::Tree(tree) => tree.first().copied(),
        }
    }

    fn next(&self, from: Bound<FreeKey>) -> Option<FreeKey> {
        match self {
            Self::Listed(list) => {
                let n_before = match from {
                    Bound::Included(key) => list.partition_point(|other| *other >= key),
                    Bound::Excluded(key) => list.partition_point(|other| *other > key),
                    Bound::Unbounded => list.len(),
                };
                n_before.checked_sub(1).map(|at| list[at])
            }
            Self::Tree(tree) => tree.range((from, Bound::Unbounded)).next().copied(),
        }
    }

    fn extend_into(&self, keys: &mut Vec<FreeKey>) {
        match self {
            Self::Listed(list) => keys.extend(list.iter().rev()),
            Self::Tree(tree) => keys.extend(tree),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_follow_each_other() {
        let sizes = [
            0,
            511,
            512,
            1024,
            (2 << 20) - 512,
            2 << 20,
            (2 << 20) + (32 << 10),
            3 << 20,
            1 << 40,
            u64::MAX,
        ];
        assert!(sizes.map(bin_of).is_sorted());
        assert_eq!(bin_of((2 << 20) - 1) + 1, bin_of(2 << 20));
        assert_eq!(bin_of(u64::MAX), N_BINS - 1);
    }

    fn a_key() -> impl Strategy<Value = (u64, FreeKey)> {
        let size = prop_oneof![
            (0..8_u64).prop_map(|n| 512 * n),
            (0..1_u64 << 40),
            (20..40_u32, 0..3_u64).prop_map(|(bits, more)| (1 << bits) + 512 * more),
        ];
        (0..3_u64, size, -2..3_i32, 0..3_u64, 0..3_u32).prop_map(
            |(handle, size, number, address, block)| {
                let block = BlockId(block);
                (
                    handle,
                    FreeKey {
                        size,
                        number,
                        address,
                        block,
                    },
                )
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn bins_answer_as_a_tree_does(steps in prop::collection::vec((a_key(), 0..3_u8), 1..400)) {
            let mut binned = FreeBlocks::new(FreeStructure::Binned);
            let mut sorted = FreeBlocks::new(FreeStructure::Sorted);
            for ((handle, key), step) in steps {
                for blocks in [&mut binned, &mut sorted] {
                    match step {
                        0 => blocks.remove(handle, key),
                        // A block is never put in twice.
                        _ if blocks.keys_of_stream(handle).contains(&key) => {}
                        _ => blocks.insert(handle, key),
                    }
                }
                prop_assert_eq!(binned.at_least(handle, key.size), sorted.at_least(handle, key.size));
                prop_assert_eq!(binned.after(handle, key), sorted.after(handle, key));
                let below = binned.downwards_below(handle, key.size);
                prop_assert_eq!(below, sorted.downwards_below(handle, key.size));
            }
            prop_assert_eq!(binned.keys(), sorted.keys());
        }
    }
}
