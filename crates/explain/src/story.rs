//! What happened, in three sentences a tired person understands: what failed, whose the memory was, and why it did
//! not suffice. Where a record of another moment was given with a text, a fourth says so.

use oomproof_units::Bytes;

use crate::agreement::Agreement;
use crate::balance::Balance;
use crate::case::Case;
use crate::format::{Backend, Format};
use crate::judge::Candidate;
use crate::smi::Smi;

/// Requests up to this size make a segment of 2 MiB, and up to ten times this of 20 MiB.
const SMALL: Bytes = Bytes::from_mib(2);
const MIDDLE: Bytes = Bytes::from_mib(20);

pub(crate) fn story(case: &Case<'_>, causes: &[Candidate]) -> Vec<String> {
    let apart = case.agreement.and_then(Agreement::sentence);
    [Some(what_failed(case)), whose(case), why(causes), apart]
        .into_iter()
        .flatten()
        .collect()
}

/// What there is to say when nothing failed.
pub(crate) fn without_failure(smi: Option<&Smi>) -> Vec<String> {
    let mut story = vec!["The text has no failure that is known.".to_owned()];
    let Some(smi) = smi else { return story };
    for (index, device) in smi.devices.iter().enumerate() {
        let name = device.name.as_deref().unwrap_or("the device");
        let of_device = smi
            .processes
            .iter()
            .filter(|each| each.device.is_none_or(|device| device as usize == index));
        let largest = of_device.max_by_key(|each| each.process.bytes);
        let who = largest.map_or_else(
            || ", and no process is shown".to_owned(),
            |each| {
                format!(
                    ", the largest process is {} ({}): {}",
                    each.process.pid, each.name, each.process.bytes
                )
            },
        );
        story.push(format!(
            "On GPU {index} ({name}) {} of {} are used{who}.",
            device.used_bytes, device.total_bytes
        ));
    }
    story
}

fn what_failed(case: &Case<'_>) -> String {
    let moment = case
        .phase()
        .map_or_else(String::new, |phase| format!(" {}", phase.clause()));
    let place = case
        .failure
        .r#where
        .as_ref()
        .map_or_else(String::new, |frame| format!(", at {}", frame.place()));
    let rank = case
        .failure
        .rank
        .map_or_else(String::new, |rank| format!("rank {rank}: "));
    let what = match case.format() {
        Format::TritonResources => {
            "a kernel asked for more on-chip memory than the chip has".to_owned()
        }
        Format::OtherCudaError => "a kernel failed".to_owned(),
        Format::DataloaderShm => "a worker of the data loader ran out of shared memory".to_owned(),
        Format::DataloaderKilled | Format::ProcessKilled => {
            "the system killed a process".to_owned()
        }
        _ if case.backend() == Backend::Host => match case.tried() {
            Some(tried) => format!("main memory was refused {tried}"),
            None => "main memory ran out".to_owned(),
        },
        _ => match case.tried() {
            Some(tried) => format!("{} had no room for {}", device(case), request(case, tried)),
            None => format!(
                "{} ran out of memory, {}",
                device(case),
                left_of_the_text(case)
            ),
        },
    };
    let on = if matches!(
        case.format(),
        Format::Snapshot | Format::RunGaveUp | Format::RunRefused
    ) {
        format!(" ({})", case.failure.message)
    } else {
        String::new()
    };
    let sentence = format!("{rank}{what}{moment}{place}{on}.");
    capitalized(&sentence)
}

/// What can be read of a text that does not say what was asked for.
fn left_of_the_text(case: &Case<'_>) -> String {
    let figures = &case.failure.figures;
    match (
        figures.free_bytes,
        figures.total_bytes,
        figures.unallocated_bytes,
    ) {
        (Some(free), Some(total), _) => {
            format!("with {free} of {total} free; what was asked for cannot be read in the text")
        }
        (_, _, Some(idle)) => {
            format!("with {idle} in its idle cache; the other figures are not in the text")
        }
        _ => "in a text without figures".to_owned(),
    }
}

fn device(case: &Case<'_>) -> String {
    match (case.backend(), case.failure.device) {
        (Backend::Npu, Some(index)) => format!("NPU {index}"),
        (_, Some(index)) => format!("GPU {index}"),
        _ => "the device".to_owned(),
    }
}

/// PyTorch's allocator names the segment it wanted, not the tensor.
fn request(case: &Case<'_>, tried: Bytes) -> String {
    let names_segment = case.format().is_of_allocator() && case.format() != Format::V1Cached;
    match tried {
        SMALL if names_segment => {
            "a tensor of at most 1 MiB, for which PyTorch wanted a segment of 2 MiB".to_owned()
        }
        MIDDLE if names_segment => {
            "a tensor of 1 to 10 MiB, for which PyTorch wanted a segment of 20 MiB".to_owned()
        }
        _ => format!("a request of {tried}"),
    }
}

fn whose(case: &Case<'_>) -> Option<String> {
    let Balance {
        total_bytes,
        live_bytes,
        idle_bytes,
        own_other_bytes,
        untold_bytes,
        free_bytes,
        ..
    } = case.balance.as_ref()?;
    let mut parts = vec![format!("{live_bytes} were live tensors of this process")];
    let mut part = |bytes: Bytes, what: &str| {
        if bytes > Bytes::ZERO {
            parts.push(format!("{bytes} {what}"));
        }
    };
    part(*idle_bytes, "its idle cache");
    part(
        own_other_bytes.unwrap_or_default(),
        "its context and libraries",
    );
    part(case.balance.as_ref()?.of_others(), "other processes");
    part(
        *untold_bytes,
        "not told apart (contexts, libraries, other processes)",
    );
    let last = match free_bytes {
        Some(free) => format!("{free} were free"),
        None => "what was free the text does not say".to_owned(),
    };
    let whole = match (case.backend(), case.format()) {
        (Backend::Mps, _) => "Of the limit of",
        // Context and other processes are in no snapshot.
        (_, Format::Snapshot) => "Of the card's at least",
        _ => "Of the card's",
    };
    Some(format!(
        "{whole} {total_bytes}, {}, and {last}.",
        parts.join(", ")
    ))
}

fn why(causes: &[Candidate]) -> Option<String> {
    let first = causes.first()?;
    let evidence = first.evidence.first()?;
    if first.sure {
        return Some(format!(
            "The cause is certain: {} ({evidence}).",
            first.title
        ));
    }
    let second = causes
        .get(1)
        .filter(|second| second.score + 30 >= first.score);
    let other = second.map_or_else(String::new, |second| format!(", or else {}", second.title));
    Some(format!(
        "The likeliest cause: {} ({evidence}){other}.",
        first.title
    ))
}

fn capitalized(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}
