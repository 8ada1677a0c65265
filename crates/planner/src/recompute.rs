//! Which blocks compute their activations again: every choice that is not worse than another in time, in what is kept
//! after the last block, and in the peak.
//!
//! The blocks run one after another, so that what limits a block depends on what the blocks before it keep and on
//! nothing else. Going from block to block, a partial choice that another beats in all three figures can never become
//! the better one, and is dropped; what is left at the end is exact. Alike blocks make alike figures, and choices that
//! differ only by their order merge by themselves.

/// One way for a block to go through a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    /// What it keeps for its backward pass.
    pub kept: f64,
    /// What is alive at its worst moment, beside what the blocks before it keep.
    pub alone: f64,
    /// What it costs.
    pub ns: f64,
}

/// A choice of one way for each block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The index of the way of each block.
    pub ways: Vec<u8>,
    /// What all blocks keep.
    pub kept: f64,
    /// What is alive at the worst moment of all blocks.
    pub peak: f64,
    /// What all ways cost.
    pub ns: f64,
}

#[derive(Clone, Copy)]
struct State {
    kept: f64,
    peak: f64,
    ns: f64,
    /// What is kept, added up over all blocks: among equals the one that keeps less for shorter.
    area: f64,
    /// Which state of the stage before, and which way.
    from: u32,
    way: u8,
}

/// All choices that no other beats, the cheapest first.
pub(crate) fn choices(stages: &[Vec<Way>]) -> Vec<Choice> {
    let mut layers: Vec<Vec<State>> = vec![vec![State {
        kept: 0.0,
        peak: 0.0,
        ns: 0.0,
        area: 0.0,
        from: 0,
        way: 0,
    }]];
    for ways in stages {
        let before = layers.last().map_or(&[][..], Vec::as_slice);
        let mut next = Vec::with_capacity(before.len() * ways.len());
        for (from, state) in before.iter().enumerate() {
            for (way_idx, way) in ways.iter().enumerate() {
                next.push(State {
                    kept: state.kept + way.kept,
                    peak: state.peak.max(state.kept + way.alone),
                    ns: state.ns + way.ns,
                    area: state.area + state.kept + way.kept,
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
    states.sort_by(|a, b| {
        a.ns.total_cmp(&b.ns)
            .then(a.kept.total_cmp(&b.kept))
            .then(a.peak.total_cmp(&b.peak))
            .then(a.area.total_cmp(&b.area))
    });
    // Of what is cheaper, the stairs of least `peak` over `kept`: ascending in one, descending in the other.
    let mut stairs: Vec<(f64, f64)> = Vec::new();
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
        kept: end.kept,
        peak: end.peak,
        ns: end.ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every choice, by counting through them.
    fn all(stages: &[Vec<Way>]) -> Vec<(f64, f64, f64)> {
        let mut found = vec![(0.0, 0.0_f64, 0.0)];
        for ways in stages {
            found = found
                .iter()
                .flat_map(|(kept, peak, ns)| {
                    ways.iter()
                        .map(move |way| (kept + way.kept, peak.max(kept + way.alone), ns + way.ns))
                })
                .collect();
        }
        found
    }

    fn stage() -> impl Strategy<Value = Vec<Way>> {
        let way = (0_u32..6, 0_u32..8, 0_u32..5).prop_map(|(kept, alone, ns)| Way {
            kept: f64::from(kept),
            alone: f64::from(alone),
            ns: f64::from(ns),
        });
        proptest::collection::vec(way, 1..4)
    }

    proptest! {
        #[test]
        fn nothing_better_is_missed(stages in proptest::collection::vec(stage(), 0..6)) {
            let found = choices(&stages);
            for (kept, peak, ns) in all(&stages) {
                prop_assert!(
                    found.iter().any(|it| it.kept <= kept && it.peak <= peak && it.ns <= ns),
                    "{kept} {peak} {ns}"
                );
            }
            for choice in &found {
                let (mut kept, mut peak, mut ns) = (0.0, 0.0_f64, 0.0);
                for (ways, way) in stages.iter().zip(&choice.ways) {
                    let way = ways[usize::from(*way)];
                    peak = peak.max(kept + way.alone);
                    kept += way.kept;
                    ns += way.ns;
                }
                prop_assert_eq!((kept, peak, ns), (choice.kept, choice.peak, choice.ns));
            }
        }
    }
}
