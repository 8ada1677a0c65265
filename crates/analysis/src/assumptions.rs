//! What had to be assumed, in sentences. What happens a million times is told once: reads once for each line, files once
//! for all.

mod missing;
mod reads;

use std::collections::HashSet;

use oomproof_profile::RunSettings;
use oomproof_units::Bytes;

use crate::holding::Holding;
use crate::notes::Note;
use crate::processes::Beside;
use crate::scratch::ScratchRange;
use crate::timeline::Timeline;
use crate::verdict::{Assumption, Estimate};

/// All assumptions: reads in the order of their first, notes in theirs, then those about figures.
pub(crate) fn assumptions(
    timeline: &Timeline,
    settings: &RunSettings,
    peak: Option<&Holding<'_>>,
    scratch: ScratchRange,
) -> Vec<Assumption> {
    let mut found = reads::assumed_reads(timeline);
    let mut told = HashSet::new();
    let noted = timeline.notes.iter().filter_map(noted);
    found.extend(noted.filter(|assumption| told.insert(assumption.clone())));
    found.extend(skipped_init(timeline));
    found.extend(writes_redirected(timeline));
    found.extend(scratch_moves(scratch));
    found.extend(loops_cut(timeline));
    found.extend(peak_varies(timeline));
    found.extend(rest_not_run(timeline));
    found.extend(single_step(timeline));
    found.extend(peak.into_iter().filter_map(unexplained));
    found.extend(more_devices(timeline));
    found.extend(untested_torch(settings));
    found.extend(no_labels(settings));
    found.push(context(settings));
    found
}

fn assumption(kind: &str, text: String) -> Assumption {
    Assumption {
        kind: kind.to_owned(),
        text,
        r#where: None,
    }
}

fn scratch_moves(scratch: ScratchRange) -> Option<Assumption> {
    let ScratchRange { below, above, .. } = scratch;
    (below.get().max(above.get()) > 0).then(|| {
        let text = format!(
            "the scratch memory of closed libraries has its likely size in all figures; the allocated peak may be \
             {below} lower or {above} higher"
        );
        assumption("library_scratch", text)
    })
}

fn noted(note: &Note) -> Option<Assumption> {
    match note.kind.as_str() {
        "assumption" => Some(Assumption {
            kind: note.text("assumption").unwrap_or("assumption").to_owned(),
            text: note.text("text")?.to_owned(),
            r#where: note.text("where").map(str::to_owned),
        }),
        "compile" => Some(assumption(
            "compile",
            "the script compiles, so from then on memory is not attributed to source lines"
                .to_owned(),
        )),
        "missing_functions" => missing::missing_functions(note),
        "foreign_runtime" => Some(assumption(
            "foreign_runtime",
            format!(
                "{} has a CUDA runtime of its own inside, whose memory is not seen",
                note.text("library")?
            ),
        )),
        _ => None,
    }
}

fn skipped_init(timeline: &Timeline) -> Option<Assumption> {
    let notes = || timeline.notes.iter().filter(|n| n.kind == "skipped_init");
    let size: Bytes = notes()
        .filter_map(|note| note.number("bytes"))
        .map(Bytes::new)
        .sum();
    let tensors = notes()
        .filter_map(|note| note.number("tensors"))
        .fold(0, u64::saturating_add);
    let parameters = match tensors {
        0 => return None,
        1 => "1 parameter".to_owned(),
        tensors => format!("{tensors} parameters"),
    };
    let text = format!("the initialization of {parameters} ({size}) was skipped");
    Some(assumption("skipped_init", text))
}

fn writes_redirected(timeline: &Timeline) -> Option<Assumption> {
    let mut paths: Vec<_> = timeline
        .notes
        .iter()
        .filter(|note| note.kind == "redirected")
        .filter_map(|note| note.text("path"))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let text = match paths.as_slice() {
        [] => return None,
        [path] => format!("what the script wrote to {path} went to a scratch folder"),
        [first, ..] => format!(
            "what the script wrote to {} paths, such as {first}, went to a scratch folder",
            paths.len()
        ),
    };
    Some(assumption("writes_redirected", text))
}

fn peak_varies(timeline: &Timeline) -> Option<Assumption> {
    let stop = timeline.stopped_from_inside()?;
    let peaks = || {
        let later = timeline.steps.iter().skip(1);
        later.map(|step| Bytes::new(step.peak_allocated))
    };
    let (low, high) = (peaks().min()?, peaks().max()?);
    (stop.text("reason") == Some("varying")).then(|| {
        assumption(
            "peak_varies",
            format!(
                "the peak of a step varied between {low} and {high} and the run was stopped after {} steps; a later step may be higher",
                timeline.steps.len()
            ),
        )
    })
}

/// Loops over data that ended before their data did, so that what comes after them was reached.
fn loops_cut(timeline: &Timeline) -> Option<Assumption> {
    let mut cuts = timeline.notes.iter().filter(|note| note.kind == "cut");
    let first = cuts.next()?;
    let batches = first.number("batches").unwrap_or_default();
    let of = first
        .number("of")
        .map_or_else(String::new, |of| format!(" of {of}"));
    let text = match cuts.count() {
        0 => format!(
            "a loop over data was ended after {batches}{of} batches, when its peak was known; --full runs it whole"
        ),
        more => format!(
            "{} loops over data were ended when their peak was known, the first after {batches}{of} batches; --full runs them whole",
            more + 1
        ),
    };
    Some(Assumption {
        kind: "loops_cut".to_owned(),
        text,
        r#where: first.text("where").map(str::to_owned),
    })
}

/// Epochs that were not run hold more than those that were.
pub(crate) fn epochs_grow(growth: Bytes) -> Option<Assumption> {
    (growth > Bytes::ZERO).then(|| {
        let text =
            format!("each epoch held {growth} more than the one before; later ones were not run");
        assumption("epochs_grow", text)
    })
}

/// A loop whose peak is steady says nothing of an evaluation behind it.
fn rest_not_run(timeline: &Timeline) -> Option<Assumption> {
    let stop = timeline.stopped_from_inside()?;
    matches!(
        stop.text("reason"),
        Some("steady" | "growing" | "varying" | "steps")
    ).then(|| {
        let steps = match timeline.steps.len() {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        assumption(
            "rest_not_run",
            format!(
                "the run was stopped after {steps}; what the script does after them (longer inputs, evaluation, saving) is not in the figures, and --full runs it"
            ),
        )
    })
}

/// A first step makes what the second one already finds, such as an optimizer's states.
fn single_step(timeline: &Timeline) -> Option<Assumption> {
    let guided = !timeline.unknown_reads.is_empty()
        && timeline.last_note("stop").is_none()
        && timeline.gave_up.is_empty();
    (guided && timeline.steps.len() == 1).then(|| {
        assumption(
            "single_step",
            "only one step was seen, perhaps because of a value that was assumed; a second one may have a higher peak, as it finds what the first has left"
                .to_owned(),
        )
    })
}

/// That there are others is no guess, but how much they held at the worst moment is.
pub(crate) fn other_processes(beside: &Beside) -> Option<Assumption> {
    let (whose, contexts) = match beside.processes.len() {
        0 => return None,
        1 => ("another process of the script".to_owned(), "a context"),
        n_others => (
            format!("{n_others} other processes of the script"),
            "a context each",
        ),
    };
    let reserved = beside
        .processes
        .iter()
        .map(|process| process.reserved_bytes);
    let sum: Bytes = reserved.sum();
    Some(assumption(
        "other_processes",
        format!(
            "{whose} reserved {sum} and took {contexts}; that counts for the card, and not in the figures of this process"
        ),
    ))
}

fn unexplained(peak: &Holding<'_>) -> Option<Assumption> {
    let (unseen, excess) = (peak.unseen(), peak.excess());
    if unseen > Bytes::ZERO {
        Some(assumption(
            "allocation_not_recorded",
            format!(
                "{unseen} of the peak were allocated before recording began or in records that were lost; their role is unknown"
            ),
        ))
    } else if excess > Bytes::ZERO {
        Some(assumption(
            "release_not_recorded",
            format!(
                "blocks of {excess} look alive at the peak and are not; the shares of roles, modules and lines are too high by at most that"
            ),
        ))
    } else {
        None
    }
}

fn more_devices(timeline: &Timeline) -> Option<Assumption> {
    let used = timeline
        .devices
        .values()
        .filter(|levels| levels.peak.is_some())
        .count();
    (used > 1).then(|| {
        assumption(
            "one_device_shown",
            format!("the process used {used} devices; the figures are those of the fullest"),
        )
    })
}

fn untested_torch(settings: &RunSettings) -> Option<Assumption> {
    let text = settings.torch_assumption.clone()?;
    Some(assumption("untested_torch", text))
}

fn no_labels(settings: &RunSettings) -> Option<Assumption> {
    let text =
        "roles, modules and source lines were not found out, as was asked for with `--no-labels`";
    (!settings.labels).then(|| assumption("no_labels", text.to_owned()))
}

fn context(settings: &RunSettings) -> Assumption {
    let Estimate { low, likely, high } = settings.context_bytes.into();
    assumption(
        "context_estimate",
        format!("the CUDA context is estimated to take {likely} ({low} to {high})"),
    )
}
