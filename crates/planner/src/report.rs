//! What a search has found: what was run, which of it fits at the least cost, how small it gets, and what levers that
//! are not allowed would bring.

use std::cmp::Reverse;

use oomproof_units::Bytes;
use serde::Serialize;

use crate::estimate::whole_bytes;
use crate::facts::Facts;
use crate::goal::{Goal, LEAST_SPEEDUP};
use crate::lattice::is_allowed;
use crate::lever::{Offered, Script};
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::levers::{self, LEVERS};
use crate::measured::Measured;
use crate::numerics::Numerics;
use crate::search::Outcome;
use crate::workload::{Depth, Workload};

/// Times that differ by less are the same; then fewer levers decide.
const SAME_TIME: f64 = 0.001;

/// What is known so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The plans that were run and that no other beats in memory and time, the fastest first. The script as it is, is
    /// among them when none beats it.
    pub pareto: Vec<VerifiedPlan>,
    /// Which of them to use: the fastest that fits. Where the script as it is fits, it is that one unless a plan is
    /// faster by what makes it worth naming.
    pub chosen: Option<usize>,
    /// The plan with the least memory of all that were run.
    pub floor: Option<VerifiedPlan>,
    /// Levers that were not used because they have to be allowed, with what they would bring by the model.
    pub not_allowed: Vec<Potential>,
    /// Levers that are of no use here, and why.
    pub useless: Vec<(LeverName, String)>,
    /// Levers that refused to be applied, and why.
    pub refused: Vec<(LeverName, String)>,
    /// Plans that were run, without the base run.
    pub tried: usize,
    /// Those of them that did not fit or did not run.
    pub failed: usize,
}

/// A plan that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedPlan {
    /// Its levers; none for the script as it is.
    pub levers: Vec<LeverUse>,
    /// What it came to.
    pub measured: Measured,
    /// Its step over that of the base run.
    pub relative_time: f64,
    /// How far results stay the same.
    pub numerics: Numerics,
    /// Why random numbers are others, where they are.
    pub numerics_reason: Option<String>,
}

/// What a lever would bring, by the model alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Potential {
    /// The lever with the parameters that were considered.
    pub lever: LeverUse,
    /// How far results stay the same.
    pub numerics: Numerics,
    /// What it would save of the peak of the script as it is; an estimate.
    pub saves_bytes: Bytes,
    /// A step over that of the base run; an estimate.
    pub relative_time: f64,
}

/// A plan that was run, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tried {
    pub levers: Vec<LeverUse>,
    pub outcome: Outcome,
}

pub(crate) fn report(
    facts: &Facts,
    goal: &Goal,
    base: &Measured,
    tried: &[Tried],
    useless: &[(LeverName, String)],
) -> Report {
    let mut verified: Vec<VerifiedPlan> = tried
        .iter()
        .filter_map(|tried| match &tried.outcome {
            Outcome::Ran(measured) => Some(VerifiedPlan {
                levers: tried.levers.clone(),
                measured: *measured,
                relative_time: measured.step_ns.get() as f64 / (base.step_ns.get() as f64).max(1.0),
                numerics: levers::numerics(&tried.levers, facts),
                numerics_reason: levers::numerics_reason(&tried.levers, facts),
            }),
            _ => None,
        })
        .collect();
    let order = |a: &VerifiedPlan| (a.measured.step_ns, a.measured.process_high, a.levers.len());
    verified.sort_by_key(order);
    let floor = verified
        .iter()
        .min_by_key(|plan| plan.measured.process_high)
        .cloned();
    let fastest = verified
        .iter()
        .find(|plan| plan.measured.fits)
        .map(|plan| plan.relative_time);
    let is_worth_naming = fastest.is_some_and(|fastest| fastest <= 1.0 - LEAST_SPEEDUP);
    let plain = verified.iter().find(|plan| plan.levers.is_empty());
    let plain = plain.filter(|plain| plain.measured.fits && !is_worth_naming);
    let fastest_fitting = fastest.and_then(|fastest| {
        verified
            .iter()
            .filter(|plan| plan.measured.fits && plan.relative_time <= fastest + SAME_TIME)
            .min_by_key(|plan| (plan.levers.len(), plan.measured.step_ns))
            .cloned()
    });
    let best = plain.cloned().or(fastest_fitting);
    let mut pareto: Vec<VerifiedPlan> = Vec::new();
    for plan in verified {
        let is_best = best.as_ref() == Some(&plan);
        let least = pareto.iter().map(|it| it.measured.process_high).min();
        if is_best || least.is_none_or(|least| plan.measured.process_high < least) {
            pareto.push(plan);
        }
    }
    let chosen = best.and_then(|best| pareto.iter().position(|plan| *plan == best));
    let failed = tried
        .iter()
        .filter(|tried| !matches!(tried.outcome, Outcome::Ran(measured) if measured.fits))
        .count();
    let mut refused: Vec<(LeverName, String)> = Vec::new();
    for each in tried {
        if let Outcome::Refused { lever, reason } = &each.outcome {
            let said = (*lever, reason.clone());
            if !refused.contains(&said) {
                refused.push(said);
            }
        }
    }
    Report {
        pareto,
        chosen,
        floor,
        not_allowed: not_allowed(facts, goal, base),
        useless: useless.to_vec(),
        refused,
        tried: tried.len() - 1,
        // The base run is no trial.
        failed: failed - usize::from(!base.fits),
    }
}

/// What each lever that would have to be allowed would bring, the greatest saving first.
fn not_allowed(facts: &Facts, goal: &Goal, base: &Measured) -> Vec<Potential> {
    let script = Script {
        facts,
        torch: goal.torch,
    };
    let plain = Workload::new(&script, base, Depth::Stages);
    let peak = plain.plain_peak();
    let mut found: Vec<Potential> = LEVERS
        .iter()
        .filter(|lever| {
            !is_allowed(lever, facts, goal)
                && lever.offered != Offered::AsAdvice
                && !goal.forbid.contains(&lever.name)
                && (lever.check)(&script).is_ok()
        })
        .filter_map(|lever| {
            let parameters = (lever.options)(&script).into_iter().next()?;
            let lever_use = LeverUse {
                name: lever.name,
                parameters,
            };
            let mut workload = plain.clone();
            (lever.shape)(&lever_use, &mut workload);
            let saves = (peak - workload.plain_peak()).max(0.0);
            let ns = workload.step_ns + workload.added_ns.iter().sum::<f64>();
            Some(Potential {
                lever: lever_use,
                numerics: levers::numerics_of(lever.name, facts),
                saves_bytes: whole_bytes(saves),
                relative_time: (ns / plain.step_ns.max(1.0)).max(0.0),
            })
        })
        .collect();
    found.sort_by_key(|potential| Reverse(potential.saves_bytes));
    found
}
