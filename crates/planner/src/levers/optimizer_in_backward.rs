//! `optimizer-in-backward`: each parameter is updated when its gradient is complete, which is then freed: gradients
//! never exist all at once. Nothing may need them all.

use crate::lever::{Framework, Lever, Offered, Script};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::OptimizerInBackward,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[
        (
            LeverName::MicroBatch,
            "gradients have to add up before they are used",
        ),
        (
            LeverName::OptimizerImplementation,
            "each parameter has a step of its own",
        ),
    ],
    offered: Offered::Freely,
    check,
    options: |_| vec![Parameters::new()],
    shape,
    describe: |_| {
        "each parameter updated in the backward pass, its gradient freed at once".to_owned()
    },
    code: |_, writing| (writing.framework == Framework::Plain).then(|| CODE.to_owned()),
};

const CODE: &str = "optimizers = {p: torch.optim.AdamW([p], ...) for p in model.parameters()}

def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()

for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
# and no optimizer.step() or zero_grad() in the loop
";

fn check(script: &Script<'_>) -> Result<(), String> {
    let facts = script.facts;
    if facts.clips != Some(false) {
        return Err("gradients are clipped by the norm of all, or that was not seen".to_owned());
    }
    if facts.scaler != Some(false) {
        return Err("a gradient scaler looks at all gradients, or that was not seen".to_owned());
    }
    if facts.micro_batches.is_some_and(|count| count > 1) {
        return Err("gradients are added up over several passes".to_owned());
    }
    if !script.has_torch(2, 1) {
        return Err("hooks after a gradient is complete need torch 2.1 or later".to_owned());
    }
    Ok(())
}

fn shape(_: &LeverUse, workload: &mut Workload) {
    workload.gradients_stay = false;
    workload.gradients_go_at_once = true;
    // A step for each parameter launches kernels for each.
    let optimizer_ns = workload.optimizer_ns;
    workload.add_time(TimePart::OptimizerLoop, 2.0 * optimizer_ns);
}
