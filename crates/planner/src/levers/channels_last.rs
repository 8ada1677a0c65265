//! `channels-last`: convolutions that need no other layout need no work space to change it.

use crate::lever::{Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::Parameters;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::ChannelsLast,
    numerics: Numerics::Rounding,
    redraws: Redraws::InForward,
    parameters: &[],
    conflicts: &[],
    offered: Offered::WhenAllowed,
    check: |_| Ok(()),
    options: |_| vec![Parameters::new()],
    shape: |_, _| {},
    describe: |_| "images with their channels last".to_owned(),
    code: |_, _| {
        Some("model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)\n".to_owned())
    },
};
