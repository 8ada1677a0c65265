//! `micro-batch`: the batch in pieces, the gradients added up. Activations shrink with the pieces, while gradients
//! stay through every forward pass but the first.

use serde_json::json;

use crate::facts::{BatchSource, Facts};
use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::MicroBatch,
    numerics: Numerics::Rounding,
    redraws: Redraws::InLoop,
    parameters: &[Parameter::required("chunks", Holds::Count(2))],
    conflicts: &[],
    offered: Offered::Freely,
    check,
    options,
    shape,
    describe: |used| {
        format!(
            "each batch in {} pieces, whose gradients are added up",
            used.count("chunks").unwrap_or(0)
        )
    },
    code,
};

fn check(script: &Script<'_>) -> Result<(), String> {
    let facts = script.facts;
    let Some(batch) = facts.batch else {
        return Err("the size of the batch was not seen".to_owned());
    };
    if batch < 2 {
        return Err("the batch is one sample".to_owned());
    }
    if matches!(facts.batch_source, None | Some(BatchSource::Forward)) {
        return Err("no loader was seen that cuts the data into batches".to_owned());
    }
    if facts.batchnorm == Some(true) {
        return Err("batch normalization would see smaller batches".to_owned());
    }
    if compares_samples(facts) {
        return Err(COMPARES.to_owned());
    }
    if facts.lr_set_by_hand == Some(true) {
        return Err("the script sets the learning rate from a counter of its own".to_owned());
    }
    Ok(())
}

/// Why a loss over pairs stands in the way.
pub(super) const COMPARES: &str = "the loss compares the samples of a batch with each other";

/// Whether the classes of the loss are the other samples.
pub(super) fn compares_samples(facts: &Facts) -> bool {
    facts.loss.as_ref().is_some_and(|loss| {
        loss.rows.is_some() && loss.rows == loss.classes && loss.rows == facts.batch
    })
}

fn options(script: &Script<'_>) -> Vec<Parameters> {
    let batch = script.facts.batch.unwrap_or(1);
    // Frameworks take the size of a piece, so that all pieces are of one size.
    let needs_divisor = script.facts.batch_source != Some(BatchSource::Loader);
    piece_counts(batch)
        .filter(|chunks| !needs_divisor || batch.is_multiple_of(*chunks))
        .map(|chunks| Parameters::from([("chunks".to_owned(), json!(chunks))]))
        .collect()
}

/// Up to so many pieces every number is looked at, and beyond it doubles.
const EVERY_COUNT: u64 = 16;
/// A step of more pieces is mostly waiting for kernels to start.
const MOST_PIECES: u64 = 256;

/// The numbers of pieces that make a difference: each leaves another largest piece.
pub(super) fn piece_counts(batch: u64) -> impl Iterator<Item = u64> {
    (2..=batch.min(MOST_PIECES)).filter(move |&chunks| {
        if chunks > EVERY_COUNT && chunks != batch {
            return chunks.is_power_of_two();
        }
        batch.div_ceil(chunks) < batch.div_ceil(chunks - 1)
    })
}

fn shape(used: &LeverUse, workload: &mut Workload) {
    let chunks = used.count("chunks").unwrap_or(1);
    workload.split(chunks);
    workload.gradients_stay = true;
    let added = workload.of_pieces_ns(workload.passes_ns());
    workload.add_time(TimePart::Pieces, added);
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    let chunks = used.count("chunks")?;
    let size = writing.facts.batch.map_or_else(
        || "batch_size // ".to_owned() + &chunks.to_string(),
        |batch| batch.div_ceil(chunks).to_string(),
    );
    Some(match writing.framework {
        Framework::Trainer => format!(
            "args = TrainingArguments(..., per_device_train_batch_size={size}, gradient_accumulation_steps={chunks})\n"
        ),
        Framework::Lightning => format!(
            "loader = DataLoader(..., batch_size={size})\ntrainer = Trainer(..., accumulate_grad_batches={chunks})\n"
        ),
        Framework::Accelerate => format!(
            "loader = DataLoader(..., batch_size={size})\naccelerator = Accelerator(..., gradient_accumulation_steps={chunks})\nfor batch in loader:\n    with accelerator.accumulate(model):\n        ...\n"
        ),
        Framework::Plain => format!(
            "for inputs, targets in loader:\n    optimizer.zero_grad()\n    for part, wanted in zip(inputs.chunk({chunks}), targets.chunk({chunks})):\n        loss = compute_loss(model(part), wanted)\n        # the mean over the whole batch; count tokens instead of samples where some are ignored\n        (loss * (len(part) / len(inputs))).backward()\n    optimizer.step()\n"
        ),
    })
}
