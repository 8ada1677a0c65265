//! `allocator-settings`: what is allocated stays, what is reserved around it shrinks. Segments that grow page by page
//! leave next to no unused remainder.

use serde_json::json;

use crate::lever::{Holds, Lever, Offered, Parameter, Script, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::workload::Workload;

/// What stays reserved and unused with growing segments, as a part of what is allocated: pages of 2 MiB and the small
/// pool. Taken from replays of traces; a run corrects it.
const REMAINDER: f64 = 0.01;

pub(super) static LEVER: Lever = Lever {
    name: LeverName::AllocatorSettings,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[Parameter::required("conf", Holds::Text)],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| {
        if script.has_torch(2, 1) {
            Ok(())
        } else {
            Err("growing segments need torch 2.1 or later".to_owned())
        }
    },
    options: |_: &Script<'_>| {
        vec![Parameters::from([(
            "conf".to_owned(),
            json!("expandable_segments:True"),
        )])]
    },
    shape,
    describe: |used| {
        format!(
            "allocator settings `{}`: less memory is reserved and unused",
            used.word("conf").unwrap_or_default()
        )
    },
    code,
};

fn shape(used: &LeverUse, workload: &mut Workload) {
    if used
        .word("conf")
        .is_some_and(|conf| conf.contains("expandable_segments:True"))
    {
        workload.remainder = workload.remainder.min(REMAINDER);
        workload.has_growing_segments = true;
    }
}

fn code(used: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    let conf = used.word("conf")?;
    // The shorter name is read from 2.9 on; the old one is read by all.
    let variable = match writing.torch {
        Some(torch) if (torch.major, torch.minor) >= (2, 9) => "PYTORCH_ALLOC_CONF",
        _ => "PYTORCH_CUDA_ALLOC_CONF",
    };
    Some(format!(
        "# before torch is imported, or in the shell\nimport os\nos.environ[\"{variable}\"] = \"{conf}\"\n"
    ))
}
