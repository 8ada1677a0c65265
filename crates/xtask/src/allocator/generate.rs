//! Random programs, the same ones from the same seed.
//!
//! What is drawn leans to where rules meet: sizes beside the borders of pools and segments, cards that are nearly full,
//! and settings whose thresholds are crossed.

use oomproof_allocator::Release;

use super::program::{Figures, Program, Step};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Kinds of programs, and the minor number of the release from which on each is possible. Before 2.5 nothing but the
/// capture of a graph fills a pool, and that has no kind.
const KINDS: &[(&str, u16)] = &[
    ("plain", 0),
    ("streams", 0),
    ("limit", 0),
    ("max_split", 0),
    ("roundup", 0),
    ("expandable", 1),
    ("changing", 1),
    ("pools", 5),
    ("pool_streams", 5),
    ("pool_expandable", 5),
    ("pool_options", 8),
];

/// Whether a release can run programs of a kind.
pub(crate) fn is_possible(kind: &str, release: Release) -> bool {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    known.is_some_and(|(_, since)| release.minor() >= *since)
}

/// A source of numbers that a seed decides (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A size of a block: mostly usual ones, often one at a border.
    fn size(&mut self) -> u64 {
        match self.below(12) {
            0 => self.between(1, 2000),
            1..=2 => self.between(1, 256 * KIB),
            3 => self.between(256 * KIB, MIB),
            4 => {
                let borders = [
                    512,
                    KIB,
                    MIB,
                    2 * MIB,
                    10 * MIB,
                    12 * MIB,
                    20 * MIB,
                    32 * MIB,
                ];
                let border = *self.pick(&borders);
                border + self.below(1025) - 512
            }
            5..=7 => self.between(MIB, 10 * MIB),
            8..=9 => self.between(10 * MIB, 40 * MIB),
            10 => self.between(40 * MIB, 120 * MIB),
            _ => 512 * self.between(1, 4096),
        }
    }
}

/// What a program holds while it is made up.
struct Making {
    random: Random,
    release: Release,
    kind: &'static str,
    n_streams: usize,
    steps: Vec<Step>,
    held: Vec<u64>,
    next_slot: u64,
    /// Pools that are being filled, and those that some user holds.
    filled: Vec<u64>,
    pools: Vec<u64>,
    next_pool: u64,
}

/// The program of a seed for a release.
pub(crate) fn program(seed: u64, release: Release) -> Program {
    let mut random = Random(seed);
    let possible: Vec<&'static str> = KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| is_possible(kind, release))
        .collect();
    let kind = possible[(seed % possible.len() as u64) as usize];
    let settings = settings(&mut random, kind, release);
    let has_streams = matches!(kind, "streams" | "pool_streams") || random.chance(30);
    let n_streams = if has_streams {
        random.between(2, 6) as usize
    } else {
        1
    };
    let free = match random.below(3) {
        0 => random.between(60, 200) * MIB,
        1 => random.between(200, 600) * MIB,
        _ => random.between(600, 1900) * MIB,
    };
    let mut making = Making {
        random,
        release,
        kind,
        n_streams,
        steps: Vec::new(),
        held: Vec::new(),
        next_slot: 0,
        filled: Vec::new(),
        pools: Vec::new(),
        next_pool: 0,
    };
    if kind == "limit" {
        making.limit();
    }
    let n_steps = making.random.between(30, 160);
    for _ in 0..n_steps {
        making.step();
    }
    making
        .steps
        .extend([Step::Statistics, Step::Keys, Step::Snapshot]);
    Program {
        kind: kind.to_owned(),
        settings,
        streams: n_streams,
        free,
        steps: making.steps,
    }
}

fn settings(random: &mut Random, kind: &str, release: Release) -> String {
    let mut parts = Vec::new();
    let has = |minor: u16| release.minor() >= minor;
    let is_changing = kind == "changing";
    if kind == "limit" && random.chance(70) {
        parts.push(format!(
            "garbage_collection_threshold:0.{}",
            random.between(1, 9)
        ));
    }
    if kind == "max_split" || is_changing && random.chance(30) {
        parts.push(format!("max_split_size_mb:{}", random.between(21, 60)));
    }
    if kind == "max_split" && has(6) && random.chance(40) {
        parts.push(format!(
            "max_non_split_rounding_mb:{}",
            random.between(21, 60)
        ));
    }
    if kind == "roundup" || random.chance(8) {
        let one = *random.pick(&[1, 2, 4, 8, 16]);
        let other = *random.pick(&[1, 2, 4, 8]);
        parts.push(match random.below(3) {
            0 => format!("roundup_power2_divisions:{one}"),
            1 => format!("roundup_power2_divisions:[2:{one},16:{other}]"),
            _ => format!("roundup_power2_divisions:[1:{one},8:{other},>:2]"),
        });
    }
    let expands = matches!(kind, "expandable" | "pool_expandable") || is_changing;
    if expands || kind == "max_split" && has(1) && random.chance(25) {
        parts.push("expandable_segments:True".to_owned());
    }
    if has(15) && expands && random.chance(15) {
        let reserve = *random.pick(&["0.1", "0.5", "1G", "2G"]);
        parts.push(format!("expandable_segments_reserve:{reserve}"));
    }
    if has(11) && random.chance(12) && kind != "max_split" {
        parts.push(format!(
            "large_segment_size_mb:{}",
            random.between(6, 20) * 2
        ));
    }
    if has(12) && kind == "limit" && random.chance(25) {
        parts.push(format!(
            "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.{}",
            random.between(1, 5)
        ));
    }
    parts.join(",")
}

impl Making {
    fn limit(&mut self) {
        let percent = self.random.between(2, 60) as f64;
        let fraction = if self.random.chance(8) {
            1.0
        } else {
            percent / 100.0
        };
        self.steps.push(Step::Fraction(fraction));
    }

    fn stream(&mut self) -> usize {
        self.random.below(self.n_streams as u64) as usize
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=51 => self.allocate(),
            52..=84 => self.free(),
            85..=86 => self.steps.push(Step::Empty),
            87 => self.steps.push(Step::Statistics),
            88 => self.steps.push(Step::Snapshot),
            89 => {
                let figures = *self.random.pick(&[Figures::Peaks, Figures::Sums]);
                self.steps.push(Step::Reset(figures));
            }
            90..=91 if self.n_streams > 1 => {
                let is_finished = self.random.chance(50);
                self.steps.push(Step::Finished(is_finished));
            }
            _ => self.special(),
        }
    }

    fn special(&mut self) {
        match self.kind {
            "limit" => self.limit(),
            // A limit of splitting that comes late lets PyTorch free memory that is in use, so none does.
            "changing" => {
                let text = *self.random.pick(&[
                    "expandable_segments:True",
                    "expandable_segments:False",
                    "roundup_power2_divisions:4",
                    "roundup_power2_divisions:[1:8,32:2],expandable_segments:False",
                    "",
                ]);
                self.steps.push(Step::Settings(text.to_owned()));
            }
            "pools" | "pool_streams" | "pool_expandable" | "pool_options" => self.pool(),
            _ => self.allocate(),
        }
    }

    fn allocate(&mut self) {
        let size = self.random.size();
        let size = if self.random.chance(2) {
            self.random.between(200, 4000) * MIB
        } else {
            size
        };
        let stream = self.stream();
        let slot = self.next_slot;
        self.next_slot += 1;
        self.held.push(slot);
        self.steps.push(Step::Alloc { slot, size, stream });
        if self.n_streams > 1 && self.random.chance(25) {
            for _ in 0..self.random.between(1, 3) {
                let stream = self.stream();
                self.steps.push(Step::Record { slot, stream });
            }
        }
    }

    fn free(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let n_freed = if self.random.chance(6) {
            self.random.between(1, 12)
        } else {
            1
        };
        for _ in 0..n_freed.min(self.held.len() as u64) {
            let at = match self.random.below(3) {
                0 => self.held.len() as u64 - 1,
                _ => self.random.below(self.held.len() as u64),
            };
            let slot = self.held.remove(at as usize);
            self.steps.push(Step::Free { slot });
        }
    }

    fn pool(&mut self) {
        let can_end = !self.filled.is_empty();
        match self.random.below(8) {
            0..=2 if self.filled.len() < 2 => {
                let pool = self.some_pool();
                if self.filled.contains(&pool) {
                    return;
                }
                self.filled.push(pool);
                self.pools.push(pool);
                self.steps.push(Step::Begin { pool });
            }
            3..=5 if can_end => {
                let at = self.random.below(self.filled.len() as u64);
                let pool = self.filled.remove(at as usize);
                self.steps.push(Step::End { pool });
            }
            6 if !self.pools.is_empty() => {
                let at = self.random.below(self.pools.len() as u64);
                let pool = self.pools[at as usize];
                let n_users = self.pools.iter().filter(|other| **other == pool).count();
                if n_users == 1 && self.filled.contains(&pool) {
                    return;
                }
                self.pools.remove(at as usize);
                self.steps.push(Step::Release { pool });
            }
            7 if self.kind == "pool_options" => {
                let pool = self.next_pool;
                self.next_pool += 1;
                self.pools.push(pool);
                let use_on_oom = self.random.chance(60);
                let no_split = self.release.minor() >= 10 && self.random.chance(40);
                self.steps.push(Step::Mempool {
                    pool,
                    use_on_oom,
                    no_split,
                });
            }
            _ => self.allocate(),
        }
    }

    /// One that exists, or a new one. A pool that all users let go of may be gone, so it is not named again.
    fn some_pool(&mut self) -> u64 {
        if !self.pools.is_empty() && self.random.chance(60) {
            return *self.random.pick(&self.pools);
        }
        self.next_pool += 1;
        self.next_pool - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_program() {
        let release = Release::NEWEST;
        for seed in 0..50 {
            let one = program(seed, release);
            assert_eq!(one, program(seed, release));
            let text = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Program>(&text).unwrap(), one);
        }
        assert_ne!(program(0, release), program(11, release));
    }
}
