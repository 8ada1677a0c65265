//! `activation-checkpointing`: a block keeps its input alone and computes the rest again in the backward pass.
//! Which blocks is not chosen here but by [`crate::recompute`], which knows where in the step each would help.

use serde_json::Value;

use crate::facts::Block;
use crate::lever::{Framework, Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::ActivationCheckpointing,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[
        Parameter::required("modules", Holds::Modules),
        Parameter::optional("policy", Holds::Word(&["full", "keep-matmul"])),
    ],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script: &Script<'_>| has_blocks(&script.facts.blocks),
    options: |_| Vec::new(),
    shape: |_, _| {},
    describe: |used| {
        let modules = used.words("modules");
        let what = match used.word("policy") {
            Some("keep-matmul") => "all but matrix products",
            _ => "activations",
        };
        format!(
            "{what} of {} computed again in the backward pass: {}",
            counted(modules.len()),
            shortened(&modules)
        )
    },
    code: |used, writing| Some(code(used, writing)),
};

/// Why no block can be chosen.
pub(super) fn has_blocks(blocks: &[Block]) -> Result<(), String> {
    if blocks.is_empty() {
        return Err("no module was seen whose activations could be dropped".to_owned());
    }
    if blocks.iter().all(|block| block.saved_bytes.is_none()) {
        return Err("what the modules keep for the backward pass was not measured".to_owned());
    }
    Ok(())
}

pub(super) fn counted(count: usize) -> String {
    if count == 1 {
        "1 module".to_owned()
    } else {
        format!("{count} modules")
    }
}

/// The first and the last of a long list.
pub(super) fn shortened(paths: &[&str]) -> String {
    match paths {
        [first, .., last] if paths.len() > 3 => format!("{first} ... {last}"),
        _ => paths.join(", "),
    }
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> String {
    let modules = used.words("modules");
    let list = serde_json::to_string(&Value::from(modules.clone())).unwrap_or_default();
    let is_selective = used.word("policy") == Some("keep-matmul");
    let covers_all = modules.len() >= writing.facts.blocks.len() && !modules.is_empty();
    if writing.framework == Framework::Trainer && covers_all && !is_selective {
        return "args = TrainingArguments(..., gradient_checkpointing=True,\n                         gradient_checkpointing_kwargs={\"use_reentrant\": False})\n".to_owned();
    }
    let (imports, argument) = if is_selective {
        (
            "from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts\n\nkeep = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default]\n",
            ", context_fn=functools.partial(create_selective_checkpoint_contexts, keep)",
        )
    } else {
        ("from torch.utils.checkpoint import checkpoint\n", "")
    };
    format!(
        "import functools\n{imports}\nfor path in {list}:\n    block = model.get_submodule(path)\n    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False{argument})\n"
    )
}
