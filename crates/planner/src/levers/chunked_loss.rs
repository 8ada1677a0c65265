//! `chunked-loss`: the last linear layer and the loss over a large vocabulary in pieces of rows, so that the scores
//! never exist all at once.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

/// Products of fewer rows, as a part of the passes of what is no block.
const SMALLER: f64 = 0.05;
/// Each piece reads the layer's weights, and reads and writes their gradient once more.
const TIMES_OVER_WEIGHTS: f64 = 4.0;
/// Bytes per nanosecond of a card's memory; a run corrects it.
const MEMORY_BYTES_PER_NS: f64 = 1000.0;
/// Scores, their logarithms and their gradient, which are alive together.
const COPIES: f64 = 3.0;

pub(super) static LEVER: Lever = Lever {
    name: LeverName::ChunkedLoss,
    numerics: Numerics::Rounding,
    redraws: Redraws::Nothing,
    parameters: &[
        Parameter::required("chunks", Holds::Count(2)),
        Parameter::optional("linear", Holds::Text),
    ],
    conflicts: &[],
    offered: Offered::Freely,
    check,
    options,
    shape,
    describe: |used| {
        format!(
            "the last linear layer and the loss in {} pieces of rows",
            used.count("chunks").unwrap_or(0)
        )
    },
    code,
};

fn check(script: &Script<'_>) -> Result<(), String> {
    let Some(loss) = &script.facts.loss else {
        return Err("no loss over classes was seen".to_owned());
    };
    if loss.kind.as_deref() != Some("cross_entropy") {
        return Err("the loss is not cross entropy".to_owned());
    }
    if loss.linear.is_none() {
        return Err("the scores do not come straight from a linear layer".to_owned());
    }
    Ok(())
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let loss = script.facts.loss.as_ref();
    let rows = loss.and_then(|loss| loss.rows);
    let linear = loss.and_then(|loss| loss.linear.as_deref());
    [4_u64, 8, 16, 64]
        .into_iter()
        .filter(|chunks| rows.is_none_or(|rows| chunks * 8 <= rows))
        .map(|chunks| {
            let mut parameters = Parameters::from([("chunks".to_owned(), json!(chunks))]);
            if let Some(linear) = linear {
                parameters.insert("linear".to_owned(), json!(linear));
            }
            parameters
        })
        .collect()
}

/// What the scores take when they exist all at once.
pub(crate) fn scores_bytes(script: &Script<'_>) -> Option<f64> {
    let loss = script.facts.loss.as_ref()?;
    let width = match loss.dtype.as_deref() {
        Some("bfloat16" | "float16") => 2.0,
        Some("float64") => 8.0,
        _ => 4.0,
    };
    Some(loss.rows? as f64 * loss.classes? as f64 * width)
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let chunks = used.count("chunks").unwrap_or(1) as f64;
    let whole = workload.loss_saved + workload.loss_working;
    let scores = if workload.scores > 0.0 {
        workload.scores * COPIES
    } else {
        whole
    };
    workload.loss_saved = 0.0;
    workload.loss_working = whole.min(scores) / chunks;
    // The layer over a large vocabulary is as a rule the largest parameter.
    let per_piece = TIMES_OVER_WEIGHTS * workload.largest_parameter / MEMORY_BYTES_PER_NS;
    let added = SMALLER * workload.head_ns + per_piece * chunks * workload.pieces as f64;
    workload.add_time(TimePart::Loss, added);
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    let chunks = used.count("chunks")?;
    let has_own = writing
        .torch
        .is_some_and(|torch| (torch.major, torch.minor) >= (2, 15));
    if writing.framework == Framework::Trainer && writing.facts.has_package("liger_kernel") {
        return Some("args = TrainingArguments(..., use_liger_kernel=True)\n".to_owned());
    }
    if has_own {
        return Some(
            "# hidden: what the last linear layer, `head`, was given, as rows\nloss = torch.nn.functional.linear_cross_entropy(\n    hidden.flatten(0, -2), head.weight, targets.flatten(),\n    options=torch.nn.LinearCrossEntropyOptions(),\n)\n"
                .to_owned(),
        );
    }
    Some(format!(
        "# hidden: what the last linear layer, `head`, was given\nfrom torch.utils.checkpoint import checkpoint\n\ndef piece(rows, wanted):\n    return torch.nn.functional.cross_entropy(head(rows), wanted, reduction=\"sum\")\n\nrows, wanted = hidden.flatten(0, -2), targets.flatten()\nparts = zip(rows.chunk({chunks}), wanted.chunk({chunks}))\nloss = sum(checkpoint(piece, *part, use_reentrant=False) for part in parts) / (wanted != -100).sum()\n"
    ))
}
