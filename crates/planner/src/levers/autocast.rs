//! `autocast`: matrix products in a shorter format, and so the activations that they keep. Copies of the weights in
//! that format live as long as the forward pass.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

/// What is left of activations: those of matrix products are halved, those of norms and softmax are not.
const LEFT: f64 = 0.65;
/// Passes on tensor cores take so much less time; a run corrects it.
const FASTER: f64 = 0.4;

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Autocast,
    numerics: Numerics::Changes,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required(
        "dtype",
        Holds::Word(&["bfloat16", "float16"]),
    )],
    conflicts: &[],
    offered: Offered::WhenAllowed,
    check,
    options,
    shape,
    describe: |used| {
        format!(
            "matrix products in {} (`torch.autocast`)",
            used.word("dtype").unwrap_or_default()
        )
    },
    code,
};

fn check(script: &Script<'_>) -> Result<(), String> {
    match script.facts.autocast.as_deref() {
        Some(dtype) => Err(format!("autocast is on already, with {dtype}")),
        None => Ok(()),
    }
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let mut words = vec!["bfloat16"];
    // Without a scaler, small gradients vanish in this format.
    if script.facts.scaler == Some(true) {
        words.push("float16");
    }
    let parameters = |word: &&str| Parameters::from([("dtype".to_owned(), json!(word))]);
    words.iter().map(parameters).collect()
}

fn shape(_: &LeverUse, workload: &mut Workload) {
    for block in &mut workload.blocks {
        block.saved *= LEFT;
        block.working *= LEFT;
    }
    workload.other_saved = workload.other_saved * LEFT + workload.parameters / 2.0;
    workload.adds_cast = true;
    let passes = workload.passes_ns();
    workload.add_time(TimePart::Cast, -FASTER * passes);
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    let dtype = used.word("dtype")?;
    let short = if dtype == "float16" { "fp16" } else { "bf16" };
    let is_old = writing
        .torch
        .is_some_and(|torch| (torch.major, torch.minor) < (2, 4));
    Some(match writing.framework {
        Framework::Trainer => format!("args = TrainingArguments(..., {short}=True)\n"),
        Framework::Lightning => {
            let word = if short == "fp16" { "16" } else { "bf16" };
            format!("trainer = Trainer(..., precision=\"{word}-mixed\")\n")
        }
        Framework::Accelerate => {
            format!("accelerator = Accelerator(..., mixed_precision=\"{short}\")\n")
        }
        Framework::Plain if is_old => {
            format!("with torch.cuda.amp.autocast(dtype=torch.{dtype}):\n    loss = ...\n")
        }
        Framework::Plain => {
            format!("with torch.amp.autocast(\"cuda\", dtype=torch.{dtype}):\n    loss = ...\n")
        }
    })
}
