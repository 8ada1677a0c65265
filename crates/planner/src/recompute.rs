//! Which blocks compute their activations again: every choice that is not worse than another in time, in what is kept
//! after the last block, and in the peak.
//!
//! The blocks run one after another, so that what limits a block depends on what the blocks before it keep and on
//! nothing else. Going from block to block, a partial choice that another beats in all three figures can never become
//! the better one, and is dropped; what is left at the end is exact. Alike blocks make alike figures, and choices that
//! differ only by their order merge by themselves. It is exact up to some thousands of partial choices at a block.

use std::collections::BTreeMap;

use oomproof_units::{Bytes, Nanos};

/// One way for a block to go through a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it keeps for its backward pass.
    pub kept: Bytes,
    /// What is alive at its worst moment, beside what other blocks keep.
    pub alone: Bytes,
    /// What it costs.
    pub time: Nanos,
}

/// A choice of one way for each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of the way of each block.
    pub ways: Vec<u8>,
    /// What all blocks keep.
    pub kept: Bytes,
    /// What is alive at the worst moment of all blocks.
    pub peak: Bytes,
    /// What all ways cost.
    pub time: Nanos,
}

#[derive(Clone, Copy)]
struct State {
    kept: u64,
    peak: u64,
    ns: u64,
    /// What is kept, added up over all blocks: among equals the one that keeps less for shorter.
    area: u64,
    /// Which state of the stage before, and which way.
    from: u32,
    way: u8,
}

/// All choices for blocks that run one after another that no other choice beats, the cheapest first.
pub fn choices_of_chain(stages: &[Vec<Way>]) -> Vec<Choice> {
    let mut layers: Vec<Vec<State>> = vec![vec![State {
        kept: 0,
        peak: 0,
        ns: 0,
        area: 0,
        from: 0,
        way: 0,
    }]];
    for ways in stages {
        let before = layers.last().map_or(&[][..], Vec::as_slice);
        let mut next = Vec::with_capacity(before.len() * ways.len());
        for (from, state) in before.iter().enumerate() {
            for (way_idx, way) in ways.iter().enumerate() {
                let kept = state.kept + way.kept.get();
                next.push(State {
                    kept,
                    peak: state.peak.max(state.kept + way.alone.get()),
                    ns: state.ns + way.time.get(),
                    area: state.area + kept,
                    from: from as u32,
                    way: way_idx as u8,
                });
            }
        }
        layers.push(coarsened(unbeaten(next)));
    }
    let last = layers.last().map_or(0, Vec::len);
    (0..last).map(|at| trace_back(&layers, at)).collect()
}

/// Where blocks differ without a common measure, nearly every partial choice is another one that none beats. Of more
/// than so many, one of each cell of a grid is kept, so that a choice may be beaten by a cell's width at each block.
const MOST_STATES: usize = 4096;
/// Cells of the grid along time, and along what is kept.
const CELLS: u64 = 32;

fn coarsened(states: Vec<State>) -> Vec<State> {
    if states.len() <= MOST_STATES {
        return states;
    }
    let range = |figure: fn(&State) -> u64| {
        let least = states.iter().map(figure).min().unwrap_or(0);
        let most = states.iter().map(figure).max().unwrap_or(0);
        (least, (most - least) / CELLS + 1)
    };
    let (ns, kept) = (range(|it| it.ns), range(|it| it.kept));
    let mut cells: BTreeMap<(u64, u64), State> = BTreeMap::new();
    // The fastest, the one that keeps least and the smallest stay whatever their cell.
    let ends = [
        states.iter().min_by_key(|it| (it.ns, it.peak)),
        states.iter().min_by_key(|it| (it.kept, it.peak)),
        states.iter().min_by_key(|it| (it.peak, it.ns)),
    ];
    let mut left: Vec<State> = ends.into_iter().flatten().copied().collect();
    for state in states {
        let cell = ((state.ns - ns.0) / ns.1, (state.kept - kept.0) / kept.1);
        let best = cells.entry(cell).or_insert(state);
        if (state.peak, state.ns) < (best.peak, best.ns) {
            *best = state;
        }
    }
    left.extend(cells.into_values());
    unbeaten(left)
}

/// Drops what another beats in all three figures.
fn unbeaten(mut states: Vec<State>) -> Vec<State> {
    states.sort_unstable_by_key(|it| (it.ns, it.kept, it.peak, it.area, it.from, it.way));
    // Of what is cheaper, the stairs of least `peak` over `kept`: ascending in one, descending in the other.
    let mut stairs: Vec<(u64, u64)> = Vec::new();
    let mut left = Vec::new();
    for state in states {
        let above = stairs.partition_point(|(kept, _)| *kept <= state.kept);
        if above > 0 && stairs[above - 1].1 <= state.peak {
            continue;
        }
        let end = above
            + stairs[above..]
                .iter()
                .take_while(|(_, peak)| *peak >= state.peak)
                .count();
        stairs.splice(above..end, [(state.kept, state.peak)]);
        left.push(state);
    }
    left
}

fn trace_back(layers: &[Vec<State>], last: usize) -> Choice {
    let mut at = last;
    let mut ways = Vec::with_capacity(layers.len() - 1);
    let end = layers[layers.len() - 1][last];
    for layer in layers[1..].iter().rev() {
        ways.push(layer[at].way);
        at = layer[at].from as usize;
    }
    ways.reverse();
    Choice {
        ways,
        kept: Bytes::new(end.kept),
        peak: Bytes::new(end.peak),
        time: Nanos::since_start(end.ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Kept, peak and time of every choice, by counting through them.
    fn all(stages: &[Vec<Way>]) -> Vec<(u64, u64, u64)> {
        let mut found = vec![(0, 0, 0)];
        for ways in stages {
            found = found
                .iter()
                .flat_map(|(kept, peak, ns)| {
                    ways.iter().map(move |way| {
                        (
                            kept + way.kept.get(),
                            (kept + way.alone.get()).max(*peak),
                            ns + way.time.get(),
                        )
                    })
                })
                .collect();
        }
        found
    }

    fn stage() -> impl Strategy<Value = Vec<Way>> {
        let way = (0_u64..6, 0_u64..8, 0_u64..5).prop_map(|(kept, alone, ns)| Way {
            kept: Bytes::new(kept),
            alone: Bytes::new(alone),
            time: Nanos::since_start(ns),
        });
        proptest::collection::vec(way, 1..4)
    }

    /// Blocks of all sizes: with as many partial choices as there are, it would take longer than anybody waits.
    #[test]
    fn many_different_blocks_end_with_a_range_of_choices() {
        let stages: Vec<Vec<Way>> = (0..50_u64)
            .map(|block| {
                let size = 1_000_000 + block * 7919 % 1000 * 12_345;
                let way = |kept: u64, ns: u64| Way {
                    kept: Bytes::new(kept),
                    alone: Bytes::new(size * 2 + ns),
                    time: Nanos::since_start(ns),
                };
                vec![
                    way(size, 0),
                    way(size / 9, size / 7),
                    way(size / 50, size / 3),
                ]
            })
            .collect();
        let found = choices_of_chain(&stages);
        let least = |index: usize| stages.iter().map(|ways| ways[index].kept).sum::<Bytes>();
        assert_eq!(found.first().map(|it| it.kept), Some(least(0)));
        assert!(found.iter().any(|it| it.kept == least(2)));
        // Half of what is dropped costs a good deal less than half of the price of all of it.
        let price = found.iter().map(|it| it.time.get()).max().unwrap_or(0);
        let half = Bytes::new(least(0).get() / 2);
        let cheap = found
            .iter()
            .filter(|it| it.kept <= half)
            .map(|it| it.time.get())
            .min();
        assert!(
            cheap.is_some_and(|cheap| cheap * 3 < price),
            "{cheap:?} of {price}"
        );
    }

    proptest! {
        #[test]
        fn nothing_better_is_missed(stages in proptest::collection::vec(stage(), 0..6)) {
            let figures = |it: &Choice| (it.kept.get(), it.peak.get(), it.time.get());
            let found = choices_of_chain(&stages);
            for (kept, peak, ns) in all(&stages) {
                prop_assert!(
                    found.iter().map(figures).any(|it| it.0 <= kept && it.1 <= peak && it.2 <= ns),
                    "{kept} {peak} {ns}"
                );
            }
            for choice in &found {
                let chosen: Vec<Vec<Way>> = stages
                    .iter()
                    .zip(&choice.ways)
                    .map(|(ways, way)| vec![ways[usize::from(*way)]])
                    .collect();
                prop_assert_eq!(all(&chosen), vec![figures(choice)]);
            }
        }
    }
}
