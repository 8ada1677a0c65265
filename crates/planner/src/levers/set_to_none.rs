//! `set-to-none`: gradients that are filled with zeros instead of freed are there during the next forward pass.

use crate::lever::{Framework, Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::Parameters;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::SetToNone,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| match script.facts.set_to_none {
        Some(false) => Ok(()),
        Some(true) => Err("gradients are freed between steps already".to_owned()),
        None => Err("whether gradients are freed between steps was not seen".to_owned()),
    },
    options: |_| vec![Parameters::new()],
    shape: |_, workload| workload.gradients_stay = workload.pieces > 1,
    describe: |_| "gradients freed between steps".to_owned(),
    code: |_, writing| match writing.framework {
        Framework::Plain | Framework::Accelerate => {
            Some("optimizer.zero_grad(set_to_none=True)\n".to_owned())
        }
        Framework::Trainer | Framework::Lightning => None,
    },
};
