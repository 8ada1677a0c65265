//! `larger-card`: what fits nowhere here fits elsewhere.

use crate::lever::{Lever, Offered};
use crate::lever_name::LeverName;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::LargerCard,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::AsAdvice,
    check: |_| Ok(()),
    options: |_| Vec::new(),
    shape: |_, _| {},
    describe: |_| "a larger card".to_owned(),
    code: |_, _| None,
};
