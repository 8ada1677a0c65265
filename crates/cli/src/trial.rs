//! One run of the script under a plan, and what it tells the search.
//!
//! A plan is run where nothing runs out first: a run that fails on the wanted card tells only that, and the search
//! learns from how much is missing. What fits by these figures would run the same on the wanted card; where its
//! allocator would have to give unused memory back first, the wanted card decides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oomproof_analysis::{Answer, Strictness, Verdict};
use oomproof_planner::{LeverUse, Measured, Outcome as Told, Plan};
use oomproof_profile::Profile;
use oomproof_units::{Bytes, Nanos};

use crate::applied_plan::{Applied, AppliedPlan};
use crate::card::Card;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::{Extent, Facts, Launch, Outcome, launch};
use crate::profile_file;
use crate::warm::{Missing, Warm};

/// How the script is run under one plan after another.
pub(crate) struct Trials<'a> {
    launch: &'a Launch,
    warm: Option<Warm>,
    strictness: Strictness,
    folder: tempfile::TempDir,
    next: AtomicU64,
    /// Processes that are started anew are watched one at a time.
    alone: Mutex<()>,
    /// What was seen with ample memory, which cards of one architecture have in common.
    seen: Mutex<BTreeMap<String, Seen>>,
}

/// A run with ample memory.
#[derive(Clone, Debug)]
enum Seen {
    Measured(Box<Verdict>),
    Not(Told),
}

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub card: Card,
    /// The card of the architecture on which plans are run with ample memory, so that their times compare; `None` for
    /// the card itself.
    pub measured_on: Option<Card>,
    pub plan: Option<AppliedPlan>,
    pub extent: Extent,
    pub facts: Facts,
    pub timeout: Duration,
}

/// A run that has ended.
pub(crate) struct Ran {
    pub outcome: Outcome,
    /// Its profile.
    pub profile: Profile,
}

/// What a run of a candidate came to.
#[derive(Debug)]
pub(crate) struct Trial {
    /// What the search is told.
    pub told: Told,
    /// The figures, when there are any.
    pub verdict: Option<Verdict>,
}

impl<'a> Trials<'a> {
    /// Runs of `launch`, as children of `warm` when there is one.
    pub(crate) fn new(
        launch: &'a Launch,
        warm: Option<Warm>,
        strictness: Strictness,
    ) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("oomproof-")
            .tempdir()
            .map_err(|error| Failure::io("make a folder in", &std::env::temp_dir(), &error))?;
        Ok(Self {
            launch,
            warm,
            strictness,
            folder,
            next: AtomicU64::new(0),
            alone: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// How many may run at the same time.
    pub(crate) fn width(&self) -> usize {
        if self.warm.is_some() { 2 } else { 1 }
    }

    /// Runs the script.
    pub(crate) fn run(&self, setup: &Setup) -> Result<Ran, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let profile = self.folder.path().join(format!("{number}.oomprofile"));
        let wanted = self.wanted(setup, profile.clone());
        let forked = match &self.warm {
            Some(warm) => match warm.run(&wanted) {
                Ok(outcome) => Some(outcome),
                Err(Missing::Lost) => None,
                Err(Missing::Failed(failure)) => return Err(failure),
            },
            None => None,
        };
        let outcome = match forked {
            Some(outcome) => outcome,
            None => self.start(&wanted)?,
        };
        let profile = profile_file::read(&profile)?;
        Ok(Ran { outcome, profile })
    }

    /// Runs the script in a process of its own, whatever waits.
    pub(crate) fn run_anew(
        &self,
        setup: &Setup,
        profile: Option<PathBuf>,
    ) -> Result<Outcome, Failure> {
        let inside = self.folder.path().join("anew.oomprofile");
        self.start(&self.wanted(setup, profile.unwrap_or(inside)))
    }

    fn start(&self, wanted: &Launch) -> Result<Outcome, Failure> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        launch(wanted)
    }

    fn wanted(&self, setup: &Setup, profile: PathBuf) -> Launch {
        let Setup {
            card,
            plan,
            extent,
            facts,
            timeout,
            measured_on: _,
        } = setup.clone();
        Launch {
            card,
            plan,
            extent,
            facts,
            timeout,
            profile: Some(profile),
            strictness: self.strictness,
            ..self.launch.clone()
        }
    }

    /// Runs a candidate for `card`. `None` when it was interrupted.
    pub(crate) fn candidate(
        &self,
        levers: &[LeverUse],
        setup: &Setup,
    ) -> Result<Option<Trial>, Failure> {
        let setup = Setup {
            plan: Some(AppliedPlan::of(&Plan::new(levers.to_vec()))),
            ..setup.clone()
        };
        let verdict = match self.ample(&setup)? {
            Some(Seen::Measured(verdict)) => *verdict,
            Some(Seen::Not(told)) => {
                return Ok(Some(Trial {
                    told,
                    verdict: None,
                }));
            }
            None => return Ok(None),
        };
        let measured = self.measured(&verdict, &setup.card);
        let is_decided = measured.fits || !self.may_give_back(&verdict, &setup.card);
        if is_decided || self.strictness == Strictness::Strict {
            let told = Told::Ran(measured);
            return Ok(Some(Trial {
                told,
                verdict: Some(verdict),
            }));
        }
        let tight = self.run(&setup)?.outcome;
        if Exit::of_verdict(tight.code) == Exit::Interrupted {
            return Ok(None);
        }
        let fits = Exit::of_verdict(tight.code) == Exit::Done;
        let step_ns = step_time(&verdict);
        let verdict = if fits { tight.verdict } else { verdict };
        Ok(Some(Trial {
            told: Told::Ran(Measured {
                fits,
                step_ns,
                ..self.measured(&verdict, &setup.card)
            }),
            verdict: Some(verdict),
        }))
    }

    /// The run of a plan with ample memory, of this or another card of the architecture. `None` when it was
    /// interrupted.
    fn ample(&self, setup: &Setup) -> Result<Option<Seen>, Failure> {
        let card = setup.measured_on.as_ref().unwrap_or(&setup.card).ample();
        let plan = setup.plan.as_ref().map(AppliedPlan::to_json);
        let key = serde_json::json!([
            card.device_settings().compute_capability,
            plan,
            setup.extent == Extent::Training,
        ])
        .to_string();
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen().get(&key).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let outcome = self
            .run(&Setup {
                card,
                ..setup.clone()
            })?
            .outcome;
        if Exit::of_verdict(outcome.code) == Exit::Interrupted {
            return Ok(None);
        }
        let found = match unusable(&outcome) {
            Some(told) => Seen::Not(told),
            None => Seen::Measured(Box::new(outcome.verdict)),
        };
        seen().insert(key, found.clone());
        Ok(Some(found))
    }

    /// The figures of a run as the search for a card takes them.
    pub(crate) fn measured(&self, verdict: &Verdict, card: &Card) -> Measured {
        let need = self.need(verdict, card);
        Measured {
            allocated: verdict.peak.allocated_bytes,
            reserved: verdict.peak.reserved_bytes,
            process_high: need,
            step_ns: step_time(verdict),
            fits: need <= room(card),
        }
    }

    /// Whether what does not fit by its figures with ample memory may fit if the allocator gives unused memory back.
    pub(crate) fn may_give_back(&self, verdict: &Verdict, card: &Card) -> bool {
        let need = self.need(verdict, card);
        let least = need.saturating_sub(verdict.peak.reserved_bytes) + verdict.peak.allocated_bytes;
        least <= room(card)
    }

    /// What a card must have room for; the run may have been on another of the architecture, with another context.
    pub(crate) fn need(&self, verdict: &Verdict, card: &Card) -> Bytes {
        let process = &verdict.peak.process_bytes;
        let context = card.context(self.launch.torch.cuda_version);
        let (process, own, there) = match self.strictness {
            Strictness::Strict => (process.high, verdict.context_bytes.high, context.high),
            Strictness::Lenient => (process.likely, verdict.context_bytes.likely, context.likely),
        };
        process.saturating_sub(own) + Bytes::new(there)
    }
}

/// What a process may take of a card.
pub(crate) fn room(card: &Card) -> Bytes {
    card.total().saturating_sub(card.others)
}

/// A training step on the device's clock; zero when none ended.
pub(crate) fn step_time(verdict: &Verdict) -> Nanos {
    verdict
        .step_device_ns
        .map_or(Nanos::since_start(0), |time| time.likely)
}

/// Why the figures of a run are not those of its plan.
fn unusable(outcome: &Outcome) -> Option<Told> {
    match &outcome.applied {
        Some(Applied::Refused(refusal)) => {
            return Some(match refusal.lever {
                Some(lever) => Told::Refused {
                    lever,
                    reason: refusal.reason.clone(),
                },
                None => Told::Failed(refusal.reason.clone()),
            });
        }
        Some(Applied::NotReached) => {
            return Some(Told::Failed("the plan never acted".to_owned()));
        }
        Some(Applied::Whole) | None => {}
    }
    let verdict = &outcome.verdict;
    let is_measured = matches!(verdict.verdict, Answer::Fits | Answer::Tight)
        && Exit::of_verdict(outcome.code) == Exit::Done
        && verdict.steps_measured > 0;
    if is_measured {
        return None;
    }
    let why = verdict
        .reasons
        .first()
        .map_or("no training step ended", |reason| reason.text.as_str());
    Some(Told::Failed(why.to_owned()))
}

/// The note of what plans are made from.
pub(crate) fn facts_of(profile: &Profile) -> Option<String> {
    profile_file::notes_of(profile, "plan_facts")
        .last()
        .map(ToString::to_string)
}
