//! Which blocks compute their activations again when nothing is known of their order, as in networks with branches and
//! skips: at its worst moment, a block may find everything that the others keep.
//!
//! That makes each choice depend on all others, which no walk from block to block can follow. It is a whole-number
//! program instead: one mode for each block, the sum of what is kept plus what a block adds at its worst below a cap,
//! the time least. Lower and lower caps give choices from the fastest to the smallest.

use good_lp::solvers::microlp::MicroLpProblem;
use good_lp::variable::UnsolvedProblem;
use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable,
};
use oomproof_units::{Bytes, Nanos};

use crate::recompute::{Choice, Way};

/// A program with more variables takes seconds.
#[cfg(not(feature = "highs"))]
pub(crate) const MOST_VARIABLES: usize = 24;
#[cfg(feature = "highs")]
pub(crate) const MOST_VARIABLES: usize = 72;

/// So many caps are tried between the largest and the smallest peak.
const MOST_CAPS: u64 = 12;

/// Choices from the fastest to the smallest; each is the fastest of all below some cap.
pub fn choices_in_any_order(stages: &[Vec<Way>]) -> Vec<Choice> {
    #[cfg(not(feature = "highs"))]
    return choices_by(in_rust, stages);
    #[cfg(feature = "highs")]
    return choices_by(in_highs, stages);
}

/// The solver that is always there.
#[cfg_attr(
    all(feature = "highs", not(test)),
    expect(dead_code, reason = "what the other one is compared with")
)]
fn in_rust(program: UnsolvedProblem) -> MicroLpProblem {
    program.using(microlp)
}

#[cfg(feature = "highs")]
fn in_highs(program: UnsolvedProblem) -> good_lp::solvers::highs::HighsProblem {
    // Threads cost more than they bring; by default it ends a little before the best, and takes for the same what
    // differs by as little as the time of the smallest choices counts.
    let problem = program.using(good_lp::highs).set_threads(1);
    let mut problem = problem
        .set_mip_rel_gap(0.0)
        .and_then(|problem| problem.set_mip_abs_gap(0.0))
        .unwrap_or_else(|_| unreachable!("0 is a gap"));
    for kind in ["mip", "primal", "dual"] {
        problem = problem.set_option(format!("{kind}_feasibility_tolerance"), 1e-9);
    }
    problem
}

fn choices_by<M: SolverModel>(
    solver: impl Fn(UnsolvedProblem) -> M,
    stages: &[Vec<Way>],
) -> Vec<Choice> {
    let fastest = fastest(stages);
    let smallest = fastest_below(&solver, stages, None);
    let mut found = vec![judged(stages, fastest)];
    let Some(smallest) = smallest else {
        return found;
    };
    let smallest = judged(stages, smallest);
    let bottom = smallest.peak.get();
    let above = found[0].peak.get().saturating_sub(bottom);
    for step in 1..MOST_CAPS {
        let cap = bottom + above / MOST_CAPS * (MOST_CAPS - step);
        if let Some(ways) = fastest_below(&solver, stages, Some(Bytes::new(cap))) {
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
fn fastest_below<M: SolverModel>(
    solver: impl Fn(UnsolvedProblem) -> M,
    stages: &[Vec<Way>],
    cap: Option<Bytes>,
) -> Option<Vec<u8>> {
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
    let mut problem = solver(variables.minimise(goal));
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
    let solved = problem.solve().ok()?;
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

    #[cfg(feature = "highs")]
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn both_solvers_find_the_same(stages in proptest::collection::vec(stage(), 1..9)) {
            let figures = |choices: Vec<Choice>| -> Vec<(Bytes, Nanos)> {
                let each = choices.iter().map(|choice| (choice.peak, choice.time));
                each.collect()
            };
            let (ours, theirs) = (choices_by(in_rust, &stages), choices_by(in_highs, &stages));
            // Of choices as fast, either may be found, of which the smallest one alone has a peak of its own.
            let times = |figures: &[(Bytes, Nanos)]| figures.iter().map(|it| it.1).min();
            let least = |figures: &[(Bytes, Nanos)]| figures.iter().map(|it| it.0).min();
            let (ours, theirs) = (figures(ours), figures(theirs));
            prop_assert_eq!(times(&ours), times(&theirs));
            prop_assert_eq!(least(&ours), least(&theirs));
        }
    }

    /// `cargo test --release -p oomproof-planner --features highs --lib how_long -- --ignored --nocapture`
    #[cfg(feature = "highs")]
    #[test]
    #[ignore = "tells how long both solvers take"]
    #[expect(clippy::print_stderr, reason = "it tells what it found")]
    fn how_long_both_solvers_take() {
        for (n_blocks, n_modes) in [(8, 2), (8, 3), (12, 2), (24, 2), (24, 3), (48, 3)] {
            let way = |block: u64, mode: u64| {
                let saved = (80 << 20) + (block * 7919 % 1000) * 12_345;
                Way {
                    kept: Bytes::new(saved - saved / n_modes * mode),
                    alone: Bytes::new(saved + saved / 5 + saved / 100 * mode),
                    time: Nanos::since_start(mode * mode * saved / 1000),
                }
            };
            let stages: Vec<Vec<Way>> = (0..n_blocks)
                .map(|block| (0..n_modes).map(|mode| way(block, mode)).collect())
                .collect();
            let begun = std::time::Instant::now();
            let theirs = choices_by(in_highs, &stages);
            let by_highs = begun.elapsed();
            let begun = std::time::Instant::now();
            // More take minutes.
            let ours = (n_blocks * n_modes <= 24).then(|| choices_by(in_rust, &stages));
            let by_rust = ours.as_ref().map(|_| begun.elapsed());
            eprintln!("{n_blocks} x {n_modes}: highs {by_highs:?}, microlp {by_rust:?}");
            // The one in Rust may exceed a cap by a few bytes, and have another choice for it.
            let beats =
                |one: &Choice, other: &Choice| one.peak <= other.peak && one.time < other.time;
            for ours in ours.iter().flatten() {
                for theirs in &theirs {
                    assert!(!beats(ours, theirs) && !beats(theirs, ours));
                }
            }
        }
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
