//! `optimizer-implementation`: the step over all parameters at once needs temporaries as large as the parameters; a
//! fused kernel needs none, and a loop needs those of one parameter.

use serde_json::json;

use crate::facts::Optimizer;
use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

/// A loop holds so many temporaries of the largest parameter (measured for Adam).
const TEMPORARIES_OF_LOOP: f64 = 3.0;
/// A loop takes so many times as long as the step over all parameters at once: it launches kernels for each.
const SLOWER_LOOP: f64 = 3.0;
/// A fused kernel reads and writes each number once.
const FASTER_FUSED: f64 = 0.5;
/// Classes of torch that have a fused form, with the release that has it on CUDA.
const FUSED: [(&str, (u16, u16)); 3] = [("Adam", (2, 0)), ("AdamW", (2, 0)), ("SGD", (2, 3))];

pub(super) static LEVER: Lever = Lever {
    name: LeverName::OptimizerImplementation,
    numerics: Numerics::Rounding,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required(
        "implementation",
        Holds::Word(&["fused", "forloop", "foreach"]),
    )],
    conflicts: &[],
    offered: Offered::Freely,
    check,
    options,
    shape,
    describe: |used| match used.word("implementation") {
        Some("fused") => {
            "the optimizer's step in fused kernels, which need no temporaries".to_owned()
        }
        Some("foreach") => "the optimizer's step over all parameters at once".to_owned(),
        _ => "the optimizer's step one parameter at a time".to_owned(),
    },
    code: |used, writing| Some(code(used, writing)),
};

fn of_torch(optimizer: &Optimizer) -> Option<&str> {
    let class = optimizer.class.as_deref()?;
    class
        .starts_with("torch.optim.")
        .then(|| class.rsplit('.').next().unwrap_or(class))
}

fn can_be_fused(optimizer: &Optimizer, script: &Script<'_>) -> bool {
    let name = of_torch(optimizer);
    FUSED
        .iter()
        .any(|(class, (major, minor))| name == Some(class) && script.has_torch(*major, *minor))
}

fn check(script: &Script<'_>) -> Result<(), String> {
    let optimizers = &script.facts.optimizer;
    if optimizers.is_empty() {
        return Err("no optimizer was seen".to_owned());
    }
    if optimizers.iter().any(|it| of_torch(it).is_none()) {
        return Err("the optimizer is not one of torch's".to_owned());
    }
    if options(script).is_empty() {
        return Err("the optimizer's step has no other implementation".to_owned());
    }
    Ok(())
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let optimizers = &script.facts.optimizer;
    let all_are = |word: &str| {
        optimizers
            .iter()
            .all(|it| it.implementation.as_deref() == Some(word))
    };
    let mut words = Vec::new();
    if !all_are("fused") && optimizers.iter().all(|it| can_be_fused(it, script)) {
        words.push("fused");
    }
    if !all_are("forloop") && !all_are("fused") {
        words.push("forloop");
    }
    let parameters = |word: &&str| Parameters::from([("implementation".to_owned(), json!(word))]);
    words.iter().map(parameters).collect()
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let optimizer_ns = workload.optimizer_ns;
    if used.word("implementation") == Some("fused") {
        workload.optimizer_working = 0.0;
        workload.add_time(
            TimePart::OptimizerFused,
            (FASTER_FUSED - 1.0) * optimizer_ns,
        );
    } else {
        let least = TEMPORARIES_OF_LOOP * workload.largest_parameter;
        workload.optimizer_working = workload.optimizer_working.min(least);
        workload.add_time(TimePart::OptimizerLoop, (SLOWER_LOOP - 1.0) * optimizer_ns);
    }
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> String {
    let optimizer = writing.facts.optimizer.first();
    let class = optimizer.and_then(of_torch).unwrap_or("AdamW");
    let is_fused = used.word("implementation") == Some("fused");
    let argument = match used.word("implementation") {
        Some("fused") => "fused=True",
        Some("foreach") => "foreach=True",
        _ => "foreach=False",
    };
    match (writing.framework, class) {
        (Framework::Trainer, "AdamW") if is_fused => {
            "args = TrainingArguments(..., optim=\"adamw_torch_fused\")\n".to_owned()
        }
        (Framework::Trainer, _) => format!(
            "optimizer = torch.optim.{class}(model.parameters(), ..., {argument})\ntrainer = Trainer(..., optimizers=(optimizer, None))\n"
        ),
        (Framework::Lightning, _) => format!(
            "def configure_optimizers(self):\n    return torch.optim.{class}(self.parameters(), ..., {argument})\n"
        ),
        _ => format!("optimizer = torch.optim.{class}(model.parameters(), ..., {argument})\n"),
    }
}
