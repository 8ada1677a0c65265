//! `compile`: the compiler keeps less for the backward pass and computes cheap parts of it again. Its budget is no cap
//! on memory, and its least setting is not the smallest peak, so that a run has to tell.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Compile,
    numerics: Numerics::Rounding,
    redraws: Redraws::InForward,
    parameters: &[
        Parameter::optional("budget", Holds::Fraction),
        Parameter::optional("solver", Holds::Word(&["exact"])),
    ],
    conflicts: &[(
        LeverName::ActivationCheckpointing,
        "the compiler chooses itself what to compute again",
    )],
    offered: Offered::WhenAllowed,
    check: |_| Ok(()),
    options,
    shape,
    describe: |used| match used.parameters.get("budget") {
        Some(budget) => format!("`torch.compile` with a budget of {budget} for activations"),
        None => "`torch.compile`".to_owned(),
    },
    code: |used, writing| Some(code(used, writing)),
};

/// What is left of activations (measured on a GPT: 49.4 to 34.4 MiB).
const LEFT: f64 = 0.7;

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let mut options = vec![Parameters::new()];
    if script.has_torch(2, 4) {
        options.extend(
            [0.5, 0.2, 0.1].map(|budget| Parameters::from([("budget".to_owned(), json!(budget))])),
        );
    }
    options
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let budget = used
        .parameters
        .get("budget")
        .and_then(serde_json::Value::as_f64);
    let left = LEFT * budget.unwrap_or(1.0).max(0.5);
    for block in &mut workload.blocks {
        block.saved = (block.saved * left).max(block.input);
    }
    workload.adds_attention = true;
    let passes = workload.passes_ns();
    workload.add_time(TimePart::Other, -0.1 * passes);
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> String {
    let budget = used.parameters.get("budget").map_or_else(String::new, |budget| {
        format!("import torch._functorch.config\ntorch._functorch.config.activation_memory_budget = {budget}\n")
    });
    if writing.framework == Framework::Trainer {
        return format!("{budget}args = TrainingArguments(..., torch_compile=True)\n");
    }
    format!("{budget}model = torch.compile(model)\n")
}
