//! `prune`: what a smaller model would need. Another model, so it is never more than a question.

use crate::lever::{Holds, Lever, Offered, Parameter};
use crate::lever_name::LeverName;
use crate::levers::activation_checkpointing::counted;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Prune,
    numerics: Numerics::Changes,
    redraws: Redraws::Nothing,
    parameters: &[
        Parameter::required("modules", Holds::Modules),
        Parameter::required("fraction", Holds::Fraction),
    ],
    conflicts: &[],
    offered: Offered::AsAdvice,
    check: |_| Ok(()),
    options: |_| Vec::new(),
    shape: |_, _| {},
    describe: |used| {
        format!(
            "{} without part of their channels",
            counted(used.words("modules").len())
        )
    },
    code: |_, _| {
        Some(
            "import torch_pruning  # removes whole channels, and what depends on them\n".to_owned(),
        )
    },
};
