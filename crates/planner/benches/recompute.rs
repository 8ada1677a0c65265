//! How long it takes to choose what to compute again: `cargo bench -p oomproof-planner`, with `--features highs` for the
//! other solver.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use oomproof_planner::{Way, choices_in_any_order, choices_of_chain};
use oomproof_units::{Bytes, Nanos};

/// How alike the blocks are.
#[derive(Clone, Copy)]
enum Blocks {
    Alike,
    Different,
}

/// Blocks with modes that keep less and less and cost more and more.
fn stages(n_blocks: u64, n_modes: u64, blocks: Blocks) -> Vec<Vec<Way>> {
    let size = |block: u64| match blocks {
        Blocks::Alike => 100 << 20,
        // Sizes without a common measure.
        Blocks::Different => (80 << 20) + (block * 7919 % 1000) * 12_345,
    };
    let way = |block: u64, mode: u64| {
        let saved = size(block);
        Way {
            kept: Bytes::new(saved - saved / n_modes * mode),
            alone: Bytes::new(saved + saved / 5 + saved / 100 * mode),
            time: Nanos::since_start(mode * mode * saved / 1000),
        }
    };
    (0..n_blocks)
        .map(|block| (0..n_modes).map(|mode| way(block, mode)).collect())
        .collect()
}

fn chains(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chain");
    group.sample_size(10);
    for (n_blocks, n_modes) in [(12, 3), (32, 2), (32, 6), (80, 3)] {
        let name = format!("{n_blocks} x {n_modes}");
        for (kind, blocks) in [("alike", Blocks::Alike), ("different", Blocks::Different)] {
            let stages = stages(n_blocks, n_modes, blocks);
            group.bench_with_input(BenchmarkId::new(kind, &name), &stages, |bencher, stages| {
                bencher.iter(|| choices_of_chain(black_box(stages)));
            });
        }
    }
    group.finish();
}

fn any_order(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("any order");
    group.sample_size(10);
    for (n_blocks, n_modes) in [(8, 2), (8, 3), (12, 2), (12, 3), (24, 2), (48, 3)] {
        let stages = stages(n_blocks, n_modes, Blocks::Different);
        let name = format!("{n_blocks} x {n_modes}");
        group.bench_with_input(
            BenchmarkId::from_parameter(name),
            &stages,
            |bencher, stages| {
                bencher.iter(|| choices_in_any_order(black_box(stages)));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, chains, any_order);
criterion_main!(benches);
