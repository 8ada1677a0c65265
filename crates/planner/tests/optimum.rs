//! The search against every plan there is, on workloads whose truth is another than the model's: parts that cost more
//! or less than the model believes, and memory that is rounded up to segments.

#![expect(clippy::cast_sign_loss, reason = "figures of the truth are positive")]
#![expect(clippy::print_stderr, reason = "the long survey tells what it found")]

use oomproof_planner::{
    Aim, Facts, Goal, LeverName, LeverUse, Measured, Outcome, Report, Search, TorchVersion,
};
use oomproof_units::{Bytes, Nanos};
use serde_json::json;

const MIB: f64 = 1_048_576.0;

/// A small generator of its own, so that cases stay the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.roll()
    }

    fn pick(&mut self, from: &[u64]) -> u64 {
        from[(self.roll() * from.len() as f64) as usize]
    }
}

/// A workload and what is true of it.
struct World {
    batch: u64,
    n_blocks: u64,
    saved: f64,
    input: f64,
    forward_ns: f64,
    block_parameters: f64,
    head_parameters: f64,
    scores: f64,
    other: f64,
    optimizer_ns: f64,
    head_ns: f64,
    // What the model can only guess.
    fixed_part: f64,
    recomputed: f64,
    kept_by_products: f64,
    rest_of_products: f64,
    fused: f64,
    looped: f64,
    loss_again: f64,
    remainder: f64,
    segment: f64,
    /// Whether the facts tell how long blocks take.
    tells_times: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Plain,
    Full,
    Products,
    Offloaded,
}

/// A plan, in the words of the truth.
#[derive(Clone, Debug, Default)]
struct Means {
    chunks: u64,
    /// How each block goes: as it is where the list ends.
    blocks: Vec<How>,
    optimizer: u8,
    loss_chunks: u64,
    grows: u8,
}

impl Means {
    fn how(&self, block: u64) -> How {
        let how = self.blocks.get(block as usize);
        how.copied().unwrap_or(How::Plain)
    }
}

impl World {
    fn random(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            dice.roll();
        }
        let saved = dice.between(20.0, 300.0) * MIB;
        Self {
            batch: dice.pick(&[4, 8, 12, 16, 32]),
            n_blocks: dice.pick(&[4, 6, 12, 24]),
            saved,
            input: saved * dice.between(0.03, 0.1),
            forward_ns: dice.between(0.3, 3.0) * 1e6,
            block_parameters: dice.between(5.0, 60.0) * MIB,
            head_parameters: dice.between(10.0, 400.0) * MIB,
            scores: if dice.roll() < 0.6 {
                dice.between(100.0, 2000.0) * MIB
            } else {
                0.0
            },
            other: dice.between(5.0, 100.0) * MIB,
            optimizer_ns: dice.between(0.5, 4.0) * 1e6,
            head_ns: dice.between(0.2, 4.0) * 1e6,
            fixed_part: dice.between(0.01, 0.35),
            recomputed: dice.between(0.8, 1.1),
            kept_by_products: dice.between(0.5, 0.8),
            rest_of_products: dice.between(0.15, 0.5),
            fused: dice.between(0.3, 0.9),
            looped: dice.between(1.5, 8.0),
            loss_again: dice.between(0.2, 1.2),
            remainder: dice.between(0.01, 0.12),
            segment: 2.0 * MIB * dice.pick(&[1, 10]) as f64,
            tells_times: !seed.is_multiple_of(3),
        }
    }

    fn parameters(&self) -> f64 {
        self.head_parameters + self.block_parameters * self.n_blocks as f64
    }

    /// Allocated bytes at the worst moment, moment by moment.
    fn allocated(&self, means: &Means) -> f64 {
        let share = self.batch.div_ceil(means.chunks.max(1)) as f64 / self.batch as f64;
        let parameters = self.parameters();
        let resident = 3.0 * parameters;
        let stays = if means.chunks > 1 { parameters } else { 0.0 };
        let how = |block: u64| means.how(block);
        let kept_by = |block: u64| {
            share
                * match how(block) {
                    How::Full => self.input,
                    How::Products => self.saved * self.kept_by_products,
                    How::Offloaded => self.saved * 0.03,
                    How::Plain => self.saved,
                }
        };
        let kept: f64 = (0..self.n_blocks).map(kept_by).sum();
        let scores = share * self.scores;
        let whole = 3.0 * scores;
        let loss = if means.loss_chunks > 1 {
            whole / means.loss_chunks as f64
        } else {
            whole
        };
        let other = share * self.other;
        let mut worst = resident + stays + kept + other + loss;
        let mut before = 0.0;
        for block in 0..self.n_blocks {
            let is_recomputed = matches!(how(block), How::Full | How::Products);
            let inside = share * self.saved * 1.2
                + share * self.input
                + if is_recomputed {
                    share * self.input
                } else {
                    0.0
                };
            let gradients = if means.chunks > 1 {
                parameters
            } else {
                self.head_parameters + (self.n_blocks - block) as f64 * self.block_parameters
            };
            worst = worst.max(resident + gradients + other + before + inside);
            before += kept_by(block);
        }
        let temporaries = match means.optimizer {
            0 => parameters,
            1 => 0.0,
            _ => 3.0 * self.head_parameters.max(self.block_parameters / 4.0),
        };
        worst.max(resident + parameters + temporaries)
    }

    fn step_ns(&self, means: &Means) -> f64 {
        let chunks = means.chunks.max(1) as f64;
        let forward = self.forward_ns * self.n_blocks as f64 + self.head_ns;
        let mut ns = 3.0 * forward * (1.0 + self.fixed_part * (chunks - 1.0));
        let again = 1.0 + self.fixed_part * (chunks - 1.0);
        for block in 0..self.n_blocks {
            ns += match means.how(block) {
                How::Plain => 0.0,
                How::Full => self.forward_ns * self.recomputed * again,
                How::Products => self.forward_ns * self.rest_of_products * again,
                How::Offloaded => self.saved / 25.0 * 0.7,
            };
        }
        if means.loss_chunks > 1 {
            ns += self.head_ns * self.loss_again * (1.0 + 0.002 * means.loss_chunks as f64);
        }
        ns + self.optimizer_ns
            * match means.optimizer {
                0 => 1.0,
                1 => self.fused,
                _ => self.looped,
            }
    }

    fn measured(&self, means: &Means, memory: Bytes) -> Measured {
        let allocated = self.allocated(means);
        let remainder = if means.grows == 1 {
            0.004
        } else {
            self.remainder
        };
        let reserved = (allocated * (1.0 + remainder) / self.segment).ceil() * self.segment;
        let bytes = |figure: f64| Bytes::new(figure as u64);
        let process_high = bytes(reserved + 500.0 * MIB);
        Measured {
            allocated: bytes(allocated),
            reserved: bytes(reserved),
            process_high,
            step_ns: Nanos::since_start(self.step_ns(means) as u64),
            fits: process_high <= memory,
        }
    }

    fn facts(&self) -> Facts {
        let base = Means::default();
        let parameters = self.parameters();
        let whole = |figure: f64| figure as u64;
        let blocks: Vec<_> = (0..self.n_blocks)
            .map(|block| {
                json!({
                    "path": format!("blocks.{block}"), "class": "Block", "group": "blocks",
                    "saved_bytes": whole(self.saved), "input_bytes": whole(self.input),
                    "output_bytes": whole(self.input), "inner_peak_bytes": whole(self.saved * 1.1),
                    "forward_ns": self.tells_times.then_some(whole(self.forward_ns)), "parameters_bytes": whole(self.block_parameters),
                })
            })
            .collect();
        let resident = 3.0 * parameters;
        let kept = self.saved * self.n_blocks as f64 + self.other + 2.0 * self.scores;
        let loss = (self.scores > 0.0).then(|| {
            let classes = 50_257;
            json!({
                "kind": "cross_entropy", "rows": whole(self.scores / 4.0 / 50_257.0).max(1),
                "classes": classes, "dtype": "float32", "label_smoothing": 0.0, "linear": "head",
                "bytes_at_peak": whole(3.0 * self.scores),
            })
        });
        let note = json!({
            "parameter_bytes": whole(parameters), "gradient_bytes": whole(parameters),
            "largest_parameter_bytes": whole(self.head_parameters.max(self.block_parameters / 4.0)),
            "buffers_bytes": 0, "blocks": blocks, "chain": true, "batch": self.batch,
            "batch_source": "loader", "micro_batches": 1,
            "optimizer": [{"class": "torch.optim.adamw.AdamW", "implementation": "foreach",
                "state_bytes": whole(2.0 * parameters), "parameter_bytes": whole(parameters),
                "largest_parameter_bytes": whole(self.head_parameters.max(self.block_parameters / 4.0))}],
            "loss": loss, "set_to_none": true, "step_ns": self.tells_times.then_some(whole(self.step_ns(&base))),
            "points": {"backward_start": whole(resident + kept),
                "loss_peak": whole(resident + kept + self.scores),
                "optimizer_peak": whole(resident + 2.0 * parameters),
                "step_peak": whole(self.allocated(&base))},
        });
        Facts::from_json(&note.to_string()).expect("facts")
    }

    /// Each piece size once, each number of blocks from the front, one policy at a time.
    fn all(&self) -> Vec<Means> {
        let mut found = Vec::new();
        let mut largest = u64::MAX;
        for chunks in 1..=self.batch {
            if self.batch.div_ceil(chunks) == largest {
                continue;
            }
            largest = self.batch.div_ceil(chunks);
            for optimizer in 0..3 {
                for loss_chunks in [1, 4, 16, 64] {
                    if loss_chunks > 1 && self.scores == 0.0 {
                        continue;
                    }
                    for grows in 0..2 {
                        let plain = Means {
                            chunks,
                            optimizer,
                            loss_chunks,
                            grows,
                            ..Means::default()
                        };
                        found.push(plain.clone());
                        for count in 1..=self.n_blocks as usize {
                            for how in [How::Full, How::Products, How::Offloaded] {
                                found.push(Means {
                                    blocks: vec![how; count],
                                    ..plain.clone()
                                });
                            }
                        }
                    }
                }
            }
        }
        found
    }
}

/// What a plan's levers mean.
fn means(levers: &[LeverUse]) -> Means {
    let mut means = Means::default();
    for used in levers {
        let mut set = |how: How| {
            for path in used.words("modules") {
                let block = path.rsplit('.').next().and_then(|it| it.parse().ok());
                let block: usize = block.expect("a block");
                if means.blocks.len() <= block {
                    means.blocks.resize(block + 1, How::Plain);
                }
                means.blocks[block] = how;
            }
        };
        match used.name {
            LeverName::MicroBatch => means.chunks = used.count("chunks").expect("chunks"),
            LeverName::ActivationCheckpointing if used.word("policy").is_some() => {
                set(How::Products);
            }
            LeverName::ActivationCheckpointing => set(How::Full),
            LeverName::ActivationOffload => set(How::Offloaded),
            LeverName::OptimizerImplementation => {
                means.optimizer = if used.word("implementation") == Some("fused") {
                    1
                } else {
                    2
                };
            }
            LeverName::ChunkedLoss => means.loss_chunks = used.count("chunks").expect("chunks"),
            LeverName::AllocatorSettings => means.grows = 1,
            other => panic!("the truth knows nothing of {other}"),
        }
    }
    means
}

struct Cell {
    /// Time over that of the best plan there is; `None` where none was found.
    found: Option<f64>,
    is_feasible: bool,
    tried: usize,
    failed: usize,
}

/// Searches one workload under a cap that is so far from the floor to the plain peak.
fn cell(world: &World, level: f64, at_once: usize) -> Cell {
    let unlimited = Bytes::new(u64::MAX);
    let all: Vec<Measured> = world
        .all()
        .into_iter()
        .map(|means| world.measured(&means, unlimited))
        .collect();
    let process = |it: &Measured| it.process_high.get();
    let floor = all.iter().map(process).min().expect("plans");
    let plain = process(&world.measured(&Means::default(), unlimited));
    let memory = Bytes::new((floor as f64 + (plain - floor) as f64 * level) as u64);
    let best = all
        .iter()
        .filter(|it| it.process_high <= memory)
        .map(|it| it.step_ns.get())
        .min();

    let report = searched(world, memory, Aim::Fit, at_once);
    let chosen = report.chosen.map(|at| &report.pareto[at]);
    Cell {
        found: chosen.map(|plan| {
            assert!(plan.measured.fits);
            plan.measured.step_ns.get() as f64 / best.unwrap_or(1) as f64
        }),
        is_feasible: best.is_some(),
        tried: report.tried,
        failed: report.failed,
    }
}

/// What a search comes to when it is let go to its end.
fn searched(world: &World, memory: Bytes, aim: Aim, at_once: usize) -> Report {
    let mut goal = Goal::fit_into(memory);
    goal.torch = Some(TorchVersion::new(2, 15));
    goal.aim = aim;
    let base = world.measured(&Means::default(), memory);
    let mut search = Search::new(world.facts(), base, goal);
    let mut running = Vec::new();
    loop {
        while running.len() < at_once {
            let Some(candidate) = search.next() else {
                break;
            };
            running.push(candidate);
        }
        if running.is_empty() {
            break;
        }
        let candidate = running.remove(0);
        let measured = world.measured(&means(&candidate.levers), memory);
        search.tell(candidate.id, Outcome::Ran(measured));
    }
    assert!(search.finished());
    search.report()
}

/// What many cells came to.
#[derive(Debug, Default)]
struct Survey {
    cells: usize,
    found: usize,
    near: usize,
    worst: f64,
    tried: usize,
    failed: usize,
}

fn survey(seeds: std::ops::RangeInclusive<u64>, levels: &[f64], at_once: usize) -> Survey {
    let mut survey = Survey::default();
    for seed in seeds {
        let world = World::random(seed);
        for level in levels {
            let cell = cell(&world, *level, at_once);
            assert!(cell.is_feasible);
            let found = cell.found.unwrap_or(f64::INFINITY);
            survey.cells += 1;
            survey.found += usize::from(cell.found.is_some());
            survey.near += usize::from(found <= 1.02);
            survey.worst = survey.worst.max(found);
            survey.tried += cell.tried;
            survey.failed += cell.failed;
        }
    }
    survey
}

/// Every cell is solved, nearly all as well as by trying everything, with few runs.
fn check(survey: &Survey) {
    assert_eq!(survey.found, survey.cells, "{survey:?}");
    assert!(survey.near * 100 >= survey.cells * 95, "{survey:?}");
    assert!(survey.tried <= survey.cells * 15, "{survey:?}");
}

#[test]
fn finds_what_trying_everything_finds() {
    check(&survey(1..=3, &[0.1, 0.5], 1));
}

#[test]
fn finds_it_with_two_runs_at_once() {
    check(&survey(6..=7, &[0.3], 2));
}

/// Where the script fits as it is, the best plan is named when it is faster by 2 %, and the script itself otherwise.
#[test]
fn finds_what_is_faster_than_a_script_that_fits() {
    let mut seen = [false; 2];
    for (seed, fused) in [(1, 0.3), (3, 0.3), (8, 0.3), (1, 0.999), (3, 0.999)] {
        let world = World {
            fused,
            ..World::random(seed)
        };
        let plain = world.measured(&Means::default(), Bytes::new(u64::MAX));
        let memory = plain.process_high;
        let all = world.all();
        let times = all.iter().map(|means| world.measured(means, memory));
        let times = times.filter(|it| it.fits).map(|it| it.step_ns.get());
        let best = times.min().expect("the script itself") as f64 / plain.step_ns.get() as f64;

        let alone = searched(&world, memory, Aim::Fit, 1);
        assert_eq!((alone.tried, alone.chosen), (0, Some(0)), "{seed}");
        let report = searched(&world, memory, Aim::Faster, 1);
        let chosen = &report.pareto[report.chosen.expect("the script itself fits")];
        let is_faster = !chosen.levers.is_empty();
        assert!(chosen.measured.fits);
        assert_eq!(is_faster, best <= 0.98, "{seed} {best} {chosen:?}");
        assert!(!is_faster || chosen.relative_time <= best + 0.01, "{seed}");
        assert!(report.tried <= 12, "{seed} {}", report.tried);
        seen[usize::from(is_faster)] = true;
    }
    assert_eq!(seen, [true; 2]);
}

/// A script that fits although it reserves more, because its allocator gives memory back: plans that need no more are
/// tried, and believed when they were run.
#[test]
fn finds_what_is_faster_than_a_script_that_gives_memory_back() {
    let world = World {
        fused: 0.3,
        ..World::random(8)
    };
    let fits = Measured {
        fits: true,
        ..world.measured(&Means::default(), Bytes::new(u64::MAX))
    };
    let mut goal = Goal::fit_into(Bytes::new(fits.process_high.get() / 10 * 9));
    goal.torch = Some(TorchVersion::new(2, 15));
    goal.aim = Aim::Faster;
    let mut search = Search::new(world.facts(), fits, goal);
    while let Some(candidate) = search.next() {
        let measured = world.measured(&means(&candidate.levers), fits.process_high);
        search.tell(candidate.id, Outcome::Ran(measured));
    }
    let report = search.report();
    let chosen = &report.pareto[report.chosen.expect("the script itself fits")];
    assert!(
        chosen.relative_time <= 0.98 && !chosen.levers.is_empty(),
        "{chosen:?}"
    );
}

/// Below the floor, the floor is what is found, within what the model is known to be wrong.
#[test]
fn names_the_floor_where_nothing_fits() {
    for seed in 1..=6 {
        let world = World::random(seed);
        let unlimited = Bytes::new(u64::MAX);
        let all = world.all();
        let processes = all
            .iter()
            .map(|means| world.measured(means, unlimited).process_high.get());
        let floor = processes.min().expect("plans");
        let report = searched(&world, Bytes::new(floor / 4 * 3), Aim::Fit, 1);
        assert_eq!(report.chosen, None);
        let found = report.floor.expect("plans").measured.process_high.get();
        // Plans with several policies are not among those that were counted, and may be smaller.
        let over = found as f64 / floor as f64;
        assert!(over <= 1.005, "{seed}: {over} after {}", report.tried);
        assert!(report.tried <= 8, "{seed}: {over} after {}", report.tried);
    }
}

/// `cargo test --release -p oomproof-planner --test optimum -- --ignored --nocapture`
#[test]
#[ignore = "a minute in a release build"]
fn on_many_workloads() {
    for at_once in [1, 2] {
        let survey = survey(
            1..=60,
            &[0.0, 0.02, 0.1, 0.25, 0.4, 0.6, 0.8, 0.97],
            at_once,
        );
        eprintln!("{at_once} at once: {survey:?}");
        check(&survey);
    }
}
