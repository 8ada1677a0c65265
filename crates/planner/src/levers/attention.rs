//! `attention`: scores of every token against every other exist only where attention is written out;
//! `scaled_dot_product_attention` keeps one number for each row of them.

use serde_json::json;

use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::{TimePart, Workload};

/// What is left of a block's activations without the scores. A guess, for the length of sequences is not among the
/// facts; a run corrects it.
const LEFT: f64 = 0.7;
/// A forward pass takes less by this part.
const FASTER: f64 = 0.1;

pub(super) static LEVER: Lever = Lever {
    name: LeverName::Attention,
    numerics: Numerics::Rounding,
    redraws: Redraws::InForward,
    parameters: &[Parameter::required(
        "implementation",
        Holds::Word(&["sdpa"]),
    )],
    conflicts: &[],
    offered: Offered::Freely,
    check,
    options: |_: &Script<'_>| {
        vec![Parameters::from([(
            "implementation".to_owned(),
            json!("sdpa"),
        )])]
    },
    shape,
    describe: |_| "attention by `scaled_dot_product_attention`, which keeps no scores".to_owned(),
    code,
};

fn check(script: &Script<'_>) -> Result<(), String> {
    let attention = &script.facts.attention;
    if attention.is_empty() {
        return Err("no attention was seen".to_owned());
    }
    let is_eager = |word: Option<&str>| word == Some("eager");
    if !attention
        .iter()
        .any(|it| is_eager(it.implementation.as_deref()))
    {
        return Err("attention keeps no scores as it is".to_owned());
    }
    if !attention
        .iter()
        .any(|it| is_eager(it.implementation.as_deref()) && it.can_sdpa == Some(true))
    {
        return Err("attention is written out in the model's own code".to_owned());
    }
    Ok(())
}

fn shape(_: &LeverUse, workload: &mut Workload) {
    for block in &mut workload.blocks {
        block.saved = (block.saved * LEFT).max(block.input);
        block.working *= LEFT;
    }
    workload.adds_attention = true;
    let passes = workload.passes_ns();
    workload.add_time(TimePart::Attention, -FASTER * passes);
}

fn code(_: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    let uses_transformers =
        writing.framework == Framework::Trainer || writing.facts.has_package("transformers");
    uses_transformers.then(|| {
        "model = AutoModel.from_pretrained(..., attn_implementation=\"sdpa\")  # the class that the script loads\n"
            .to_owned()
    })
}
