//! Evaluation without what only training needs.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "no_grad",
        title: "evaluation without graphs",
        serves: &[CauseId::EvalPhase],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: no_grad,
    },
    Kind {
        id: "outputs_to_cpu",
        title: "outputs kept in main memory, or only their sums",
        serves: &[CauseId::EvalPhase],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: to_cpu,
    },
];

fn no_grad(case: &Case<'_>) -> Option<Advice> {
    let word = if case.failure.torch.are_before(Release(1, 9)) {
        "no_grad"
    } else {
        "inference_mode"
    };
    Some(Advice {
        saves: case
            .held
            .map(|held| held.batch_bytes)
            .filter(|bytes| *bytes > Bytes::ZERO)
            .map_or(Saves::Unknown, Saves::UpTo),
        text: "`model.eval()` switches layers over and keeps graphs all the same; this does not"
            .into(),
        code: format!(
            "model.eval()\nwith torch.{word}():\n    for x, y in loader:\n        output = model(x)"
        ),
    })
}

fn to_cpu(_case: &Case<'_>) -> Option<Advice> {
    Some(Advice {
        saves: Saves::Unknown,
        text: "outputs of the whole set pile up on the card; classes or sums are enough for most metrics".into(),
        code: "predictions.append(output.argmax(-1).cpu())\n# Trainer: TrainingArguments(eval_accumulation_steps=8, per_device_eval_batch_size=1), preprocess_logits_for_metrics=...".into(),
    })
}
