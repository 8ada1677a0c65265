//! Which blocks compute their activations again: every choice that is not worse than another in time, in what is kept
//! after the last block, and in the peak.
//!
//! The blocks run one after another, so that what limits a block depends on what the blocks before it keep and on
//! nothing else. Going from block to block, a partial choice that another beats in all three figures can never become
//! the better one, and is dropped; what is left at the end is exact. Alike blocks make alike figures, and choices that
//! differ only by their order merge by themselves.

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
        layers.push(unbeaten(next));
    }
    let last = layers.last().map_or(0, Vec::len);
    (0..last).map(|at| trace_back(&layers, at)).collect()
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
