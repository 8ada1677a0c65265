//! The last out-of-memory error, in PyTorch's words and in figures. The message names the size of the segment PyTorch
//! wanted from the driver, rounded to two decimals; what the failing line asked for stands in the record.

use oomproof_profile::{Phase, RunSettings};
use oomproof_units::Bytes;

use crate::circumstances::Circumstances;
use crate::holding::{Holding, Moments};
use crate::legend::SourceLine;
use crate::notes::Note;
use crate::processes::Holder;
use crate::roles::Roles;
use crate::survival::survived;
use crate::timeline::{GaveUp, Timeline};
use crate::unanswered::unanswered;
use crate::verdict::{AskedBy, Oom};

/// What drivers round segments to.
const GRANULE: Bytes = Bytes::from_mib(2);

/// The last time memory ran out, from the allocator's record, from the error that reached Python, or from both.
pub(crate) fn last_oom(
    timeline: &Timeline,
    roles: &Roles<'_>,
    circumstances: &Circumstances,
    settings: &RunSettings,
) -> Option<Oom> {
    let gave_up = timeline.gave_up.last();
    let mut notes = timeline.notes.iter().filter(|note| note.kind == "oom");
    let note = match gave_up {
        Some(gave_up) => notes.find(|note| note.at > gave_up.at),
        None => notes.next_back(),
    };
    let at = gave_up.map(|gave_up| gave_up.at).into_iter();
    let at = at.chain(note.map(|note| note.at)).max();
    if let Some(oom) = unanswered(timeline, roles, circumstances, settings) {
        return Some(oom);
    }
    let at = at?;
    let message = note.and_then(|note| note.text("message"));
    let tried = message.and_then(tried);
    let record = gave_up.map(|gave_up| gave_up.record);
    Some(Oom {
        asked_by: AskedBy::Pytorch,
        message: message.map(str::to_owned),
        phase: record
            .map(|record| record.phase)
            .or_else(|| note.and_then(phase))
            .unwrap_or(Phase::Load),
        r#where: note
            .and_then(place_in_note)
            .or_else(|| place(timeline, record?.site)),
        tried_bytes: tried,
        requested_bytes: record.map(|record| Bytes::new(record.requested)),
        free_bytes: record.map(|record| Bytes::new(record.free)),
        reserved_bytes: record.map(|record| Bytes::new(record.reserved)),
        held_by: gave_up
            .map(|gave_up| {
                let moment = Moments {
                    device: gave_up.record.device,
                    at: gave_up.at,
                    allocated: gave_up.record.allocated,
                };
                Holding::at(timeline, roles, moment).by_role()
            })
            .unwrap_or_default(),
        held_by_others: gave_up
            .map(|gave_up| holders(timeline, gave_up))
            .unwrap_or_default(),
        would_have_fitted_bytes: gave_up.and_then(|gave_up| sufficient(gave_up, tried, settings)),
        survived: survived(timeline, at, circumstances),
        step: record
            .map(|record| record.step)
            .or_else(|| note?.number("step").and_then(|step| step.try_into().ok()))
            .unwrap_or(0),
        module: record
            .and_then(|record| timeline.legend.module(record.module))
            .map(str::to_owned),
    })
}

/// What other processes of the script held, which the device says just before the record; other threads may have said
/// something in between.
fn holders(timeline: &Timeline, gave_up: &GaveUp) -> Vec<Holder> {
    const BETWEEN: usize = 8;
    let mut notes = timeline.notes.iter().filter(|note| note.kind == "holders");
    let note = notes.rfind(|note| note.at < gave_up.at && note.at + BETWEEN >= gave_up.at);
    let held = note.and_then(|note| note.fields.get("processes")?.as_array());
    let number =
        |held: &serde_json::Value, field| held.get(field).and_then(serde_json::Value::as_u64);
    held.into_iter()
        .flatten()
        .filter_map(|held| {
            Some(Holder {
                pid: number(held, "pid")?,
                bytes: Bytes::new(number(held, "bytes")?),
            })
        })
        .collect()
}

/// The size in `Tried to allocate 1.54 GiB`.
fn tried(message: &str) -> Option<Bytes> {
    let (_, rest) = message.split_once("Tried to allocate ")?;
    let mut words = rest.split_whitespace();
    let number = words.next()?;
    let unit = words.next()?.trim_end_matches(['.', ',']);
    format!("{number} {unit}").parse().ok()
}

/// The card on which the segment would have fitted: what is in use, and the segment. `None` when there was room for
/// that: then a limit that the script set itself was reached, and which share of which card it is says no figure.
fn sufficient(gave_up: &GaveUp, tried: Option<Bytes>, settings: &RunSettings) -> Option<Bytes> {
    let asked = gave_up.refused.map(Bytes::new);
    let segment = match (asked, tried) {
        (Some(asked), Some(tried)) if printed_alike(asked, tried) => asked,
        (Some(asked), None) => asked.max(Bytes::new(gave_up.record.requested)),
        (_, Some(tried)) => tried.round_up_to(GRANULE),
        (None, None) => Bytes::new(gave_up.record.requested).round_up_to(GRANULE),
    };
    let total = Bytes::new(gave_up.record.total);
    let in_use = total - Bytes::new(gave_up.record.free);
    // On a card smaller than the context no more than the card counts as in use.
    let needed = Bytes::new(settings.context_bytes.likely)
        + Bytes::new(settings.reserved_by_others_bytes)
        + Bytes::new(gave_up.record.reserved);
    (in_use + segment > total).then(|| in_use.max(needed) + segment)
}

fn printed_alike(exact: Bytes, printed: Bytes) -> bool {
    exact.to_string().parse() == Ok(printed)
}

fn phase(note: &Note) -> Option<Phase> {
    let word = note.text("phase")?;
    Phase::ALL
        .iter()
        .copied()
        .find(|phase| phase.word() == word)
}

fn place_in_note(note: &Note) -> Option<String> {
    let place = crate::notes::place(&note.fields)?;
    Some(match note.text("function") {
        Some(function) => format!("{place} {function}"),
        None => place,
    })
}

fn place(timeline: &Timeline, site: u32) -> Option<String> {
    let SourceLine {
        file,
        line,
        function,
    } = timeline.legend.source_line(site)?;
    Some(format!("{file}:{line} {function}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: Option<u64>) {
        assert_eq!(tried(message), expected.map(Bytes::new), "{message}");
    }

    #[test]
    fn reads_the_size_that_was_tried() {
        check(
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.78 GiB",
            Some(20 << 20),
        );
        check(
            "CUDA out of memory. Tried to allocate 1.54 GiB (GPU 0; 8.00 GiB total capacity)",
            Some(1_653_562_409),
        );
        check("Tried to allocate 512 bytes.", Some(512));
        check(
            "CUDA out of memory. Tried to allocate more than 1EB memory.",
            None,
        );
        check("Tried to allocate", None);
        check("", None);
    }
}
