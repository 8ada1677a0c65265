//! `optimizer-offload`: the state lives on the host, and so does the step: gradients go there and parameters come back.

use crate::lever::{Lever, Offered, Script};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::OptimizerOffload,
    numerics: Numerics::Rounding,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[
        (LeverName::OptimizerInBackward, "the step is on the host"),
        (
            LeverName::OptimizerImplementation,
            "the step is on the host",
        ),
    ],
    offered: Offered::WhenAllowed,
    check,
    options: |_| vec![Parameters::new()],
    shape,
    describe: |_| "the optimizer and its state on the host".to_owned(),
    code: |_, _| Some(CODE.to_owned()),
};

const CODE: &str = "from torchao.optim import CPUOffloadOptimizer

optimizer = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, ...)
";

fn check(script: &Script<'_>) -> Result<(), String> {
    if script.facts.clips == Some(true) {
        return Err("gradients are clipped on the device".to_owned());
    }
    if script.facts.optimizer.is_empty() {
        return Err("no optimizer was seen".to_owned());
    }
    Ok(())
}

fn shape(_: &LeverUse, workload: &mut Workload) {
    workload.resident -= workload.state;
    workload.state = 0.0;
    workload.optimizer_working = 0.0;
    let over_bus = Workload::over_bus_ns(workload.gradients + workload.parameters);
    workload.add_time(TimePart::Other, over_bus);
}
