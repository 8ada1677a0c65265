//! The optimizer's state and what a step needs besides.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "step_without_copies",
        title: "a step without temporary copies",
        serves: &[CauseId::OptimizerFirstStep],
        numerics: Numerics::Rounding,
        cost: Cost::Little,
        write: without_copies,
    },
    Kind {
        id: "smaller_state",
        title: "an optimizer with less state",
        serves: &[CauseId::OptimizerFirstStep, CauseId::TooBig],
        numerics: Numerics::Changes,
        cost: Cost::Some,
        write: smaller_state,
    },
    Kind {
        id: "train_fewer_parameters",
        title: "fewer parameters trained (LoRA, frozen layers)",
        serves: &[CauseId::OptimizerFirstStep, CauseId::TooBig],
        numerics: Numerics::Changes,
        cost: Cost::Much,
        write: fewer,
    },
];

fn without_copies(case: &Case<'_>) -> Option<Advice> {
    let code = if case.failure.torch.are_before(Release(2, 0)) {
        "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, foreach=False)"
    } else {
        "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)"
    };
    let saves = case
        .held
        .map(|held| held.model_bytes)
        .filter(|bytes| *bytes > Bytes::ZERO)
        .map_or(Saves::Unknown, Saves::UpTo);
    Some(Advice {
        saves,
        text: "the default form of Adam makes a temporary list as large as the trained parameters in every step".into(),
        code: code.into(),
    })
}

fn smaller_state(case: &Case<'_>) -> Option<Advice> {
    let training = !matches!(
        case.phase(),
        Some(
            crate::moment::Moment::Evaluation
                | crate::moment::Moment::Generate
                | crate::moment::Moment::Load
        )
    );
    let state = case.held.map(|held| held.optimizer_bytes);
    let saves = state
        .filter(|bytes| *bytes > Bytes::ZERO)
        .map_or(Saves::Unknown, |bytes| {
            Saves::UpTo(Bytes::new(bytes.get() / 4 * 3))
        });
    training.then(|| Advice {
        saves,
        text: "Adam's two moments take twice the trained parameters in their own type; in 8 bits a quarter of that".into(),
        code: "import bitsandbytes as bnb\noptimizer = bnb.optim.AdamW8bit(model.parameters(), lr=lr)".into(),
    })
}

fn fewer(case: &Case<'_>) -> Option<Advice> {
    let held = case
        .held
        .filter(|held| held.optimizer_bytes + held.gradient_bytes > Bytes::ZERO)?;
    Some(Advice {
        saves: Saves::UpTo(held.optimizer_bytes + held.gradient_bytes),
        text:
            "frozen parameters have no gradients and no state; activations of the whole model stay"
                .into(),
        code: "model = get_peft_model(model, LoraConfig(r=16, target_modules=\"all-linear\"))"
            .into(),
    })
}
