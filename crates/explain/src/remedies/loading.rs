//! Checkpoints: one copy at a time, in main memory first.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::moment::Moment;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};
use crate::script::{self, Suspicion};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "load_to_cpu",
        title: "the checkpoint read to main memory",
        serves: &[CauseId::LoadSaveResume, CauseId::Device0],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: to_cpu,
    },
    Kind {
        id: "save_in_parts",
        title: "a checkpoint saved in parts, or through main memory",
        serves: &[CauseId::LoadSaveResume, CauseId::Sharded],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: in_parts,
    },
    Kind {
        id: "quantized_weights",
        title: "weights in 8 or 4 bits",
        serves: &[CauseId::LoadSaveResume, CauseId::TooBig],
        numerics: Numerics::Changes,
        cost: Cost::Some,
        write: quantized,
    },
];

fn to_cpu(case: &Case<'_>) -> Option<Advice> {
    if case.phase() == Some(Moment::Save) {
        return None;
    }
    let code = if case.failure.torch.are_before(Release(2, 1)) {
        "state = torch.load(path, map_location=\"cpu\")\nmodel.load_state_dict(state)\ndel state"
    } else {
        "state = torch.load(path, map_location=\"cpu\", mmap=True)\nmodel.load_state_dict(state)\ndel state"
    };
    let edits = script::edits(case.suspects, &[Suspicion::LoadsOntoDevice]);
    let at = edits.as_ref().map_or_else(String::new, |(suspect, _)| {
        format!("; here at line {}", suspect.line)
    });
    Some(Advice {
        saves: Saves::Unknown,
        text: format!(
            "without `map_location` a checkpoint that was saved on the GPU returns there, beside the live model; it saves one copy of what is in the file{at}"
        ),
        code: edits.map_or_else(|| code.to_owned(), |(_, code)| code),
    })
}

fn in_parts(case: &Case<'_>) -> Option<Advice> {
    (case.phase() == Some(Moment::Save)).then(|| Advice {
        saves: Saves::Unknown,
        text: "a full state dict is gathered on one device; each rank can write its own part, or the full one can be moved to main memory as it is gathered".into(),
        code: "from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict\nstate = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))".into(),
    })
}

fn quantized(case: &Case<'_>) -> Option<Advice> {
    if case.phase() != Some(Moment::Load) {
        return None;
    }
    let live = case.balance.as_ref()?.live_bytes;
    if live == Bytes::ZERO {
        return None;
    }
    Some(Advice {
        saves: Saves::UpTo(Bytes::new(live.get() / 4 * 3)),
        text: "weights of 16 bits become a half or a quarter; the figure is for 4 bits and if everything that is live is weights".into(),
        code: "model = AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))".into(),
    })
}
