//! Memory that every round of a loop leaves behind.
//!
//! A trace has no marks for steps. But a loop repeats itself: some request, of one size and from one stack, comes once
//! in every round, at even distances. What is in use just before it is a level, and levels that rise every time are
//! growth. The rarest such request belongs to the outermost loop. One pass through equal layers looks the same as a
//! loop that keeps everything, so a loop that frees little of what it takes is reported as unsure.

use std::collections::BTreeMap;

use oomproof_snapshot::{Snapshot, StackId};
use oomproof_units::Bytes;
use rustc_hash::FxHashMap;

use crate::event::{Event, Stack};
use crate::lifetimes::Lifetime;
use crate::place::{Place, places};

/// Fewer rounds show nothing.
const LEAST_ROUNDS: usize = 5;
/// Rounds that are looked at, from the end.
const LAST_ROUNDS: usize = 16;
/// How far distances between rounds may be from their median, as one part in so many.
const EVENNESS: u64 = 3;
/// A round that frees less than this share, in percent, of what it takes may be a layer and no step.
const LEAST_FREED_PERCENT: u64 = 60;

/// One block of the program: its lifetime, and a number that is equal for equal stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    lifetime: Lifetime,
    stack: u32,
}

/// Steady growth: every round of a loop leaves memory behind. Stacks are of type `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth<S = Vec<Place>> {
    /// Median growth of the last rounds.
    pub per_round: Bytes,
    /// Rounds that were seen.
    pub n_rounds: usize,
    /// Stack of the request by which rounds were told apart.
    pub marker: S,
    /// Stacks that left blocks behind in the last rounds, with what they leave per round, most first.
    pub left_by: Vec<(S, Bytes)>,
    /// Whether rounds free most of what they take, so that they cannot be the layers of one pass.
    pub is_sure: bool,
}

/// Growth in the trace of a device, whose blocks have these lifetimes.
pub(crate) fn growth_in(
    snapshot: &Snapshot,
    device: u32,
    events: &[Event],
    lifetimes: &[Lifetime],
) -> Option<Growth> {
    let stack_of = |lifetime: &Lifetime| {
        let event = events.get((lifetime.begins as usize).checked_sub(1)?)?;
        match event.stack {
            Stack::None => None,
            Stack::EmptyCache(stack) | Stack::Other(stack) => Some(stack),
        }
    };
    let blocks: Vec<Taken> = lifetimes
        .iter()
        .map(|lifetime| Taken {
            lifetime: *lifetime,
            stack: stack_of(lifetime).unwrap_or(0),
        })
        .collect();
    let found = growth(&blocks, events.len() as u32)?;
    let trace = snapshot.traces().get(device as usize)?;
    let ids: FxHashMap<u32, StackId> = trace
        .stacks()
        .iter()
        .map(|id| (id.index() as u32, *id))
        .collect();
    let named = |stack: u32| {
        let id = ids.get(&stack).copied().unwrap_or(StackId::EMPTY);
        places(snapshot, id)
    };
    Some(Growth {
        per_round: found.per_round,
        n_rounds: found.n_rounds,
        marker: named(found.marker),
        left_by: found
            .left_by
            .into_iter()
            .map(|(stack, bytes)| (named(stack), bytes))
            .collect(),
        is_sure: found.is_sure,
    })
}

/// Looks for growth among blocks given in the order of their allocation; `n_events` ends the trace.
fn growth(blocks: &[Taken], n_events: u32) -> Option<Growth<u32>> {
    let rounds = rounds(blocks)?;
    let levels = levels(blocks, &rounds.begins);
    let last = levels.len().saturating_sub(LAST_ROUNDS);
    let mut rises: Vec<u64> = Vec::new();
    for pair in levels[last..].windows(2) {
        rises.push(pair[1].checked_sub(pair[0]).filter(|rise| *rise > 0)?);
    }
    if rises.len() + 1 < LEAST_ROUNDS {
        return None;
    }
    rises.sort_unstable();
    let per_round = rises[rises.len() / 2];
    let begins = &rounds.begins[last..];
    let (first, end) = (begins[0], begins[begins.len() - 1]);
    let is_between = |event: u32| first <= event && event < end;
    let (mut taken, mut freed) = (0, 0);
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    for block in blocks {
        let size = block.lifetime.size.get();
        if is_between(block.lifetime.begins) {
            taken += size;
            if block.lifetime.ends > n_events {
                *left.entry(block.stack).or_default() += size;
            }
        }
        if is_between(block.lifetime.ends) {
            freed += size;
        }
    }
    let n_looked_at = begins.len() as u64 - 1;
    let mut left_by: Vec<(u32, Bytes)> = left
        .into_iter()
        .map(|(stack, bytes)| (stack, Bytes::new(bytes / n_looked_at)))
        .filter(|(_, bytes)| *bytes > Bytes::ZERO)
        .collect();
    left_by.sort_by_key(|&(stack, bytes)| (std::cmp::Reverse(bytes), stack));
    Some(Growth {
        per_round: Bytes::new(per_round),
        n_rounds: levels.len(),
        marker: rounds.marker,
        left_by,
        is_sure: freed * 100 >= taken * LEAST_FREED_PERCENT,
    })
}

struct Rounds {
    marker: u32,
    begins: Vec<u32>,
}

/// The rarest request that comes at even distances until the end of the trace.
fn rounds(blocks: &[Taken]) -> Option<Rounds> {
    let mut requests: FxHashMap<(u32, Bytes), Vec<u32>> = FxHashMap::default();
    for block in blocks.iter().filter(|block| block.lifetime.begins > 0) {
        let request = (block.stack, block.lifetime.size);
        requests
            .entry(request)
            .or_default()
            .push(block.lifetime.begins);
    }
    let last = blocks.iter().map(|block| block.lifetime.begins).max()?;
    let mut candidates: Vec<_> = requests
        .into_iter()
        .filter(|(_, begins)| begins.len() >= LEAST_ROUNDS)
        .collect();
    candidates.sort_by_key(|((stack, size), begins)| {
        (begins.len(), std::cmp::Reverse(*size), *stack, begins[0])
    });
    candidates
        .into_iter()
        .find(|(_, begins)| is_even(begins, last))
        .map(|((marker, _), begins)| Rounds { marker, begins })
}

/// Whether the last rounds are about equally long, and the trace ends before another would be over.
fn is_even(begins: &[u32], end: u32) -> bool {
    let from = begins.len().saturating_sub(LAST_ROUNDS);
    let distances = begins[from..]
        .windows(2)
        .map(|pair| u64::from(pair[1] - pair[0]));
    let mut distances: Vec<u64> = distances.collect();
    distances.sort_unstable();
    let median = distances[distances.len() / 2];
    let tolerance = median / EVENNESS;
    let is_near = |distance: &u64| distance.abs_diff(median) <= tolerance;
    let rest = u64::from(end - begins[begins.len() - 1]);
    distances.iter().all(is_near) && rest <= median + tolerance
}

/// What is in use just before each of these events.
fn levels(blocks: &[Taken], events: &[u32]) -> Vec<u64> {
    let mut changes: Vec<(u32, i64)> = blocks
        .iter()
        .flat_map(|block| {
            let size = block.lifetime.size.get().cast_signed();
            [(block.lifetime.begins, size), (block.lifetime.ends, -size)]
        })
        .collect();
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let mut live = 0_i64;
    events
        .iter()
        .map(|&event| {
            while let Some((_, change)) = changes.next_if(|(at, _)| *at < event) {
                live += change;
            }
            live.max(0).unsigned_abs()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a loop: every round takes these sizes from stacks 1, 2, ... and frees those that are not kept.
    fn looped(n_rounds: u32, sizes: &[(u64, bool)]) -> (Vec<Taken>, u32) {
        let per_round = 2 * sizes.len() as u32;
        let end = n_rounds * per_round + 1;
        let mut blocks = Vec::new();
        for round in 0..n_rounds {
            for (idx, &(size, is_kept)) in (0..).zip(sizes) {
                let begins = 1 + round * per_round + idx;
                blocks.push(Taken {
                    lifetime: Lifetime {
                        size: Bytes::new(size),
                        begins,
                        ends: if is_kept {
                            end + 1
                        } else {
                            begins + sizes.len() as u32
                        },
                    },
                    stack: idx + 1,
                });
            }
        }
        (blocks, end)
    }

    /// Growth per round, whether it is sure, and what each stack leaves.
    type Expected<'a> = Option<(u64, bool, &'a [(u32, u64)])>;

    fn check(n_rounds: u32, sizes: &[(u64, bool)], expected: Expected<'_>) {
        let (blocks, end) = looped(n_rounds, sizes);
        let found = growth(&blocks, end);
        let found = found.map(|one| {
            let left = one.left_by.iter();
            let left: Vec<(u32, u64)> = left.map(|(stack, bytes)| (*stack, bytes.get())).collect();
            (one.per_round.get(), one.is_sure, left)
        });
        let expected = expected.map(|(bytes, is_sure, left)| (bytes, is_sure, left.to_vec()));
        assert_eq!(found, expected, "{n_rounds} rounds of {sizes:?}");
    }

    #[test]
    fn what_is_kept_in_every_round_is_growth() {
        check(8, &[(900, false), (100, false)], None);
        check(
            8,
            &[(900, false), (100, true)],
            Some((100, true, &[(2, 100)])),
        );
        check(4, &[(900, false), (100, true)], None);
        // Layers of one pass keep most of what they take.
        check(
            8,
            &[(900, true), (100, false)],
            Some((900, false, &[(1, 900)])),
        );
        check(
            40,
            &[(9000, false), (2, true), (70, true)],
            Some((72, true, &[(3, 70), (2, 2)])),
        );
    }

    #[test]
    fn a_rise_that_ends_is_no_growth() {
        let (mut blocks, end) = looped(20, &[(900, false), (100, true)]);
        for block in &mut blocks {
            if block.lifetime.begins > end / 2 {
                block.lifetime.ends = block.lifetime.ends.min(block.lifetime.begins + 2);
            }
        }
        assert_eq!(growth(&blocks, end), None);
    }

    #[test]
    fn nothing_is_no_growth() {
        assert_eq!(growth(&[], 0), None);
    }
}
