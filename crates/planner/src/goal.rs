//! What is wanted of a plan.

use std::collections::BTreeSet;

use oomproof_units::Bytes;

use crate::lever_name::LeverName;
use crate::numerics::Numerics;
use crate::torch_version::TorchVersion;

/// Where the script as it is fits, a plan is worth naming when it saves so much of a step.
pub(crate) const LEAST_SPEEDUP: f64 = 0.02;

/// Whether a script that fits as it is is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// The cheapest plan that fits, and none where none is needed.
    #[default]
    Fit,
    /// Also where the script fits as it is, a plan under which a step takes at least 2 % less time.
    Faster,
}

/// What is wanted, and what may be done for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// What the process may take: reserved memory, context and libraries together.
    pub memory: Bytes,
    /// Levers that are used although training changes, or that are tried only when they are named.
    pub allow: BTreeSet<LeverName>,
    /// Levers that are not used.
    pub forbid: BTreeSet<LeverName>,
    /// How far results may change without being allowed by name.
    pub numerics: Numerics,
    /// The release of torch; what needs a certain one is left out where it is unknown.
    pub torch: Option<TorchVersion>,
    /// Whether a script that fits as it is is left alone.
    pub aim: Aim,
    /// After so many runs the search is over, whatever may be left.
    pub most_trials: usize,
}

impl Goal {
    /// To fit into so much memory, with results that are the same but for rounding and for which random numbers are drawn.
    pub fn fit_into(memory: Bytes) -> Self {
        Self {
            memory,
            allow: BTreeSet::new(),
            forbid: BTreeSet::new(),
            numerics: Numerics::Redrawn,
            torch: None,
            aim: Aim::Fit,
            most_trials: 60,
        }
    }
}
