//! `activation-offload`: what a block keeps for its backward pass waits in host memory. It costs no computation, and
//! the way over the bus twice, as far as that takes longer than the block.

use serde_json::Value;

use crate::lever::{Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::levers::activation_checkpointing::{counted, has_blocks, shortened};
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::ActivationOffload,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[
        Parameter::optional("modules", Holds::Modules),
        Parameter::optional("least_bytes", Holds::Count(0)),
    ],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script: &Script<'_>| has_blocks(&script.facts.blocks),
    options: |_| Vec::new(),
    shape: |_, _| {},
    describe: |used| {
        let modules = used.words("modules");
        if modules.is_empty() {
            return "activations wait in host memory for the backward pass".to_owned();
        }
        format!(
            "activations of {} wait in host memory for the backward pass: {}",
            counted(modules.len()),
            shortened(&modules)
        )
    },
    code: |used, writing| Some(code(used, writing)),
};

fn code(used: &LeverUse, _: &Writing<'_>) -> String {
    let modules = used.words("modules");
    let list = serde_json::to_string(&Value::from(modules)).unwrap_or_default();
    format!(
        "from torch.autograd.graph import save_on_cpu\n\ndef offloaded(forward):\n    def run(*args, **kwargs):\n        with save_on_cpu(pin_memory=True):\n            return forward(*args, **kwargs)\n    return run\n\nfor path in {list}:\n    block = model.get_submodule(path)\n    block.forward = offloaded(block.forward)\n"
    )
}
