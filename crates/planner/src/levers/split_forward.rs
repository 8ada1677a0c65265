//! `split-forward`: where no loader cuts the data, the model itself goes slice by slice: outputs first, without keeping
//! anything, then each slice once more with its backward pass.

use serde_json::json;

use crate::facts::BatchSource;
use crate::lever::{Holds, Lever, Offered, Parameter, Script};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::levers::micro_batch::{COMPARES, compares_samples, piece_counts};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::SplitForward,
    numerics: Numerics::Rounding,
    redraws: Redraws::InForward,
    parameters: &[Parameter::required("chunks", Holds::Count(2))],
    conflicts: &[
        (LeverName::MicroBatch, "the batch is cut already"),
        (
            LeverName::OptimizerInBackward,
            "gradients have to add up before they are used",
        ),
    ],
    offered: Offered::Freely,
    check,
    options,
    shape,
    describe: |used| {
        format!(
            "the model in {} slices of the batch, each computed again in its backward pass",
            used.count("chunks").unwrap_or(0)
        )
    },
    code: |_, _| None,
};

fn check(script: &Script<'_>) -> Result<(), String> {
    let facts = script.facts;
    if facts.batch.is_none_or(|batch| batch < 2) {
        return Err("the size of the batch was not seen, or it is one sample".to_owned());
    }
    if facts.batchnorm == Some(true) {
        return Err("batch normalization would see smaller batches".to_owned());
    }
    if compares_samples(facts) {
        return Err(COMPARES.to_owned());
    }
    // Loops of frameworks divide their losses by what a piece cannot know, so that `micro-batch` may refuse them.
    let is_cut_by_loader = !matches!(facts.batch_source, None | Some(BatchSource::Forward));
    if is_cut_by_loader && facts.frameworks.is_empty() {
        return Err("`micro-batch` does the same without computing anything twice".to_owned());
    }
    Ok(())
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let batch = script.facts.batch.unwrap_or(1);
    piece_counts(batch)
        .map(|chunks| Parameters::from([("chunks".to_owned(), json!(chunks))]))
        .collect()
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let (saved, working, scores) = (workload.loss_saved, workload.loss_working, workload.scores);
    workload.split(used.count("chunks").unwrap_or(1));
    if !workload.loss_inside {
        // The loss is computed on all outputs at once.
        (workload.loss_saved, workload.loss_working, workload.scores) = (saved, working, scores);
    } else if saved > 0.0 {
        // The model gives the scores too.
        workload.other_saved += scores;
    }
    workload.gradients_stay = true;
    let again = workload.forward_ns;
    workload.add_time(TimePart::Recomputed, again);
    let added = workload.of_pieces_ns(workload.passes_ns() + again);
    workload.add_time(TimePart::Pieces, added);
}
