//! All plans that are worth a thought: every combination of levers, with every choice of blocks that is not worse than
//! another in all respects.
//!
//! Choices of blocks depend on the sizes of the pieces of a batch and on where gradients are, and on no other lever,
//! so that they are found once for each of these and shared by all combinations.

use oomproof_units::{Bytes, Nanos};
use serde_json::{Value, json};

use crate::any_order::{MOST_VARIABLES, choices_in_any_order, judged};
use crate::estimate::{Estimate, Scale, estimate, whole_bytes};
use crate::facts::Facts;
use crate::goal::Goal;
use crate::lever::{Lever, Offered, Script};
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::levers::{LEVERS, conflict, excludes, numerics_of};
use crate::measured::Measured;
use crate::numerics::Numerics;
use crate::recompute::{Choice, Way, choices_of_chain};
use crate::workload::{Depth, Mode, Workload};

/// So many choices of blocks are kept for one combination of the other levers and one set of modes.
const MOST_CHOICES: usize = 48;
/// So many combinations of levers without those of blocks are looked at.
const MOST_COMBINATIONS: usize = 6000;

/// The plans, and the levers that are of no use here.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    pub entries: Vec<Entry>,
    combinations: Vec<Vec<LeverUse>>,
    /// Of the blocks, for each depth at which they were looked for.
    paths: Vec<Vec<String>>,
    pub useless: Vec<(LeverName, String)>,
}

/// One plan.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    combination: u32,
    depth_idx: u8,
    modes: &'static [Mode],
    ways: Box<[u8]>,
    pub n_levers: u8,
    pub estimate: Estimate,
}

/// The sets of modes that blocks choose among, and the levers that they need. A plan names one policy of
/// recomputation, so that the two are not mixed.
const MODE_SETS: [&[Mode]; 4] = [
    &[Mode::Plain, Mode::Full],
    &[Mode::Plain, Mode::KeepProducts],
    &[Mode::Plain, Mode::Offload],
    &[Mode::Plain, Mode::Full, Mode::Offload],
];

/// Whether a lever may be used at all.
pub(crate) fn is_allowed(lever: &Lever, facts: &Facts, goal: &Goal) -> bool {
    if goal.forbid.contains(&lever.name) || lever.offered == Offered::AsAdvice {
        return false;
    }
    let is_free = lever.offered == Offered::Freely
        && numerics_of(lever.name, facts) <= goal.numerics
        && numerics_of(lever.name, facts) < Numerics::Changes;
    is_free || goal.allow.contains(&lever.name)
}

impl Lattice {
    pub(crate) fn new(script: &Script<'_>, base: &Measured, goal: &Goal, scale: Scale) -> Self {
        let mut useless = Vec::new();
        let mut usable = Vec::new();
        for lever in LEVERS {
            match (lever.check)(script) {
                Err(reason) => useless.push((lever.name, reason)),
                Ok(()) if is_allowed(lever, script.facts, goal) => usable.push(lever),
                Ok(()) => {}
            }
        }
        let combinations = combinations(&usable, script);
        let can = |name: LeverName| usable.iter().any(|lever| lever.name == name);
        let can_recompute = can(LeverName::ActivationCheckpointing);
        let can_offload = can(LeverName::ActivationOffload);
        let mode_sets: Vec<&'static [Mode]> = MODE_SETS
            .into_iter()
            .filter(|modes| {
                modes.iter().all(|mode| match mode {
                    Mode::Plain => true,
                    Mode::Full => can_recompute,
                    // Chosen operations are kept since then.
                    Mode::KeepProducts => can_recompute && script.has_torch(2, 5),
                    Mode::Offload => can_offload,
                })
            })
            .collect();

        let mut plains: Vec<Workload> = Vec::new();
        for depth in Depth::ALL {
            let plain = Workload::new(script, base, depth);
            // Most models have one kind of block.
            if plains.iter().all(|other| other.blocks != plain.blocks) {
                plains.push(plain);
            }
        }
        let mut lattice = Self {
            entries: Vec::new(),
            combinations,
            paths: Vec::new(),
            useless,
        };
        for (depth_idx, plain) in plains.into_iter().enumerate() {
            lattice.add(&plain, depth_idx, &mode_sets, scale);
            let paths = plain.blocks.into_iter().map(|block| block.path);
            lattice.paths.push(paths.collect());
        }
        lattice
    }

    /// All plans over the blocks of one depth.
    fn add(
        &mut self,
        plain: &Workload,
        depth_idx: usize,
        mode_sets: &[&'static [Mode]],
        scale: Scale,
    ) {
        let mut known: Vec<(Vec<Vec<Way>>, Vec<Choice>)> = Vec::new();
        let mut unordered = Unordered::default();
        for (combination_idx, combination) in self.combinations.iter().enumerate() {
            let mut workload = plain.clone();
            for used in combination {
                (LEVERS[used.name as usize].shape)(used, &mut workload);
            }
            let sets: &[&'static [Mode]] = if mode_sets.is_empty() || workload.blocks.is_empty() {
                &[&[Mode::Plain]]
            } else {
                mode_sets
            };
            for (set_idx, modes) in sets.iter().copied().enumerate() {
                let stages = stages(&workload, modes);
                let found = known.iter().position(|(of, _)| *of == stages);
                let found = found.unwrap_or_else(|| {
                    let found = if workload.is_chain {
                        choices_of_chain(&stages)
                    } else {
                        unordered.choices(&workload, set_idx, &stages)
                    };
                    let found = thinned(found);
                    known.push((stages, found));
                    known.len() - 1
                });
                for choice in &known[found].1 {
                    // The set that came first has the plans that use one of its modes alone.
                    if set_idx > 0 && !needs_set(choice, modes) {
                        continue;
                    }
                    let n_block_levers = block_levers(choice, modes).count();
                    // And the first depth those that touch no block.
                    if depth_idx > 0 && n_block_levers == 0 {
                        continue;
                    }
                    let excluded = block_levers(choice, modes).any(|block_lever| {
                        combination
                            .iter()
                            .any(|used| excludes(used.name, block_lever).is_some())
                    });
                    if excluded {
                        continue;
                    }
                    self.entries.push(Entry {
                        combination: combination_idx as u32,
                        depth_idx: depth_idx as u8,
                        modes,
                        ways: choice.ways.clone().into_boxed_slice(),
                        n_levers: (combination.len() + n_block_levers) as u8,
                        estimate: estimate(&workload, plain, modes, choice, scale),
                    });
                }
            }
        }
    }

    /// The levers of a plan, in the order in which plans list them.
    pub(crate) fn levers(&self, entry: &Entry) -> Vec<LeverUse> {
        let mut levers = self.combinations[entry.combination as usize].clone();
        let of_mode = |mode: Mode| -> Vec<Value> {
            let ways = entry
                .ways
                .iter()
                .zip(&self.paths[usize::from(entry.depth_idx)]);
            ways.filter(|(way, _)| entry.modes[usize::from(**way)] == mode)
                .map(|(_, path)| json!(path))
                .collect()
        };
        for (mode, policy) in [
            (Mode::Full, None),
            (Mode::KeepProducts, Some("keep-matmul")),
        ] {
            let modules = of_mode(mode);
            if !modules.is_empty() {
                let mut used = LeverUse::new(
                    LeverName::ActivationCheckpointing,
                    [("modules", Value::from(modules))],
                );
                if let Some(policy) = policy {
                    used.parameters.insert("policy".to_owned(), json!(policy));
                }
                levers.push(used);
            }
        }
        let modules = of_mode(Mode::Offload);
        if !modules.is_empty() {
            levers.push(LeverUse::new(
                LeverName::ActivationOffload,
                [("modules", Value::from(modules))],
            ));
        }
        levers.sort_by_key(|used| used.name);
        levers
    }

    /// Whether a plan uses this lever with these words among its parameters.
    pub(crate) fn uses(&self, entry: &Entry, banned: &LeverUse) -> bool {
        let policy = |mode: &Mode| match mode {
            Mode::Full => Some((LeverName::ActivationCheckpointing, None)),
            Mode::KeepProducts => Some((LeverName::ActivationCheckpointing, Some("keep-matmul"))),
            Mode::Offload => Some((LeverName::ActivationOffload, None)),
            Mode::Plain => None,
        };
        let by_block = entry.ways.iter().any(|way| {
            policy(&entry.modes[usize::from(*way)])
                .is_some_and(|(name, word)| name == banned.name && word == banned.word("policy"))
        });
        by_block
            || self.combinations[entry.combination as usize]
                .iter()
                .any(|used| used.name == banned.name && words_match(used, banned))
    }
}

/// Whether all words and numbers that are asked for are the lever's.
fn words_match(used: &LeverUse, asked: &LeverUse) -> bool {
    asked
        .parameters
        .iter()
        .all(|(name, value)| used.parameters.get(name) == Some(value))
}

/// All combinations of the levers that are not of blocks; the one without any is first.
fn combinations(usable: &[&Lever], script: &Script<'_>) -> Vec<Vec<LeverUse>> {
    let mut found: Vec<Vec<LeverUse>> = vec![Vec::new()];
    for lever in usable {
        let options = (lever.options)(script);
        let mut longer = Vec::new();
        for parameters in options {
            let used = LeverUse {
                name: lever.name,
                parameters,
            };
            for shorter in &found {
                let mut levers = shorter.clone();
                levers.push(used.clone());
                if conflict(&levers).is_none() {
                    longer.push(levers);
                }
            }
        }
        found.extend(longer);
        found.truncate(MOST_COMBINATIONS);
    }
    found
}

fn block_levers<'a>(
    choice: &'a Choice,
    modes: &'static [Mode],
) -> impl Iterator<Item = LeverName> + 'a {
    let uses = move |wanted: &[Mode]| {
        choice
            .ways
            .iter()
            .any(|way| wanted.contains(&modes[usize::from(*way)]))
    };
    let recomputes = uses(&[Mode::Full, Mode::KeepProducts]);
    let offloads = uses(&[Mode::Offload]);
    recomputes
        .then_some(LeverName::ActivationCheckpointing)
        .into_iter()
        .chain(offloads.then_some(LeverName::ActivationOffload))
}

/// Whether a choice uses every mode of its set, so that no smaller set has it.
fn needs_set(choice: &Choice, modes: &[Mode]) -> bool {
    (1..modes.len()).all(|mode_idx| choice.ways.iter().any(|way| usize::from(*way) == mode_idx))
}

/// Choices of blocks of which no order is known. A program for each size of the pieces of a batch would take seconds,
/// and their sizes change all blocks alike, so that it is solved once for each place of the gradients.
#[derive(Default)]
struct Unordered {
    solved: Vec<(UnorderedKey, Vec<Vec<u8>>)>,
}

type UnorderedKey = (usize, bool, bool, bool, bool);

impl Unordered {
    fn choices(&mut self, workload: &Workload, set_idx: usize, stages: &[Vec<Way>]) -> Vec<Choice> {
        let key = (
            set_idx,
            workload.gradients_stay,
            workload.gradients_go_at_once,
            workload.adds_attention,
            workload.adds_cast,
        );
        let at = self.solved.iter().position(|(of, _)| *of == key);
        let at = at.unwrap_or_else(|| {
            let n_variables: usize = stages.iter().map(Vec::len).sum();
            // Of more, the choices are those of a chain, judged in any order.
            let found = if n_variables <= MOST_VARIABLES {
                choices_in_any_order(stages)
            } else {
                choices_of_chain(stages)
            };
            let ways = found.into_iter().map(|choice| choice.ways).collect();
            self.solved.push((key, ways));
            self.solved.len() - 1
        });
        let known = self.solved[at].1.iter();
        known.map(|ways| judged(stages, ways.clone())).collect()
    }
}

/// What each block does in each mode. Whole bytes and nanoseconds add up to the same sum in any order, which lets
/// alike choices merge.
pub(crate) fn stages(workload: &Workload, modes: &[Mode]) -> Vec<Vec<Way>> {
    let before = workload.gradients_before();
    let after = workload.gradients_after_blocks();
    let blocks = workload.blocks.iter().zip(after);
    blocks
        .map(|(block, after)| {
            let way = |mode: &Mode| Way {
                kept: whole_bytes(block.kept(*mode)),
                alone: whole_bytes(
                    (block.in_forward(*mode) + before).max(block.in_backward(*mode) + after),
                ),
                time: Nanos::since_start(whole_bytes(block.extra_ns(*mode)).get()),
            };
            modes.iter().map(way).collect()
        })
        .collect()
}

/// At most so many choices, evenly; the cheapest and the smallest stay.
fn thinned(choices: Vec<Choice>) -> Vec<Choice> {
    let count = choices.len();
    if count <= MOST_CHOICES {
        return choices;
    }
    let mut choices: Vec<Option<Choice>> = choices.into_iter().map(Some).collect();
    let least = |figure: fn(&Choice) -> Bytes| {
        let each = choices.iter().enumerate();
        each.min_by_key(|(_, it)| it.as_ref().map(figure))
            .map_or(0, |(at, _)| at)
    };
    let mut wanted: Vec<usize> = (0..MOST_CHOICES)
        .map(|at| at * (count - 1) / (MOST_CHOICES - 1))
        .collect();
    wanted.extend([least(|it| it.peak), least(|it| it.kept)]);
    wanted.sort_unstable();
    wanted.dedup();
    wanted
        .into_iter()
        .filter_map(|at| choices[at].take())
        .collect()
}
