//! The best placement that could be found for blocks whose lifetimes are all known beforehand.
//!
//! An allocator decides without knowing the future, and this does not: the height it reaches says how much of a
//! peak is fragmentation that some placement avoids. Finding the lowest height is NP-hard and traces have a million
//! blocks, so this searches under a budget, counted in comparisons of two blocks and not in time, and the result
//! depends on nothing but the input. A height equal to the peak of live bytes is proven the lowest.

use oomproof_units::Bytes;

use crate::lifetimes::{Lifetime, peak_of_live_bytes};

/// Every block of PyTorch begins at a multiple of this.
const ALIGNMENT: Bytes = Bytes::new(512);
/// How often an order is improved by placing first what stuck out at the top.
const ROUNDS: usize = 64;
/// Parts that time is cut into, for finding what lives at the same time.
const N_SLICES: usize = 512;

/// Where each block lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Offset of each block, in the order of the lifetimes that were given.
    pub offsets: Vec<Bytes>,
    /// End of the highest block.
    pub height: Bytes,
    /// Whether no placement can be lower.
    pub is_optimal: bool,
}

/// Places blocks so that those that live at the same time do not overlap, each at a multiple of 512 bytes.
///
/// `budget` bounds the work in comparisons of two blocks; with 0 only the quickest method is used.
///
/// ```
/// use oomproof_replay::{Lifetime, check_packing, pack};
/// use oomproof_units::Bytes;
///
/// let of = |kib, begins, ends| Lifetime { size: Bytes::from_kib(kib), begins, ends };
/// let blocks = [of(4, 0, 2), of(4, 1, 4), of(8, 3, 6), of(4, 5, 7)];
/// let packing = pack(&blocks, 1_000);
/// assert_eq!(packing.height, Bytes::from_kib(12));
/// assert!(packing.is_optimal);
/// assert_eq!(check_packing(&blocks, &packing), Ok(()));
/// ```
pub fn pack(lifetimes: &[Lifetime], budget: u64) -> Packing {
    let blocks: Vec<Lifetime> = lifetimes
        .iter()
        .map(|one| Lifetime {
            size: one.size.round_up_to(ALIGNMENT),
            ..*one
        })
        .collect();
    let (floor, _) = peak_of_live_bytes(&blocks);
    let mut best = in_order_of_time(&blocks);
    let mut left = budget;
    if height(&blocks, &best) > floor.get() {
        let chosen = worth_placing(&blocks, budget / 8);
        for key in [Key::SizeTimesLife, Key::Size, Key::Life] {
            if height(&blocks, &best) == floor.get() {
                break;
            }
            improve(&blocks, &chosen, key, floor.get(), &mut left, &mut best);
        }
    }
    let height = Bytes::new(height(&blocks, &best));
    Packing {
        offsets: best.into_iter().map(Bytes::new).collect(),
        height,
        is_optimal: height == floor,
    }
}

fn height(blocks: &[Lifetime], offsets: &[u64]) -> u64 {
    blocks
        .iter()
        .zip(offsets)
        .map(|(block, offset)| offset + block.size.get())
        .max()
        .unwrap_or(0)
}

/// Best fit in the order in which the blocks are asked for, with neighbors joined at once: what an allocator without
/// segments and size classes would do. It is quick whatever the number of blocks.
fn in_order_of_time(blocks: &[Lifetime]) -> Vec<u64> {
    let mut changes: Vec<(u32, bool, usize)> = Vec::with_capacity(blocks.len() * 2);
    for (block_idx, block) in blocks.iter().enumerate() {
        changes.push((block.begins, true, block_idx));
        changes.push((block.ends, false, block_idx));
    }
    changes.sort_unstable();
    let mut holes = Holes::default();
    let mut offsets = vec![0; blocks.len()];
    for (_, begins, block_idx) in changes {
        let size = blocks[block_idx].size.get();
        if begins {
            offsets[block_idx] = holes.take(size);
        } else {
            holes.give(offsets[block_idx], size);
        }
    }
    offsets
}

/// Free ranges below a top that rises when none is large enough.
#[derive(Default)]
struct Holes {
    by_offset: std::collections::BTreeMap<u64, u64>,
    by_size: std::collections::BTreeSet<(u64, u64)>,
    top: u64,
}

impl Holes {
    fn take(&mut self, size: u64) -> u64 {
        if size == 0 {
            return 0;
        }
        let Some(&(hole, offset)) = self.by_size.range((size, 0)..).next() else {
            return self.raise(size);
        };
        self.remove(offset, hole);
        self.insert(offset + size, hole - size);
        offset
    }

    /// Begins in the hole below the top, when there is one.
    fn raise(&mut self, size: u64) -> u64 {
        let last = self.by_offset.last_key_value().map(|(&at, &len)| (at, len));
        let start = match last.filter(|(at, len)| at + len == self.top) {
            Some((at, len)) => {
                self.remove(at, len);
                at
            }
            None => self.top,
        };
        self.top = start + size;
        start
    }

    fn give(&mut self, mut offset: u64, mut size: u64) {
        if size == 0 {
            return;
        }
        if let Some((&at, &len)) = self.by_offset.range(..offset).next_back()
            && at + len == offset
        {
            self.remove(at, len);
            offset = at;
            size += len;
        }
        if let Some(&len) = self.by_offset.get(&(offset + size)) {
            self.remove(offset + size, len);
            size += len;
        }
        self.insert(offset, size);
    }

    fn insert(&mut self, offset: u64, size: u64) {
        if size > 0 {
            self.by_offset.insert(offset, size);
            self.by_size.insert((size, offset));
        }
    }

    fn remove(&mut self, offset: u64, size: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

/// What is placed first when the future is known.
#[derive(Clone, Copy, Debug)]
enum Key {
    SizeTimesLife,
    Size,
    Life,
}

impl Key {
    fn of(self, block: &Lifetime) -> u128 {
        let size = u128::from(block.size.get());
        let life = u128::from(block.ends - block.begins);
        match self {
            Self::SizeTimesLife => size * life,
            Self::Size => size,
            Self::Life => life,
        }
    }
}

/// The blocks whose places are searched: the largest ones, as many as one placement of them all is within `budget`.
/// The rest is small beside them and gets a region of its own.
fn worth_placing(blocks: &[Lifetime], budget: u64) -> Vec<bool> {
    let mut by_size: Vec<usize> = (0..blocks.len()).collect();
    by_size.sort_by_key(|&block_idx| (std::cmp::Reverse(blocks[block_idx].size), block_idx));
    let span = u64::from(blocks.iter().map(|block| block.ends).max().unwrap_or(0)).max(1);
    let mut chosen = vec![false; blocks.len()];
    let mut life = 0_u64;
    for (n_chosen, block_idx) in (1_u64..).zip(by_size) {
        life += u64::from(blocks[block_idx].ends - blocks[block_idx].begins);
        // Mean number of blocks alive at once, times how many of them there are.
        if (u128::from(life) * u128::from(n_chosen) / u128::from(span)) > u128::from(budget) {
            break;
        }
        chosen[block_idx] = true;
    }
    chosen
}

/// Lowest fit in the order of `key`, then again and again with what stuck out at the top placed earlier.
fn improve(
    blocks: &[Lifetime],
    chosen: &[bool],
    key: Key,
    floor: u64,
    left: &mut u64,
    best: &mut Vec<u64>,
) {
    let mut order: Vec<usize> = (0..blocks.len())
        .filter(|&block_idx| chosen[block_idx])
        .collect();
    order.sort_by_key(|&block_idx| (std::cmp::Reverse(key.of(&blocks[block_idx])), block_idx));
    for _ in 0..ROUNDS {
        let Some(mut offsets) = lowest_fit(blocks, &order, left) else {
            return;
        };
        let top = order
            .iter()
            .map(|&block_idx| offsets[block_idx] + blocks[block_idx].size.get())
            .max()
            .unwrap_or(0);
        add_the_rest(blocks, chosen, top, &mut offsets);
        if height(blocks, &offsets) < height(blocks, best) {
            best.clone_from(&offsets);
        }
        if top <= floor {
            return;
        }
        let (high, mut low): (Vec<usize>, Vec<usize>) = order
            .iter()
            .partition(|&&block_idx| offsets[block_idx] + blocks[block_idx].size.get() == top);
        let mut next = high;
        next.append(&mut low);
        if next == order {
            return;
        }
        order = next;
    }
}

/// Blocks that were not chosen lie above `top`, placed in the order of time.
fn add_the_rest(blocks: &[Lifetime], chosen: &[bool], top: u64, offsets: &mut [u64]) {
    let rest: Vec<usize> = (0..blocks.len())
        .filter(|&block_idx| !chosen[block_idx])
        .collect();
    let lifetimes: Vec<Lifetime> = rest.iter().map(|&block_idx| blocks[block_idx]).collect();
    for (block_idx, offset) in rest.into_iter().zip(in_order_of_time(&lifetimes)) {
        offsets[block_idx] = top + offset;
    }
}

/// Each block at the lowest offset that those placed before it leave; `None` when the budget ran out.
fn lowest_fit(blocks: &[Lifetime], order: &[usize], left: &mut u64) -> Option<Vec<u64>> {
    let mut offsets = vec![0; blocks.len()];
    let mut placed = Placed::new(blocks);
    for &block_idx in order {
        let block = &blocks[block_idx];
        let mut beside = placed.beside(block_idx, blocks, &offsets);
        *left = left.checked_sub(beside.len() as u64 + 1)?;
        beside.sort_unstable();
        let mut offset = 0;
        for (start, end) in beside {
            if start >= offset + block.size.get() {
                break;
            }
            offset = offset.max(end);
        }
        offsets[block_idx] = offset;
        placed.insert(block_idx, block);
    }
    Some(offsets)
}

/// Blocks that have a place, found by the slices of time in which they live.
struct Placed {
    slices: Vec<Vec<u32>>,
    events_per_slice: u32,
    /// The last query that met a block, so that it is met once.
    seen: Vec<u32>,
    query: u32,
}

impl Placed {
    fn new(blocks: &[Lifetime]) -> Self {
        let span = blocks.iter().map(|block| block.ends).max().unwrap_or(0);
        Self {
            slices: vec![Vec::new(); N_SLICES],
            events_per_slice: span / N_SLICES as u32 + 1,
            seen: vec![0; blocks.len()],
            query: 0,
        }
    }

    fn slices_of(&self, block: &Lifetime) -> std::ops::RangeInclusive<usize> {
        let last = block.ends.saturating_sub(1).max(block.begins);
        (block.begins / self.events_per_slice) as usize..=(last / self.events_per_slice) as usize
    }

    fn insert(&mut self, block_idx: usize, block: &Lifetime) {
        for slice in self.slices_of(block) {
            self.slices[slice].push(block_idx as u32);
        }
    }

    /// Start and end of every placed block that lives together with this one.
    fn beside(
        &mut self,
        block_idx: usize,
        blocks: &[Lifetime],
        offsets: &[u64],
    ) -> Vec<(u64, u64)> {
        self.query += 1;
        let block = &blocks[block_idx];
        let mut found = Vec::new();
        for slice in self.slices_of(block) {
            for &other_idx in &self.slices[slice] {
                let other_idx = other_idx as usize;
                if self.seen[other_idx] == self.query {
                    continue;
                }
                self.seen[other_idx] = self.query;
                let other = &blocks[other_idx];
                if other.begins < block.ends && block.begins < other.ends {
                    let start = offsets[other_idx];
                    found.push((start, start + other.size.get()));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packing_check::check_packing;

    const BUDGET: u64 = 1_000_000;

    fn blocks(of: &[(u64, u32, u32)]) -> Vec<Lifetime> {
        of.iter()
            .map(|&(units, begins, ends)| Lifetime {
                size: Bytes::new(units * 512),
                begins,
                ends,
            })
            .collect()
    }

    fn check(of: &[(u64, u32, u32)], expected_units: u64) {
        let blocks = blocks(of);
        let packing = pack(&blocks, BUDGET);
        check_packing(&blocks, &packing).unwrap();
        assert_eq!(packing.height, Bytes::new(expected_units * 512), "{of:?}");
    }

    #[test]
    fn small_cases_reach_their_optimum() {
        check(&[], 0);
        check(&[(3, 0, 1)], 3);
        check(&[(3, 0, 1), (4, 1, 2)], 4);
        check(&[(3, 0, 2), (4, 1, 2)], 7);
        // The order of time puts the long block above the first one and never gets below 5.
        check(&[(1, 0, 2), (1, 1, 9), (3, 2, 9)], 4);
        // Blocks 3 and 4 live across the moments at which others of both sizes come and go.
        check(&[(2, 0, 3), (1, 1, 5), (3, 3, 6), (1, 4, 7), (2, 6, 9)], 5);
    }

    #[test]
    fn without_a_budget_the_quick_method_answers() {
        let blocks = blocks(&[(1, 0, 2), (1, 1, 9), (3, 2, 9)]);
        let packing = pack(&blocks, 0);
        check_packing(&blocks, &packing).unwrap();
        assert_eq!(packing.height, Bytes::new(5 * 512));
        assert!(!packing.is_optimal);
    }

    fn any_blocks() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
        let block = (0_u64..20, 0_u32..40, 1_u32..15)
            .prop_map(|(units, begins, life)| (units, begins, begins + life));
        prop::collection::vec(block, 0..60)
    }

    proptest! {
        #[test]
        fn every_packing_is_valid_and_not_below_the_floor(of in any_blocks(), budget in 0_u64..3000) {
            let blocks = blocks(&of);
            let packing = pack(&blocks, budget);
            prop_assert_eq!(check_packing(&blocks, &packing), Ok(()));
            let (floor, _) = peak_of_live_bytes(&blocks);
            prop_assert!(packing.height >= floor);
            prop_assert_eq!(packing.is_optimal, packing.height == floor);
        }

        #[test]
        fn more_budget_never_packs_worse(of in any_blocks()) {
            let blocks = blocks(&of);
            prop_assert!(pack(&blocks, BUDGET).height <= pack(&blocks, 0).height);
        }
    }
}
