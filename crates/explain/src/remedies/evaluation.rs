//! Evaluation without what only training needs.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};
use crate::script::{self, Suspicion};

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
        serves: &[CauseId::EvalPhase, CauseId::AutogradRetention],
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
    let edits = script::edits(case.suspects, &[Suspicion::GradInEvaluation]);
    let at = edits.as_ref().map_or_else(String::new, |(suspect, _)| {
        format!("; here at line {}", suspect.line)
    });
    Some(Advice {
        saves: case
            .held
            .map(|held| held.batch_bytes)
            .filter(|bytes| *bytes > Bytes::ZERO)
            .map_or(Saves::Unknown, Saves::UpTo),
        text: format!(
            "`model.eval()` switches layers over and keeps graphs all the same; this does not{at}"
        ),
        code: edits
            .map(|(_, code)| code.replace("no_grad", word))
            .filter(|code| !code.is_empty())
            .unwrap_or_else(|| {
                format!(
                    "model.eval()\nwith torch.{word}():\n    for x, y in loader:\n        output = model(x)"
                )
            }),
    })
}

fn to_cpu(case: &Case<'_>) -> Option<Advice> {
    let edits = script::edits(case.suspects, &[Suspicion::CollectsOutputs]);
    let at = edits.as_ref().map_or_else(String::new, |(suspect, _)| {
        format!("; here at line {}", suspect.line)
    });
    Some(Advice {
        saves: Saves::Unknown,
        text: format!("outputs of the whole set pile up on the card; classes or sums are enough for most metrics{at}"),
        code: edits.map_or_else(
            || "predictions.append(output.argmax(-1).cpu())\n# Trainer: TrainingArguments(eval_accumulation_steps=8, per_device_eval_batch_size=1), preprocess_logits_for_metrics=...".to_owned(),
            |(_, code)| code,
        ),
    })
}
