//! The model itself.

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Backend;
use crate::held::Held;
use crate::moment::Moment;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[Kind {
    id: "smaller_model",
    title: "a smaller or pruned model",
    serves: &[
        CauseId::TooBig,
        CauseId::OptimizerFirstStep,
        CauseId::LoadSaveResume,
    ],
    numerics: Numerics::Changes,
    cost: Cost::Much,
    write: smaller,
}];

fn smaller(case: &Case<'_>) -> Option<Advice> {
    if case.phase() == Some(Moment::Save) {
        return None;
    }
    // No virtual GPU stands for these.
    let elsewhere = matches!(case.backend(), Backend::Mps | Backend::Xpu | Backend::Npu);
    let costly = case.held.and_then(|held| Held::largest(&held.modules));
    Some(Advice {
        saves: case
            .balance
            .as_ref()
            .and_then(|balance| balance.short_bytes)
            .map_or(Saves::Unknown, Saves::Needed),
        text: match costly {
            Some(costly) => format!("the modules that cost most: {costly}"),
            None if elsewhere => "which modules have most parameters the model tells".into(),
            None => "which modules cost most a run on a virtual GPU shows".into(),
        },
        code: if elsewhere {
            "for name, module in model.named_modules():\n    print(sum(each.numel() for each in module.parameters()), name)"
        } else {
            "oomproof run --gpu NAME SCRIPT  # the list under \"modules\""
        }
        .into(),
    })
}
