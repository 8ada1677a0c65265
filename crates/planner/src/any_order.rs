//! Which blocks compute their activations again when nothing is known of their order, as in networks with branches and
//! skips: at its worst moment, a block may find everything that the others keep.
//!
//! That makes each choice depend on all others, which no walk from block to block can follow. It is a whole-number
//! program instead: one mode for each block, the sum of what is kept plus what a block adds at its worst below a cap,
//! the time least. Lower and lower caps give choices from the fastest to the smallest.

use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, constraint,
    microlp, variable,
};
use oomproof_units::{Bytes, Nanos};

use crate::recompute::{Choice, Way};

/// So many caps are tried between the largest and the smallest peak.
const MOST_CAPS: u64 = 12;

/// Choices from the fastest to the smallest; each is the fastest of all below some cap.
pub fn choices_in_any_order(stages: &[Vec<Way>]) -> Vec<Choice> {
    let fastest = fastest(stages);
    let smallest = fastest_below(stages, None);
    let mut found = vec![judged(stages, fastest)];
    let Some(smallest) = smallest else {
        return found;
    };
    let smallest = judged(stages, smallest);
    let bottom = smallest.peak.get();
    let above = found[0].peak.get().saturating_sub(bottom);
    for step in 1..MOST_CAPS {
        let cap = bottom + above / MOST_CAPS * (MOST_CAPS - step);
        if let Some(ways) = fastest_below(stages, Some(Bytes::new(cap))) {
            found.push(judged(stages, ways));
        }
    }
    found.push(smallest);
    found.dedup_by(|later, earlier| later.ways == earlier.ways);
    found
}

/// The fastest way of each block.
fn fastest(stages: &[Vec<Way>]) -> Vec<u8> {
    let least = |ways: &Vec<Way>| {
        let each = (0_u8..).zip(ways);
        each.min_by_key(|(_, way)| way.time)
            .map_or(0, |(way, _)| way)
    };
    stages.iter().map(least).collect()
}

/// What a choice comes to.
pub(crate) fn judged(stages: &[Vec<Way>], ways: Vec<u8>) -> Choice {
    let chosen = || {
        let each = stages.iter().zip(&ways);
        each.map(|(stage, way)| stage[usize::from(*way)])
    };
    let kept: Bytes = chosen().map(|way| way.kept).sum();
    let peaks = chosen().map(|way| kept - way.kept + way.alone);
    Choice {
        kept,
        peak: peaks.max().unwrap_or(Bytes::ZERO),
        time: Nanos::since_start(chosen().map(|way| way.time.get()).sum()),
        ways,
    }
}

/// The fastest choice whose peak is at most `cap`; without a cap the choice with the least peak.
fn fastest_below(stages: &[Vec<Way>], cap: Option<Bytes>) -> Option<Vec<u8>> {
    // Numbers of a like size, which the simplex method needs.
    let kept_of = |way: &Way| way.kept.get() as f64;
    let adds_of = |way: &Way| way.alone.signed_difference(way.kept) as f64;
    let ns_of = |way: &Way| way.time.get() as f64;
    let size = |figure: fn(&Way) -> f64| {
        let all = stages.iter().flatten().map(figure);
        all.fold(0.0, f64::max).max(1.0)
    };
    let (bytes, ns) = (size(kept_of).max(size(adds_of)), size(ns_of));
    let mut variables = ProblemVariables::new();
    let takes: Vec<Vec<Variable>> = stages
        .iter()
        .map(|ways| variables.add_vector(variable().binary(), ways.len()))
        .collect();
    let peak = variables.add(variable().min(0.0));
    let each = || {
        let pairs = stages.iter().zip(&takes);
        pairs.flat_map(|(ways, takes)| ways.iter().zip(takes.iter().copied()))
    };
    let sum = |figure: fn(&Way) -> f64, size: f64| -> Expression {
        each().map(|(way, take)| figure(way) / size * take).sum()
    };
    let time = sum(ns_of, ns);
    let kept = sum(kept_of, bytes);
    let goal = match cap {
        Some(_) => time,
        // Of the smallest, the fastest.
        None => peak + time * 1e-6,
    };
    let mut problem = variables.minimise(goal).using(microlp);
    for (ways, takes) in stages.iter().zip(&takes) {
        let one: Expression = takes.iter().sum();
        problem = problem.with(constraint!(one == 1.0));
        let adds: Expression = ways
            .iter()
            .zip(takes)
            .map(|(way, take)| adds_of(way) / bytes * *take)
            .sum();
        problem = problem.with(constraint!(kept.clone() + adds <= peak));
    }
    if let Some(cap) = cap {
        problem = problem.with(constraint!(peak <= cap.get() as f64 / bytes));
    }
    let solved: Result<_, ResolutionError> = problem.solve();
    let solved = solved.ok()?;
    let chosen = |takes: &Vec<Variable>| {
        let each = (0_u8..).zip(takes);
        each.max_by(|a, b| solved.value(*a.1).total_cmp(&solved.value(*b.1)))
            .map_or(0, |(way, _)| way)
    };
    Some(takes.iter().map(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Peak and time of every choice.
    fn all(stages: &[Vec<Way>]) -> Vec<(u64, u64)> {
        let mut found: Vec<Vec<Way>> = vec![Vec::new()];
        for ways in stages {
            found = found
                .iter()
                .flat_map(|chosen| ways.iter().map(|way| [chosen.as_slice(), &[*way]].concat()))
                .collect();
        }
        let figures = found.iter().map(|chosen| {
            let kept: u64 = chosen.iter().map(|way| way.kept.get()).sum();
            let worst = chosen
                .iter()
                .map(|way| kept - way.kept.get() + way.alone.get());
            (
                worst.max().unwrap_or(0),
                chosen.iter().map(|way| way.time.get()).sum(),
            )
        });
        figures.collect()
    }

    fn stage() -> impl Strategy<Value = Vec<Way>> {
        let way = (0_u64..6, 0_u64..8, 0_u64..5).prop_map(|(kept, more, ns)| Way {
            kept: Bytes::new(kept),
            alone: Bytes::new(kept + more),
            time: Nanos::since_start(ns),
        });
        proptest::collection::vec(way, 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn each_is_the_fastest_of_its_size(stages in proptest::collection::vec(stage(), 1..5)) {
            let all = all(&stages);
            let found = choices_in_any_order(&stages);
            let least = all.iter().map(|it| it.0).min().unwrap_or(0);
            prop_assert!(found.iter().any(|it| it.peak.get() == least), "{found:?} {least}");
            for choice in &found {
                let fastest = all.iter().filter(|it| it.0 <= choice.peak.get()).map(|it| it.1);
                prop_assert_eq!(choice.time.get(), fastest.min().unwrap_or(0));
            }
        }
    }
}
