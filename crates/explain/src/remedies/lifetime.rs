//! Tensors that live longer than they are needed.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::held::Held;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};
use crate::script::{self, Suspicion};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "detach_what_is_kept",
        title: "losses and states kept without their graph",
        serves: &[CauseId::AutogradRetention],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: detach,
    },
    Kind {
        id: "restart_notebook",
        title: "a fresh process",
        serves: &[CauseId::FrameworkRetention],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: restart,
    },
    Kind {
        id: "resume_from_checkpoint",
        title: "a checkpoint, a new process, and on from there",
        serves: &[CauseId::AutogradRetention, CauseId::FrameworkRetention],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: resume,
    },
    Kind {
        id: "delete_variables",
        title: "variables deleted when their work is done",
        serves: &[
            CauseId::TooBig,
            CauseId::AutogradRetention,
            CauseId::FrameworkRetention,
            CauseId::EvalPhase,
        ],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: delete,
    },
];

fn detach(case: &Case<'_>) -> Option<Advice> {
    let edits = script::edits(
        case.suspects,
        &[Suspicion::KeepsGraph, Suspicion::RetainsGraph],
    );
    let text = match &edits {
        Some((suspect, _)) => format!("line {}, `{}`: {}", suspect.line, suspect.code, suspect.why),
        None => "a loss that is added up, an output in a list or a hidden state carried over keeps the graph of its step".to_owned(),
    };
    let growth = case.held.map(|held| held.growth_bytes_per_step);
    let text = match growth.filter(|growth| *growth > Bytes::ZERO) {
        Some(growth) => format!("{text}; each step holds {growth} more than the one before"),
        None => text,
    };
    Some(Advice {
        saves: Saves::Unknown,
        text,
        code: edits.map_or_else(
            || "total_loss += loss.item()\noutputs.append(output.detach().cpu())\nhidden = hidden.detach()".to_owned(),
            |(_, code)| code,
        ),
    })
}

fn restart(case: &Case<'_>) -> Option<Advice> {
    let live = case.balance.as_ref().map(|balance| balance.live_bytes);
    Some(Advice {
        saves: live.map_or(Saves::Unknown, Saves::UpTo),
        text: "variables of a notebook, its `Out[...]` and `_`, and the last exception keep tensors alive; a restart ends all of them. One process for each trial does the same in a search".into(),
        code: "# Kernel > Restart; without a restart:\nimport gc, sys, torch\ndel model, optimizer\nsys.last_traceback = sys.last_value = sys.last_exc = None\ngc.collect()\ntorch.cuda.empty_cache()".into(),
    })
}

fn resume(_case: &Case<'_>) -> Option<Advice> {
    Some(Advice {
        saves: Saves::Unknown,
        text: "when what grows cannot be found, a new process starts without it; read the checkpoint to main memory".into(),
        code: "torch.save({\"model\": model.state_dict(), \"optimizer\": optimizer.state_dict(), \"step\": step}, path)\n# in the new process\nstate = torch.load(path, map_location=\"cpu\")\nmodel.load_state_dict(state[\"model\"])\noptimizer.load_state_dict(state[\"optimizer\"])\ndel state".into(),
    })
}

fn delete(case: &Case<'_>) -> Option<Advice> {
    let text = match case.held.and_then(|held| Held::largest(&held.lines)) {
        Some(lines) => format!("by source line, {lines}"),
        None => "the output and the loss of one step live until the names are bound again in the next: the peak has both".to_owned(),
    };
    let code = "loss.backward()\ndel output, loss  # before the next forward pass\noptimizer.step()\noptimizer.zero_grad(set_to_none=True)";
    let keeps = [
        Suspicion::KeepsGraph,
        Suspicion::CollectsOutputs,
        Suspicion::WholeDataOnDevice,
    ];
    let (text, code) = match script::edits(case.suspects, &keeps) {
        Some((suspect, edits)) => (
            format!(
                "line {}, `{}`, holds what it names for as long as the name lives; {text}",
                suspect.line, suspect.code
            ),
            format!("{edits}\n{code}").trim_start().to_owned(),
        ),
        None => (text, code.to_owned()),
    };
    Some(Advice {
        saves: Saves::Unknown,
        text,
        code,
    })
}
