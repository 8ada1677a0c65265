//! The search for the cheapest plan that fits, as a state machine: it says which plan to run next and is told what
//! came of it. It runs nothing and knows no time, so that a driver may run several at once and stop when it likes;
//! the report is right at each moment.
//!
//! Predictions choose where to look and decide nothing. A plan is cheapest when it was run, fits, and no plan that was
//! not run is believed to be cheaper and to fit, by more than the model is known to be wrong.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use oomproof_units::{Bytes, Nanos};

use crate::calibration::{Calibration, Guess};
use crate::estimate::{
    MEMORY_PARTS, Scale, TIME_PARTS, memory_calibration, time_calibration, whole_bytes,
};
use crate::facts::Facts;
use crate::goal::{Aim, Goal, LEAST_SPEEDUP};
use crate::lattice::Lattice;
use crate::lever::Script;
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::measured::Measured;
use crate::report::{self, Report, Tried};

/// A plan is tried for its time only if it fits at least this likely.
const LIKELY_FIRST: f64 = 0.7;
/// While another plan is on trial and none fits, one is tried that almost certainly does.
const LIKELY_BESIDE: f64 = 0.95;
/// With a plan in hand, one that is cheaper may be this unlikely.
const LIKELY_LATER: f64 = 0.05;
/// And so much likelier it has to be for each that was tried in vain.
const LIKELIER: f64 = 0.03;
/// The search ends when no plan is expected to save more than this part of a step.
const LEAST_GAIN: f64 = 0.0015;
/// Nothing fits when no plan is more likely to than this.
const UNLIKELY: f64 = 0.02;
/// Where nothing fits, a plan is tried for how small it gets if it is believed to be smaller by this part of the process.
const LEAST_LESS: f64 = 0.002;
/// Of two plans of the same time, the one with fewer levers: each counts as this part of a step.
const PRICE_OF_LEVER: f64 = 0.0003;
/// A lever that refused so often is not tried again.
const MOST_REFUSALS: usize = 2;

/// Names a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(usize);

/// A plan to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// By which its outcome is told.
    pub id: CandidateId,
    /// Its levers with their parameters.
    pub levers: Vec<LeverUse>,
    /// What it is believed to come to.
    pub predicted: Prediction,
}

/// What a plan is believed to come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The process's peak.
    pub process: Bytes,
    /// By how much that may be off: one standard deviation.
    pub process_width: Bytes,
    /// A step on the device's clock.
    pub step_ns: Nanos,
    /// A step over that of the base run.
    pub relative_time: f64,
    /// How likely it fits, from 0 to 1.
    pub fits: f64,
}

/// What came of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran to its end, whether or not it fits the card.
    Ran(Measured),
    /// It ran out of memory, and what it would have needed is not known.
    RanOut {
        /// What the process needs at least.
        at_least: Bytes,
    },
    /// A lever said that it cannot be applied.
    Refused {
        /// Which lever.
        lever: LeverName,
        /// Why not.
        reason: String,
    },
    /// It ended for another reason.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Untried,
    Running,
    Done,
    Banned,
}

#[derive(Clone, Copy, Debug)]
enum Chosen {
    NotYet,
    Next(usize),
    Nothing,
}

/// The search for the cheapest plan that fits.
#[derive(Clone, Debug)]
pub struct Search {
    facts: Facts,
    goal: Goal,
    base: Measured,
    scale: Scale,
    lattice: Lattice,
    states: Vec<State>,
    memory: Calibration<MEMORY_PARTS>,
    time: Calibration<TIME_PARTS>,
    tried: Vec<Tried>,
    running: Vec<usize>,
    /// The levers of the plans in which each refused.
    refusals: BTreeMap<LeverName, Vec<BTreeSet<LeverName>>>,
    n_trials: usize,
    /// Plans that did not fit since the best plan became better.
    n_in_vain: usize,
    /// What to run next, while nothing new is known.
    choice: Cell<Chosen>,
}

impl Iterator for Search {
    type Item = Candidate;

    /// The next plan to run. `None` when there is nothing to run now: the search is over, or waits for what is running,
    /// and may go on after it is told.
    fn next(&mut self) -> Option<Candidate> {
        let at = self.choice()?;
        self.choice.set(Chosen::NotYet);
        self.states[at] = State::Running;
        self.running.push(at);
        self.n_trials += 1;
        Some(Candidate {
            id: CandidateId(at),
            levers: self.lattice.levers(&self.lattice.entries[at]),
            predicted: self.predict(at),
        })
    }
}

impl Search {
    /// A search that starts from the script as it is: `base` is what it came to without any plan.
    pub fn new(facts: Facts, base: Measured, goal: Goal) -> Self {
        let scale = Scale {
            bytes: (base.process_high.get() as f64).max(1.0),
            ns: (base.step_ns.get() as f64).max(1.0),
        };
        let script = Script {
            facts: &facts,
            torch: goal.torch,
        };
        let lattice = Lattice::new(&script, &base, &goal, scale);
        let mut states = vec![State::Untried; lattice.entries.len()];
        let mut search = Self {
            memory: memory_calibration(),
            time: time_calibration(),
            tried: vec![Tried {
                levers: Vec::new(),
                outcome: Outcome::Ran(base),
            }],
            running: Vec::new(),
            refusals: BTreeMap::new(),
            n_trials: 0,
            n_in_vain: 0,
            choice: Cell::new(Chosen::NotYet),
            facts,
            goal,
            base,
            scale,
            lattice,
            states: Vec::new(),
        };
        // The plan without levers is the first of all, and was run.
        if let Some(state) = states.first_mut() {
            *state = State::Done;
            search.learn(0, &base);
        }
        search.states = states;
        search
    }

    /// Takes what came of a candidate; one that is not running changes nothing.
    pub fn tell(&mut self, id: CandidateId, outcome: Outcome) {
        let Some(place) = self.running.iter().position(|at| *at == id.0) else {
            return;
        };
        self.running.remove(place);
        self.states[id.0] = State::Done;
        self.choice.set(Chosen::NotYet);
        let best = self.best();
        let is_in_vain = !matches!(&outcome, Outcome::Ran(measured) if measured.fits);
        match &outcome {
            Outcome::Ran(measured) => self.learn(id.0, measured),
            Outcome::RanOut { at_least } => self.learn_bound(id.0, *at_least),
            Outcome::Refused { lever, .. } => self.ban(id.0, *lever),
            Outcome::Failed(_) => self.blame(id.0),
        }
        self.tried.push(Tried {
            levers: self.lattice.levers(&self.lattice.entries[id.0]),
            outcome,
        });
        if self.best() == best {
            self.n_in_vain += usize::from(is_in_vain);
        } else {
            self.n_in_vain = 0;
        }
    }

    /// Whether no run is left that could change the answer.
    pub fn finished(&self) -> bool {
        self.running.is_empty() && self.choice().is_none()
    }

    /// What is known now.
    pub fn report(&self) -> Report {
        report::report(
            &self.facts,
            &self.goal,
            &self.base,
            &self.tried,
            &self.lattice.useless,
        )
    }

    fn learn(&mut self, at: usize, measured: &Measured) {
        let estimate = self.lattice.entries[at].estimate;
        let memory = measured.process_high.get() as f64 / self.scale.bytes;
        self.memory
            .learn(estimate.memory_parts, memory - estimate.memory);
        let time = measured.step_ns.get() as f64 / self.scale.ns;
        self.time.learn(estimate.time_parts, time - estimate.time);
    }

    /// What ran out needs more than it got; how much more is believed to be what the model says, if it says more.
    fn learn_bound(&mut self, at: usize, at_least: Bytes) {
        let estimate = self.lattice.entries[at].estimate;
        let least = at_least.max(self.goal.memory).get() as f64 / self.scale.bytes * 1.01;
        let believed = self.memory.guess(&estimate.memory_parts, estimate.memory);
        let memory = believed.mean.max(least);
        self.memory
            .learn(estimate.memory_parts, memory - estimate.memory);
    }

    /// What all plans in which a lever refused have in common is believed to be why. It is of these very parameters at
    /// first, and of the lever when it comes again.
    fn ban(&mut self, at: usize, lever: LeverName) {
        let levers = self.lattice.levers(&self.lattice.entries[at]);
        let Some(used) = levers.iter().find(|used| used.name == lever) else {
            return;
        };
        let names = levers.iter().map(|used| used.name).collect();
        let refusals = self.refusals.entry(lever).or_default();
        refusals.push(names);
        let mut banned = used.clone();
        banned.parameters.remove("modules");
        if refusals.len() >= MOST_REFUSALS {
            banned.parameters.retain(|name, _| name == "policy");
        }
        let mut common = refusals[0].clone();
        common.retain(|name| refusals.iter().all(|names| names.contains(name)));
        for (entry, state) in self.lattice.entries.iter().zip(&mut self.states) {
            if *state == State::Untried && self.lattice.uses(entry, &banned) {
                let own = self.lattice.levers(entry);
                if common
                    .iter()
                    .all(|name| own.iter().any(|it| it.name == *name))
                {
                    *state = State::Banned;
                }
            }
        }
    }

    /// What all failures have in common and no success had is believed to be why, all of it together.
    fn blame(&mut self, at: usize) {
        let names = |levers: &[LeverUse]| levers.iter().map(|it| it.name).collect::<Vec<_>>();
        let mut suspects = names(&self.lattice.levers(&self.lattice.entries[at]));
        let mut innocent = Vec::new();
        for tried in &self.tried {
            let own = names(&tried.levers);
            match tried.outcome {
                Outcome::Failed(_) if suspects.iter().any(|it| own.contains(it)) => {
                    suspects.retain(|it| own.contains(it));
                }
                Outcome::Ran(_) | Outcome::RanOut { .. } => innocent.extend(own),
                _ => {}
            }
        }
        if suspects.iter().any(|it| !innocent.contains(it)) {
            suspects.retain(|it| !innocent.contains(it));
        }
        for (entry, state) in self.lattice.entries.iter().zip(&mut self.states) {
            if *state == State::Untried {
                let own = names(&self.lattice.levers(entry));
                if suspects.iter().all(|it| own.contains(it)) {
                    *state = State::Banned;
                }
            }
        }
    }

    fn guess_memory(&self, at: usize) -> Guess {
        let estimate = &self.lattice.entries[at].estimate;
        self.memory.guess(&estimate.memory_parts, estimate.memory)
    }

    fn guess_time(&self, at: usize) -> Guess {
        let entry = &self.lattice.entries[at];
        let mut guess = self
            .time
            .guess(&entry.estimate.time_parts, entry.estimate.time);
        guess.mean += PRICE_OF_LEVER * f64::from(entry.n_levers);
        guess
    }

    fn predict(&self, at: usize) -> Prediction {
        let (memory, time) = (self.guess_memory(at), self.guess_time(at));
        let bytes = |part: f64| whole_bytes(part * self.scale.bytes);
        Prediction {
            process: bytes(memory.mean),
            process_width: bytes(memory.deviation),
            step_ns: Nanos::since_start(whole_bytes(time.mean * self.scale.ns).get()),
            relative_time: time.mean,
            fits: memory.is_at_most(self.limit()),
        }
    }

    /// Where the script as it is fits because its allocator gives memory back, what needs no more than it fits too.
    fn limit(&self) -> f64 {
        let memory = if self.base.fits {
            self.goal.memory.max(self.base.process_high)
        } else {
            self.goal.memory
        };
        memory.get() as f64 / self.scale.bytes
    }

    /// The least time of what was run and fits, as a part of the base run's; the script as it is counts as what a plan
    /// must come to, to be worth naming beside it.
    fn best(&self) -> Option<f64> {
        self.tried
            .iter()
            .filter_map(|tried| match tried.outcome {
                Outcome::Ran(measured) if measured.fits && tried.levers.is_empty() => {
                    Some(1.0 - LEAST_SPEEDUP)
                }
                Outcome::Ran(measured) if measured.fits => Some(
                    measured.step_ns.get() as f64 / self.scale.ns
                        + PRICE_OF_LEVER * tried.levers.len() as f64,
                ),
                _ => None,
            })
            .min_by(f64::total_cmp)
    }

    fn choice(&self) -> Option<usize> {
        match self.choice.get() {
            Chosen::Next(at) => return Some(at),
            Chosen::Nothing => return None,
            Chosen::NotYet => {}
        }
        let choice = self.choose();
        self.choice
            .set(choice.map_or(Chosen::Nothing, Chosen::Next));
        choice
    }

    fn choose(&self) -> Option<usize> {
        let is_answered = self.base.fits && self.goal.aim == Aim::Fit;
        if is_answered || self.n_trials >= self.goal.most_trials {
            return None;
        }
        let untried = (0..self.states.len()).filter(|at| self.states[*at] == State::Untried);
        match self.best() {
            Some(best) => self.choose_cheaper(untried, best),
            None => self.choose_first(untried),
        }
    }

    /// The plan that is expected to save most.
    fn choose_cheaper(&self, untried: impl Iterator<Item = usize>, best: f64) -> Option<usize> {
        // What runs now is taken at its word.
        let limit = self.limit();
        let promised = self
            .running
            .iter()
            .filter(|at| self.guess_memory(**at).is_at_most(limit) > 0.5)
            .map(|at| self.guess_time(*at).mean)
            .fold(best, f64::min);
        // The more was tried in vain, the surer the next has to be.
        let likely_enough = LIKELY_LATER + LIKELIER * self.n_in_vain as f64;
        let gains = untried.filter_map(|at| {
            let time = self.guess_time(at);
            let gain = time.below(promised);
            if gain < LEAST_GAIN {
                return None;
            }
            let likely = self.guess_memory(at).is_at_most(limit);
            let expected = gain * likely;
            (likely >= likely_enough && expected >= LEAST_GAIN).then_some((at, expected))
        });
        gains
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
            .map(|(at, _)| at)
    }

    /// The cheapest plan that probably fits; where none does, the one that is likeliest to.
    fn choose_first(&self, untried: impl Iterator<Item = usize>) -> Option<usize> {
        let limit = self.limit();
        let wanted = if self.running.is_empty() {
            LIKELY_FIRST
        } else {
            LIKELY_BESIDE
        };
        let mut cheapest: Option<(usize, f64)> = None;
        let mut likeliest: Option<(usize, Guess)> = None;
        let mut smallest: Option<(usize, f64)> = None;
        for at in untried {
            let memory = self.guess_memory(at);
            if memory.is_at_most(limit) >= wanted {
                let time = self.guess_time(at).mean;
                if cheapest.is_none_or(|(_, least)| time < least) {
                    cheapest = Some((at, time));
                }
            }
            let is_likelier = likeliest.is_none_or(|(_, other)| {
                let chances = (memory.is_at_most(limit), other.is_at_most(limit));
                match chances.0.total_cmp(&chances.1) {
                    Ordering::Greater => true,
                    Ordering::Equal => memory.mean < other.mean,
                    Ordering::Less => false,
                }
            });
            if is_likelier {
                likeliest = Some((at, memory));
            }
            if smallest.is_none_or(|(_, least)| memory.mean < least) {
                smallest = Some((at, memory.mean));
            }
        }
        if let Some((at, _)) = cheapest {
            return Some(at);
        }
        let (at, memory) = likeliest?;
        if memory.is_at_most(limit) >= UNLIKELY {
            return Some(at);
        }
        // Nothing fits; how small it gets is known when none is believed to be smaller than the smallest that was run.
        let known = self.smallest_known();
        smallest
            .filter(|(_, least)| known.is_none_or(|known| *least < known - LEAST_LESS))
            .map(|(at, _)| at)
    }

    /// The least process of what was run or runs now, as a part of the base run's.
    fn smallest_known(&self) -> Option<f64> {
        let running = self.running.iter().map(|at| self.guess_memory(*at).mean);
        self.tried
            .iter()
            .filter_map(|tried| match tried.outcome {
                Outcome::Ran(measured) => {
                    Some(measured.process_high.get() as f64 / self.scale.bytes)
                }
                _ => None,
            })
            .chain(running)
            .min_by(f64::total_cmp)
    }
}
