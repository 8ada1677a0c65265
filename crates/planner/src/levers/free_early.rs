//! `free-early`: a variable that holds a tensor past its last use holds its memory too. What to free is named by the
//! analysis of a run, not by the model of a step.

use crate::lever::{Lever, Offered};
use crate::lever_name::LeverName;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::FreeEarly,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::AsAdvice,
    check: |_| Ok(()),
    options: |_| Vec::new(),
    shape: |_, _| {},
    describe: |_| "tensors freed when they are no longer used".to_owned(),
    code: |_, _| {
        Some("del outputs  # after its last use; keep numbers as `loss.item()`\n".to_owned())
    },
};
