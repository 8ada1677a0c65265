//! `evaluation-batch`: evaluation in smaller batches.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::Workload;

pub(super) static LEVER: Lever = Lever {
    name: LeverName::EvaluationBatch,
    numerics: Numerics::Rounding,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required("size", Holds::Count(1))],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| match script.facts.evaluation.as_ref().and_then(|it| it.batch) {
        Some(batch) if batch > 1 => Ok(()),
        _ => Err("no evaluation with batches was seen".to_owned()),
    },
    options,
    shape,
    describe: |used| {
        format!(
            "evaluation in batches of {}",
            used.count("size").unwrap_or(0)
        )
    },
    code: |used, writing| Some(code(used, writing)),
};

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let facts = script.facts;
    let limits = match (facts.points.evaluation_peak, facts.points.step_peak) {
        (Some(evaluation), Some(step)) => evaluation.allocated > step.allocated,
        _ => false,
    };
    let batch = facts.evaluation.as_ref().and_then(|it| it.batch);
    // Where training needs more than evaluation does, nothing is gained.
    let batch = batch.filter(|_| limits).unwrap_or(1);
    std::iter::successors(Some(batch / 2), |size| Some(size / 2))
        .take_while(|size| *size > 0)
        .map(|size| Parameters::from([("size".to_owned(), json!(size))]))
        .collect()
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    if let (Some(size), Some(batch)) = (used.count("size"), workload.evaluation_batch) {
        workload.evaluation *= size as f64 / (batch as f64).max(1.0);
    }
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> String {
    let size = used.count("size").unwrap_or(1);
    if writing.framework == Framework::Trainer {
        return format!("args = TrainingArguments(..., per_device_eval_batch_size={size})\n");
    }
    format!("evaluation_loader = DataLoader(..., batch_size={size})\n")
}
