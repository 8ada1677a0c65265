//! What a recorded run on the virtual GPU adds to the text of its failure: exact bytes by role, and the moment.

use oomproof_analysis::{Oom, Verdict};
use oomproof_profile::{Phase, Role};
use oomproof_units::Bytes;

use crate::explanation::{Explanation, Input, explain};
use crate::held::{Held, HeldBy};
use crate::moment::Moment;
use crate::release;
use crate::trace::Frame;

/// Most modules and lines that are taken over.
const MOST: usize = 8;

/// Explains why a run did not fit; `None` when PyTorch did not run out of memory, or its text never reached Python.
pub fn explain_run(verdict: &Verdict, script: Option<&str>) -> Option<Explanation> {
    let oom = verdict.oom.as_ref()?;
    let text = oom.message.as_deref()?;
    let held = held(verdict, oom);
    Some(explain(&Input {
        text,
        script,
        torch: release::parse(&verdict.torch),
        held: Some(&held),
    }))
}

fn held(verdict: &Verdict, oom: &Oom) -> Held {
    let of = |roles: &[Role]| -> Bytes {
        roles
            .iter()
            .filter_map(|role| oom.held_by.get(role).copied())
            .sum()
    };
    let modules = verdict.peak.modules.iter().take(MOST);
    let sites = verdict.peak.sites.iter().take(MOST);
    Held {
        model_bytes: of(&[Role::Parameter, Role::Buffer]),
        gradient_bytes: of(&[Role::Gradient]),
        optimizer_bytes: of(&[Role::OptimizerState]),
        batch_bytes: of(&[
            Role::Activation,
            Role::Input,
            Role::Temporary,
            Role::Workspace,
        ]),
        unknown_bytes: of(&[Role::Unknown]),
        modules: modules
            .map(|module| HeldBy {
                name: module.path.clone(),
                bytes: module.bytes,
            })
            .collect(),
        lines: sites
            .map(|site| HeldBy {
                name: format!("{}:{} {}", site.file, site.line, site.function),
                bytes: site.bytes,
            })
            .collect(),
        growth_bytes_per_step: verdict.growth_bytes_per_step,
        phase: moment(oom.phase),
        place: oom.r#where.as_deref().and_then(place),
        requested_bytes: oom.requested_bytes,
    }
}

/// `train.py:12 main`
fn place(text: &str) -> Option<Frame> {
    let (place, function) = text.split_once(' ').unwrap_or((text, ""));
    let (file, line) = place.rsplit_once(':')?;
    Some(Frame {
        file: file.to_owned(),
        line: line.parse().ok()?,
        function: function.to_owned(),
        code: None,
    })
}

fn moment(phase: Phase) -> Option<Moment> {
    Some(match phase {
        Phase::Load => Moment::Load,
        Phase::Forward => Moment::Forward,
        Phase::Backward => Moment::Backward,
        Phase::Optimizer => Moment::Optimizer,
        Phase::Evaluation => Moment::Evaluation,
        Phase::Save => Moment::Save,
        Phase::Idle => return None,
    })
}
