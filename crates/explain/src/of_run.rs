//! What a recorded run on the virtual GPU adds to the text of its failure: exact bytes by role, and the moment. Where
//! no text was ever written, because a library or the process itself ended, the record takes its place.

use oomproof_analysis::{AskedBy, Oom, Verdict};
use oomproof_profile::{Phase, Role};
use oomproof_units::Bytes;

use crate::agreement::{Agreement, RecordKind};
use crate::cues::Cues;
use crate::explanation::{Explanation, Facts, Input};
use crate::failure::Failure;
use crate::figures::Figures;
use crate::format::{Backend, Format};
use crate::held::{Held, HeldBy};
use crate::moment::Moment;
use crate::release::{self, NEWEST, OLDEST, Releases};
use crate::script;
use crate::trace::Frame;

/// Most modules and lines that are taken over.
const MOST: usize = 8;

/// Explains why a run did not fit; `None` when no request for memory was refused in it.
pub fn explain_run(verdict: &Verdict, script: Option<&str>) -> Option<Explanation> {
    let oom = verdict.oom.as_ref()?;
    let held = held(verdict, Some(oom));
    let read = oom.message.as_deref().map(|text| {
        Facts::read(&Input {
            text,
            script,
            script_path: None,
            torch: release::parse(&verdict.torch),
            held: None,
        })
    });
    let known = read.filter(|facts| !facts.failures.is_empty());
    let mut facts = known.unwrap_or_else(|| Facts {
        failures: vec![failure(verdict, oom)],
        explained: 0,
        balance: None,
        cues: Cues::default(),
        nvidia_smi: None,
        memory_summaries: Vec::new(),
        agreement: None,
        suspects: script.map(script::suspects).unwrap_or_default(),
        script_path: None,
        held: None,
    });
    if let Some(failure) = facts.failures.get_mut(facts.explained) {
        fill(&mut failure.figures, &figures(verdict));
    }
    Some(Explanation::of(facts.with(&held).reckoned()))
}

/// Explains a text with what a recorded run of the same script knows; `None` when neither has a failure.
pub fn explain_with_run(input: &Input<'_>, verdict: &Verdict) -> Option<Explanation> {
    let mut facts = Facts::read(input);
    let Some(failure) = facts.failures.get(facts.explained) else {
        let found = explain_run(verdict, input.script)?;
        return Some(Explanation {
            nvidia_smi: facts.nvidia_smi,
            memory_summaries: facts.memory_summaries,
            ..found
        });
    };
    let agreement = Agreement::of(RecordKind::Run, &failure.figures, &figures(verdict));
    let mut held = held(verdict, verdict.oom.as_ref());
    if !agreement.same_moment {
        // Of the text's own failure its own traceback knows more.
        (held.phase, held.place, held.requested_bytes) = (None, None, None);
    }
    facts.agreement = Some(agreement);
    Some(Explanation::of(facts.with(&held).reckoned()))
}

/// What the record says in figures: at the refused request, or else at the peak.
fn figures(verdict: &Verdict) -> Figures {
    let total = verdict.device.total_bytes;
    let Some(oom) = &verdict.oom else {
        return Figures {
            total_bytes: Some(total),
            allocated_bytes: Some(verdict.peak.allocated_bytes),
            reserved_bytes: Some(verdict.peak.reserved_bytes),
            ..Figures::default()
        };
    };
    let others = verdict.device.reserved_by_others_bytes;
    let known = oom.reserved_bytes;
    let live: Bytes = oom.held_by.values().copied().sum();
    let mut figures = Figures {
        tried_bytes: oom.requested_bytes.or(oom.tried_bytes),
        total_bytes: Some(total),
        free_bytes: oom.free_bytes,
        allocated_bytes: known.map(|_| live),
        reserved_bytes: known,
        this_process_bytes: oom
            .free_bytes
            .map(|free| total.saturating_sub(free).saturating_sub(others)),
        ..Figures::default()
    };
    figures.complete();
    figures
}

/// Figures that the text has stay as they are.
fn fill(figures: &mut Figures, recorded: &Figures) {
    let fill = |own: &mut Option<Bytes>, other: Option<Bytes>| *own = own.or(other);
    fill(&mut figures.tried_bytes, recorded.tried_bytes);
    fill(&mut figures.total_bytes, recorded.total_bytes);
    fill(&mut figures.free_bytes, recorded.free_bytes);
    fill(&mut figures.allocated_bytes, recorded.allocated_bytes);
    fill(&mut figures.reserved_bytes, recorded.reserved_bytes);
    fill(&mut figures.this_process_bytes, recorded.this_process_bytes);
    figures.complete();
}

/// The failure of a run that wrote no text.
fn failure(verdict: &Verdict, oom: &Oom) -> Failure {
    let (format, who) = match oom.asked_by {
        AskedBy::Pytorch => (Format::RunGaveUp, "PyTorch's allocator gave up"),
        AskedBy::Library => (
            Format::RunRefused,
            "the driver refused a request that was not PyTorch's allocator's",
        ),
    };
    Failure {
        format,
        backend: Backend::Cuda,
        line: 0,
        rank: None,
        device: Some(u32::from(verdict.device.index)),
        message: oom
            .message
            .clone()
            .unwrap_or_else(|| format!("{who}, and no error of it reached Python")),
        truncated: false,
        times: 1,
        torch: release::parse(&verdict.torch).map_or(
            Releases {
                oldest: OLDEST,
                newest: NEWEST,
            },
            Releases::exactly,
        ),
        figures: Figures::default(),
        phase: None,
        r#where: None,
        frames: Vec::new(),
        squeezed: String::new(),
    }
}

/// Whose the live bytes were: at the refused request, or else at the peak.
fn held(verdict: &Verdict, oom: Option<&Oom>) -> Held {
    let roles = oom.map_or(&verdict.peak.roles, |oom| &oom.held_by);
    let of = |wanted: &[Role]| -> Bytes {
        wanted
            .iter()
            .filter_map(|role| roles.get(role).copied())
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
        phase: oom.and_then(|oom| moment(oom.phase)),
        place: oom.and_then(|oom| place(oom.r#where.as_deref()?)),
        largest_hole_bytes: None,
        requested_bytes: oom.and_then(|oom| oom.requested_bytes),
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
