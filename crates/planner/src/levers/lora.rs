//! `lora`: small matrices beside frozen weights are trained, so that gradients and state are theirs alone.

use serde_json::json;

use crate::lever::{Holds, Lever, Offered, Parameter};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Lora,
    numerics: Numerics::Changes,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required("rank", Holds::Count(1))],
    conflicts: &[],
    offered: Offered::WhenAllowed,
    check: |script| {
        if script.facts.has_package("peft") {
            Ok(())
        } else {
            Err("the package `peft` is not installed".to_owned())
        }
    },
    options: |_| vec![Parameters::from([("rank".to_owned(), json!(8))])],
    shape,
    describe: |used| {
        format!(
            "adapters of rank {} beside frozen weights",
            used.count("rank").unwrap_or(0)
        )
    },
    code: |used, _| {
        Some(format!(
            "from peft import LoraConfig, get_peft_model\n\nmodel = get_peft_model(model, LoraConfig(r={}, target_modules=\"all-linear\"))  # before the optimizer is made\n",
            used.count("rank").unwrap_or(8)
        ))
    },
};

/// Adapters of rank 8, as a part of the weights they are beside.
const TRAINED: f64 = 0.01;

fn shape(_: &LeverUse, workload: &mut Workload) {
    let freed = workload.state * (1.0 - TRAINED);
    workload.resident -= freed;
    workload.state -= freed;
    workload.gradients *= TRAINED;
    workload.optimizer_working *= TRAINED;
    for block in &mut workload.blocks {
        block.gradients *= TRAINED;
    }
    let saved = workload.optimizer_ns * (1.0 - TRAINED);
    workload.add_time(TimePart::Other, -saved);
}
