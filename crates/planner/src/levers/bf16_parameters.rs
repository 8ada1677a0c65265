//! `bf16-parameters`: weights, gradients and state in two bytes each. Small updates vanish unless they are rounded at
//! random.

use crate::lever::{Framework, Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Bf16Parameters,
    numerics: Numerics::Changes,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[(LeverName::Autocast, "parameters are short already")],
    offered: Offered::WhenAllowed,
    check: |script| match script.facts.autocast.as_deref() {
        Some(_) => Err(
            "autocast keeps its own copies; without it the parameters could be shorter".to_owned(),
        ),
        None => Ok(()),
    },
    options: |_| vec![Parameters::new()],
    shape,
    describe: |_| "parameters, gradients and state in bfloat16".to_owned(),
    code: |_, writing| {
        Some(match writing.framework {
 Framework::Lightning => "trainer = Trainer(..., precision=\"bf16-true\")\n".to_owned(),
 _ => "model = model.to(torch.bfloat16)  # before the optimizer is made; inputs of floats need the same\n".to_owned(),
 })
    },
};

fn shape(_: &LeverUse, workload: &mut Workload) {
    workload.parameters /= 2.0;
    workload.state /= 2.0;
    // What the two lost is as much as what they have left.
    workload.resident -= workload.parameters + workload.state;
    workload.gradients /= 2.0;
    workload.optimizer_working /= 2.0;
    for block in &mut workload.blocks {
        block.saved /= 2.0;
        block.input /= 2.0;
        block.output /= 2.0;
        block.working /= 2.0;
        block.gradients /= 2.0;
    }
    workload.other_saved /= 2.0;
    workload.adds_cast = true;
    let passes = workload.passes_ns();
    workload.add_time(TimePart::Cast, -0.4 * passes);
}
