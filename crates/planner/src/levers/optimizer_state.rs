//! `optimizer-state`: the moments of an optimizer in eight bits, or as sums of rows and columns.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::OptimizerState,
    numerics: Numerics::Changes,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required(
        "kind",
        Holds::Word(&["8bit", "factored"]),
    )],
    conflicts: &[(
        LeverName::OptimizerImplementation,
        "the optimizer is another one",
    )],
    offered: Offered::WhenAllowed,
    check,
    options,
    shape,
    describe: |used| {
        format!(
            "an optimizer with {} state",
            used.word("kind").unwrap_or_default()
        )
    },
    code: |used, writing| Some(code(used, writing)),
};

/// What is left of the state: 2.03 of 8 bytes a parameter for eight bits with their scales.
const LEFT_IN_8BIT: f64 = 0.254;
/// Rows and columns instead of both.
const LEFT_FACTORED: f64 = 0.002;

fn check(script: &Script<'_>) -> Result<(), String> {
    let state: u64 = script
        .facts
        .optimizer
        .iter()
        .filter_map(|it| it.state_bytes)
        .map(oomproof_units::Bytes::get)
        .sum();
    if state == 0 {
        return Err("the optimizer keeps no state".to_owned());
    }
    Ok(())
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let mut kinds = Vec::new();
    if script.facts.has_package("torchao") || script.facts.has_package("bitsandbytes") {
        kinds.push("8bit");
    }
    if script.has_torch(2, 5) {
        kinds.push("factored");
    }
    let parameters = |kind: &&str| Parameters::from([("kind".to_owned(), json!(kind))]);
    kinds.iter().map(parameters).collect()
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let left = if used.word("kind") == Some("8bit") {
        LEFT_IN_8BIT
    } else {
        LEFT_FACTORED
    };
    let freed = workload.state * (1.0 - left);
    workload.resident -= freed;
    workload.state -= freed;
    workload.add_time(TimePart::Other, 0.2 * workload.optimizer_ns);
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> String {
    let has_torchao = writing.facts.has_package("torchao");
    match (used.word("kind"), writing.framework) {
        (Some("8bit"), Framework::Trainer) => {
            let name = if has_torchao { "adamw_torch_8bit" } else { "adamw_bnb_8bit" };
            format!("args = TrainingArguments(..., optim=\"{name}\")\n")
        }
        (Some("8bit"), _) if has_torchao => {
            "from torchao.optim import AdamW8bit\n\noptimizer = AdamW8bit(model.parameters(), ...)\n".to_owned()
        }
        (Some("8bit"), _) => {
            "import bitsandbytes as bnb\n\noptimizer = bnb.optim.AdamW8bit(model.parameters(), ...)\n".to_owned()
        }
        (_, Framework::Trainer) => "args = TrainingArguments(..., optim=\"adafactor\")\n".to_owned(),
        _ => "optimizer = torch.optim.Adafactor(model.parameters(), ..., foreach=False)\n".to_owned(),
    }
}
