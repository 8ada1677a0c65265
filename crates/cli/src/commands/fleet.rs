//! `fit --gpus all`: the cheapest plan on each card of the catalog.
//!
//! What a script needs depends on the architecture, whose kernels PyTorch picks, and hardly on anything else of a card.
//! So a plan is run once for all cards of an architecture, cards of one architecture and one memory are one, and only
//! what is chosen for a card is run on that very card.

use std::collections::BTreeMap;

use oomproof_gpus::{Gpu, all};
use oomproof_planner::{LeverUse, Measured, Numerics, Search, VerifiedPlan};
use oomproof_units::Bytes;
use serde::Serialize;

use crate::applied_plan::AppliedPlan;
use crate::card::{Card, generic};
use crate::commands::fit::{FitArgs, facts, started};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fit_text;
use crate::fitting::{Ends, find};
use crate::given_back::GivenBack;
use crate::launch::{Extent, Facts as Gathering, Launch};
use crate::plan_file;
use crate::printer;
use crate::torch::has_kernels_for;
use crate::trial::{Ran, Setup, Trials, room};

/// How many plans are run on the card itself before it is given up.
const MOST_CHECKED: usize = 3;

/// What was found for all cards.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fleet {
    pub schema: u32,
    /// From the smallest memory to the largest.
    pub gpus: Vec<OnGpu>,
    /// Architectures on which the script could not be measured, and why.
    pub not_measured: BTreeMap<String, String>,
    pub interrupted: bool,
}

/// One card, and those that are like it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OnGpu {
    pub id: &'static str,
    pub name: String,
    /// Others of the same memory and architecture.
    pub also: Vec<&'static str>,
    pub memory_bytes: Bytes,
    pub answer: Answer,
    /// Where it fits as it is: how often its allocator had to give memory back for that.
    pub given_back: Option<GivenBack>,
    /// The least that any plan took, of what was run.
    pub floor_bytes: Option<Bytes>,
    pub plan: Option<OfPlan>,
}

/// What can be said of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    FitsAsItIs,
    FitsWithPlan,
    DoesNotFit,
    /// Time ended before it was known.
    Unknown,
}

/// The plan for a card.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OfPlan {
    pub levers: Vec<LeverUse>,
    pub peak_allocated_bytes: Bytes,
    pub process_bytes: Bytes,
    pub relative_time: f64,
    pub numerics: Numerics,
    pub numerics_reason: Option<String>,
    /// Whether the whole script was run under it on this card.
    pub verified: bool,
}

/// The card on which the script waits: one that every torch has kernels for.
pub(crate) fn first() -> Result<Card, Failure> {
    generic(Bytes::from_gib(80))
}

/// Finds the plans and prints them.
pub(crate) fn fit(args: &FitArgs, request: &Launch, ends: &Ends) -> Result<Exit, Failure> {
    printer::say(&format!(
        "{} on all GPUs of the catalog, torch {}",
        request.name, request.torch.version
    ));
    let ample = Setup {
        card: request.card.ample(),
        measured_on: None,
        plan: None,
        extent: Extent::Training,
        facts: Gathering::Gathered,
        timeout: args.timeout,
    };
    let (warm, _) = started(args, request, &ample, ends)?;
    let trials = Trials::new(request, warm, args.strictness())?;
    let searching = Searching {
        args,
        request,
        trials: &trials,
        ends,
    };
    let mut fleet = Fleet {
        schema: 1,
        gpus: Vec::new(),
        not_measured: BTreeMap::new(),
        interrupted: false,
    };
    for alike in architectures(request).values() {
        if ends.have_come() {
            fleet.gpus.extend(alike.iter().map(|group| unknown(group)));
            continue;
        }
        let largest = alike[0][0];
        // In whole: what fits as it is, is not run again on each card.
        let needed = trials.run(&Setup {
            card: Card::of_gpu(largest).ample(),
            extent: Extent::Steady,
            ..ample.clone()
        })?;
        if Exit::of_verdict(needed.outcome.code) != Exit::Done {
            let why = needed.outcome.verdict.reasons.first();
            fleet.not_measured.insert(
                largest.architecture.word().to_owned(),
                why.map_or_else(|| "it was not measured".to_owned(), |why| why.text.clone()),
            );
            continue;
        }
        for group in alike {
            fleet.gpus.push(searching.on_gpu(group, largest, &needed)?);
        }
    }
    fleet
        .gpus
        .sort_by_key(|gpu| (gpu.memory_bytes, gpu.name.clone()));
    fleet.interrupted = ends.was_interrupted();
    if args.json {
        printer::json(&fleet)?;
    } else {
        printer::data(&fit_text::render_fleet(&fleet))?;
    }
    let any = |answer| fleet.gpus.iter().any(|gpu| gpu.answer == answer);
    Ok(if fleet.interrupted {
        Exit::Interrupted
    } else if any(Answer::FitsAsItIs) || any(Answer::FitsWithPlan) {
        Exit::Done
    } else if any(Answer::Unknown) || fleet.gpus.is_empty() {
        Exit::Unknown
    } else {
        Exit::DoesNotFit
    })
}

/// The cards that this torch has kernels for: by architecture, then those of one memory together, the largest first.
fn architectures(request: &Launch) -> BTreeMap<(u32, u32), Vec<Vec<&'static Gpu>>> {
    let mut found: BTreeMap<(u32, u32), Vec<Vec<&'static Gpu>>> = BTreeMap::new();
    let mut cards: Vec<&Gpu> = all()
        .iter()
        .filter(|gpu| gpu.slice_of().is_none())
        .collect();
    cards.sort_by(|a, b| b.total.cmp(&a.total).then(a.id.cmp(b.id)));
    for gpu in cards {
        let capability = gpu.device_settings().compute_capability;
        if !has_kernels_for(
            &request.torch.version,
            request.torch.cuda_version,
            capability,
        ) {
            continue;
        }
        let groups = found.entry(capability).or_default();
        match groups.last_mut() {
            Some(last) if last[0].total == gpu.total => last.push(gpu),
            _ => groups.push(vec![gpu]),
        }
    }
    found
}

/// Cards that are alike, of which nothing is known yet.
fn unknown(group: &[&'static Gpu]) -> OnGpu {
    let gpu = group[0];
    OnGpu {
        id: gpu.id,
        name: gpu.name.to_owned(),
        also: group[1..].iter().map(|gpu| gpu.id).collect(),
        memory_bytes: gpu.total,
        answer: Answer::Unknown,
        given_back: None,
        floor_bytes: None,
        plan: None,
    }
}

/// What the search for each card goes by.
struct Searching<'a> {
    args: &'a FitArgs,
    request: &'a Launch,
    trials: &'a Trials<'a>,
    ends: &'a Ends,
}

impl Searching<'_> {
    /// The cheapest plan for cards that are alike.
    fn on_gpu(
        &self,
        group: &[&'static Gpu],
        largest: &'static Gpu,
        needed: &Ran,
    ) -> Result<OnGpu, Failure> {
        let card = Card::of_gpu(group[0]);
        let mut line = unknown(group);
        let setup = Setup {
            card: card.clone(),
            measured_on: Some(Card::of_gpu(largest)),
            plan: None,
            extent: Extent::Training,
            facts: Gathering::Ignored,
            timeout: self.args.timeout,
        };
        line.given_back = self.as_it_is(&setup, needed)?;
        if line.given_back.is_some() {
            line.answer = Answer::FitsAsItIs;
        } else {
            self.with_plan(&mut line, &setup, needed)?;
        }
        printer::say(&format!(
            "{} ({}): {}",
            line.name,
            room(&card),
            fit_text::answer(line.answer)
        ));
        Ok(line)
    }

    /// How often the allocator of the script as it is had to give memory back; `None` where it does not fit.
    fn as_it_is(&self, setup: &Setup, needed: &Ran) -> Result<Option<GivenBack>, Failure> {
        let verdict = &needed.outcome.verdict;
        if self.trials.measured(verdict, &setup.card).fits {
            // Nothing ran out with ample memory, and nothing would here.
            return Ok(Some(GivenBack::of(&needed.profile)));
        }
        if !self.trials.may_give_back(verdict, &setup.card) || self.ends.have_come() {
            return Ok(None);
        }
        let ran = self.trials.run(&Setup {
            extent: Extent::Steady,
            ..setup.clone()
        })?;
        let fits = Exit::of_verdict(ran.outcome.code) == Exit::Done;
        Ok(fits.then(|| GivenBack::of(&ran.profile)))
    }

    /// Looks for the cheapest plan under which the whole script fits, and writes it into `line`.
    fn with_plan(&self, line: &mut OnGpu, setup: &Setup, needed: &Ran) -> Result<(), Failure> {
        let measured = Measured {
            // The run on the card has shown it, whatever the figures with ample memory are.
            fits: false,
            ..self.trials.measured(&needed.outcome.verdict, &setup.card)
        };
        let facts = facts(&needed.profile)?;
        // Evaluation or saving may need more than training; then they are part of every run.
        for extent in [Extent::Training, Extent::Steady] {
            let setup = Setup {
                extent,
                ..setup.clone()
            };
            let goal = self.args.goal(self.request, &setup.card);
            let search = Search::new(facts.clone(), measured, goal);
            let found = find(self.trials, &setup, search, self.ends)?;
            line.floor_bytes = found
                .report
                .floor
                .as_ref()
                .map(|floor| floor.measured.process_high);
            let fitting: Vec<&VerifiedPlan> = found
                .report
                .pareto
                .iter()
                .filter(|plan| plan.measured.fits)
                .collect();
            if fitting.is_empty() {
                if found.is_whole {
                    line.answer = Answer::DoesNotFit;
                }
                return Ok(());
            }
            for plan in fitting.iter().take(MOST_CHECKED) {
                if self.ends.was_interrupted() {
                    return Ok(());
                }
                let of = plan_file::plan(&plan.levers, self.request, &facts);
                let whole = Setup {
                    plan: Some(AppliedPlan::of(&of)),
                    extent: Extent::Steady,
                    ..setup.clone()
                };
                let outcome = self.trials.run(&whole)?.outcome;
                if Exit::of_verdict(outcome.code) == Exit::Done {
                    line.answer = Answer::FitsWithPlan;
                    line.plan = Some(OfPlan {
                        levers: plan.levers.clone(),
                        peak_allocated_bytes: outcome.verdict.peak.allocated_bytes,
                        process_bytes: outcome.verdict.peak.process_bytes.likely,
                        relative_time: plan.relative_time,
                        numerics: plan.numerics,
                        numerics_reason: plan.numerics_reason.clone(),
                        verified: true,
                    });
                    return Ok(());
                }
            }
            if self.ends.have_come() {
                return Ok(());
            }
        }
        Ok(())
    }
}
