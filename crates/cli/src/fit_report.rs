//! What `oomproof fit` found, whose fields are exactly its JSON.

use std::path::PathBuf;

use oomproof_analysis::{Device, Estimate, Strictness, TimeEstimate, Verdict};
use oomproof_planner::{LeverName, LeverUse, Numerics, Potential};
use oomproof_units::{Bytes, Nanos};
use serde::Serialize;

use crate::commands::fit::{figures, verdict_of};
use crate::exit::Exit;
use crate::fitting::Found;
use crate::given_back::GivenBack;
use crate::trial::step_time;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FitReport {
    pub schema: u32,
    /// Whether the script fits as it is, or a plan makes it fit.
    pub fits: bool,
    /// Whether it fits as it is; then a plan is one under which a step takes less time.
    pub fits_as_it_is: bool,
    /// The least that any plan was seen to take of the card; `None` when none was tried.
    pub floor_bytes: Option<Bytes>,
    /// The plan that took so little.
    pub floor: Option<Listed>,
    pub device: Device,
    pub base: Base,
    /// Plans that no other beats in memory and time, the fastest first.
    pub plans: Vec<Listed>,
    /// The one to use, as an index of `plans`.
    pub chosen: Option<usize>,
    /// What levers would bring that have to be allowed: estimates.
    pub not_allowed: Vec<Potential>,
    /// Levers that are of no use here, and why.
    pub useless: Vec<Useless>,
    pub tried: usize,
    pub failed: usize,
    /// Plans that fitted in training and not the whole script.
    pub rejected: Vec<Rejected>,
    /// Whether nothing was left to try that could change the answer.
    pub finished: bool,
    pub plan_file: Option<PathBuf>,
    pub interrupted: bool,
    /// The edit that does the same by hand, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Vec<(LeverName, Option<String>)>>,
}

/// The script as it is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Base {
    /// Peaks on a card with ample memory: up to the steady peak of its training steps, or of the whole script once a
    /// plan has not held for it.
    pub peak_allocated_bytes: Bytes,
    pub peak_reserved_bytes: Bytes,
    pub process_bytes: Estimate,
    /// A training step on the device's clock: an estimate; 0 when it is not known.
    pub step_device_ns: u64,
    /// How wide that estimate is.
    pub step_device_range_ns: Option<TimeEstimate>,
    /// How often its allocator had to give memory back on the card; `None` where it does not fit.
    pub given_back: Option<GivenBack>,
}

/// A plan that was run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listed {
    pub levers: Vec<LeverUse>,
    pub peak_allocated_bytes: Bytes,
    pub peak_reserved_bytes: Bytes,
    pub process_bytes: Estimate,
    /// A training step over that of the script as it is: an estimate.
    pub relative_time: f64,
    pub numerics: Numerics,
    /// Why random numbers are others; `None` where they are not, or training is different in any case.
    pub numerics_reason: Option<String>,
    pub fits: bool,
    /// Whether the whole script was run under it, on the card that was asked for.
    pub verified: bool,
}

/// A lever that is of no use here.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Useless {
    pub lever: LeverName,
    pub reason: String,
}

/// A plan that fitted in training and not the whole script.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rejected {
    pub levers: Vec<LeverUse>,
    pub reason: String,
}

impl Base {
    /// The script as it is: `needed` is its run with ample memory, `plain` that on the card.
    pub(crate) fn of(plain: &Verdict, needed: &Verdict) -> Self {
        let fitting = plain.oom.is_none();
        let (peak_allocated_bytes, peak_reserved_bytes, process_bytes) =
            figures(if fitting { plain } else { needed });
        Self {
            peak_allocated_bytes,
            peak_reserved_bytes,
            process_bytes,
            step_device_ns: step_time(needed).get(),
            step_device_range_ns: needed.step_device_ns,
            given_back: None,
        }
    }
}

impl FitReport {
    /// Nothing found yet; `plain` is the run of the script as it is, `needed` that with ample memory.
    pub(crate) fn new(plain: &Verdict, needed: &Verdict) -> Self {
        Self {
            schema: 1,
            fits: false,
            fits_as_it_is: false,
            floor_bytes: None,
            floor: None,
            device: plain.device.clone(),
            base: Base::of(plain, needed),
            plans: Vec::new(),
            chosen: None,
            not_allowed: Vec::new(),
            useless: Vec::new(),
            tried: 0,
            failed: 0,
            rejected: Vec::new(),
            finished: false,
            plan_file: None,
            interrupted: false,
            code: None,
        }
    }

    /// The script fits as it is.
    pub(crate) fn fits_already(plain: &Verdict, given_back: GivenBack) -> Self {
        let mut report = Self {
            fits: true,
            fits_as_it_is: true,
            finished: true,
            ..Self::new(plain, plain)
        };
        report.base.given_back = Some(given_back);
        report
    }

    /// Plans are compared with the whole script from now on; `needed` is its run with ample memory.
    pub(crate) fn needs_whole(&mut self, needed: &Verdict) {
        if !self.fits_as_it_is {
            self.base = Base::of(needed, needed);
        }
    }

    /// Takes over what a search has found.
    pub(crate) fn take(&mut self, found: &Found, base: Nanos, strictness: Strictness) {
        let report = &found.report;
        let listed = |plan: &oomproof_planner::VerifiedPlan| {
            let (peak_allocated_bytes, peak_reserved_bytes, process_bytes) =
                match verdict_of(found, &plan.levers) {
                    Some(verdict) => figures(verdict),
                    None => (
                        self.base.peak_allocated_bytes,
                        self.base.peak_reserved_bytes,
                        self.base.process_bytes,
                    ),
                };
            Listed {
                levers: plan.levers.clone(),
                peak_allocated_bytes,
                peak_reserved_bytes,
                process_bytes,
                relative_time: if base.get() == 0 {
                    1.0
                } else {
                    plan.relative_time
                },
                numerics: plan.numerics,
                numerics_reason: plan.numerics_reason.clone(),
                fits: plan.measured.fits,
                verified: false,
            }
        };
        let plans: Vec<Listed> = report.pareto.iter().map(listed).collect();
        self.floor = report.floor.as_ref().map(listed);
        self.floor_bytes = self.floor.as_ref().map(|floor| match strictness {
            Strictness::Strict => floor.process_bytes.high,
            Strictness::Lenient => floor.process_bytes.likely,
        });
        self.plans = plans;
        // The script as it is needs no plan.
        let is_plan = |chosen: &usize| !report.pareto[*chosen].levers.is_empty();
        self.chosen = report.chosen.filter(is_plan);
        self.not_allowed.clone_from(&report.not_allowed);
        self.useless = report
            .useless
            .iter()
            .chain(&report.refused)
            .map(|(lever, reason)| Useless {
                lever: *lever,
                reason: reason.clone(),
            })
            .collect();
        self.tried += report.tried;
        self.failed += report.failed;
        self.finished = found.is_whole;
        self.fits = self.fits_as_it_is || self.chosen.is_some();
    }

    /// The plan to use.
    pub(crate) fn chosen(&self) -> Option<&Listed> {
        self.plans.get(self.chosen?)
    }

    /// The whole script fits under the chosen plan.
    pub(crate) fn verified(&mut self, verdict: &Verdict) {
        let chosen = self.chosen.and_then(|chosen| self.plans.get_mut(chosen));
        if let Some(chosen) = chosen {
            (
                chosen.peak_allocated_bytes,
                chosen.peak_reserved_bytes,
                chosen.process_bytes,
            ) = figures(verdict);
            chosen.verified = true;
        }
    }

    /// The whole script does not fit under the chosen plan.
    pub(crate) fn reject(&mut self, reason: String) {
        if let Some(chosen) = self.chosen.take() {
            let plan = &mut self.plans[chosen];
            plan.fits = false;
            self.rejected.push(Rejected {
                levers: plan.levers.clone(),
                reason,
            });
        }
        self.fits = self.fits_as_it_is;
    }

    /// Chooses the next plan that fitted in training; whether there is one.
    pub(crate) fn turn_to_next(&mut self) -> bool {
        self.chosen = self
            .plans
            .iter()
            .position(|plan| plan.fits && !plan.levers.is_empty());
        self.fits |= self.chosen.is_some();
        self.chosen.is_some()
    }

    /// How the verb ends.
    pub(crate) fn exit(&self) -> Exit {
        if self.interrupted {
            Exit::Interrupted
        } else if self.fits {
            Exit::Done
        } else if self.finished {
            Exit::DoesNotFit
        } else {
            Exit::Unknown
        }
    }
}
