//! Failures in a text. A log holds many: the same one logged and raised, one for each rank, those that were caught,
//! and the errors that follow from an earlier one. All are found; which one is explained is decided here, too.

use std::ops::Range;

use serde::Serialize;

use crate::anchor_table::{ANCHORS, Means};
use crate::fields;
use crate::figures::Figures;
use crate::format::{Backend, Format};
use crate::lines::{self, Line};
use crate::moment::{self, Moment};
use crate::release::{self, Releases};
use crate::squeezed::Squeezed;
use crate::trace::{self, Frame};

/// Longest message, in squeezed characters: lists of processes are long.
const LONGEST_MESSAGE: usize = 16 << 10;
/// How far the class of an exception stands before its text.
const CLASS: usize = 64;
/// Two texts of one kind this close are one failure: a wrapper and what it wraps.
const ONE_FAILURE: usize = 2000;
/// How far before words in the middle of a message that message may begin.
const HEAD: usize = 600;
/// Most failures that are kept.
const MOST: usize = 1000;
/// Most places that are looked at, which are more, because one failure is mostly written several times.
const MOST_PLACES: usize = 20_000;
/// How far before a failure the log is asked what it was doing.
const TALK: usize = 4000;
/// Longest message that is shown, in characters.
const SHOWN: usize = 1200;
/// Most lines of a message that are shown.
const SHOWN_LINES: usize = 12;

/// Words that end a message.
const ENDS: &[&str] = &[
    "traceback(mostrecentcalllast)",
    "duringhandlingoftheaboveexception",
    "theaboveexceptionwasthedirectcause",
];

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The kind of its text.
    pub format: Format,
    /// Whose memory ran out.
    pub backend: Backend,
    /// Its line in the input, from 1.
    pub line: u32,
    /// The rank that wrote it.
    pub rank: Option<u32>,
    /// The index of the device it names.
    pub device: Option<u32>,
    /// Its text as it stands there, cut when long.
    pub message: String,
    /// Whether the text ends before its figures do.
    pub truncated: bool,
    /// How often the same text stands in the input.
    pub times: u32,
    /// The releases of PyTorch that may have written it.
    pub torch: Releases,
    /// What it says in figures.
    pub figures: Figures,
    /// What the program was doing.
    pub phase: Option<Moment>,
    /// The innermost line of the user's own code.
    pub r#where: Option<Frame>,
    /// The frames of its traceback, outermost first.
    #[serde(skip)]
    pub(crate) frames: Vec<Frame>,
    /// Its squeezed text.
    #[serde(skip)]
    pub(crate) squeezed: String,
}

/// The failures of a text, in its order, and which of them is the one to explain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    pub found: Vec<Failure>,
    pub explained: usize,
}

impl Failures {
    /// Finds all failures in `text`.
    pub(crate) fn in_text(text: &str) -> Self {
        let lines = lines::of(text);
        let squeezed = Squeezed::of(lines.iter().map(|line| line.text.as_str()));
        let named = release::named(squeezed.text());
        let places = places(squeezed.text());
        let mut found: Vec<Failure> = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let end = places
                .get(index + 1)
                .map_or(squeezed.text().len(), |next| next.at);
            let begin = index.checked_sub(1).map_or(0, |before| places[before].at);
            let failure = failure(&lines, &squeezed, *place, begin..end, named);
            match found.iter().position(|each| is_same(each, &failure)) {
                Some(at) => {
                    let earlier = &mut found[at];
                    earlier.times += 1;
                    // The log line came first, and the traceback with the second.
                    if earlier.frames.is_empty() && !failure.frames.is_empty() {
                        earlier.frames = failure.frames;
                        earlier.r#where = failure.r#where;
                        earlier.phase = failure.phase.or(earlier.phase);
                    }
                }
                None if found.len() < MOST => found.push(failure),
                None => {}
            }
        }
        // A text with figures says more than a line of the log before it.
        let explicit = |failure: &Failure| failure.format.is_explicit();
        let explained = found
            .iter()
            .position(|failure| explicit(failure) && failure.format != Format::Cut)
            .or_else(|| found.iter().position(explicit))
            .unwrap_or(0);
        Self { found, explained }
    }
}

fn is_same(one: &Failure, other: &Failure) -> bool {
    one.format == other.format
        && one.figures == other.figures
        && one.device == other.device
        && one.rank == other.rank
}

/// Where a failure begins, and what its words mean.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    word: &'static str,
    means: Means,
}

fn places(text: &str) -> Vec<Place> {
    let mut all: Vec<(usize, usize)> = ANCHORS
        .iter()
        .enumerate()
        .flat_map(|(row, (word, _))| text.match_indices(word).map(move |(at, _)| (at, row)))
        .collect();
    all.sort_unstable();
    let mut kept: Vec<Place> = Vec::new();
    for (at, row) in all.into_iter().take(MOST_PLACES) {
        let (word, means) = ANCHORS[row];
        let place = Place { at, word, means };
        if !stands_for_a_failure(text, &place) {
            continue;
        }
        match kept.last_mut() {
            Some(earlier) if belongs_to(text, &place, earlier) => {}
            // The thread that pins memory only passes on what went wrong.
            Some(earlier) if is_wrapper(earlier) && at - earlier.at < ONE_FAILURE => {
                if !matches!(means, Means::Text(_, Format::BareCudaError)) {
                    *earlier = place;
                }
            }
            _ => kept.push(place),
        }
    }
    if kept.is_empty() {
        kept.extend(bare_words(text));
    }
    kept
}

fn is_wrapper(place: &Place) -> bool {
    matches!(place.means, Means::Text(_, Format::PinThread))
}

/// Whether the words are those of a failure here.
fn stands_for_a_failure(text: &str, place: &Place) -> bool {
    if place.word != "allocationondevice" {
        return true;
    }
    let rest = text[place.at + place.word.len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with("wouldexceed") || place.at == 0 || text[..place.at].ends_with("error:")
}

/// Whether the words are a later part of the failure before them.
fn belongs_to(text: &str, place: &Place, earlier: &Place) -> bool {
    let distance = place.at - earlier.at;
    if distance < earlier.word.len() {
        return true;
    }
    if distance >= LONGEST_MESSAGE {
        return false;
    }
    let ended = ENDS
        .iter()
        .any(|end| text[earlier.at..place.at].contains(end));
    if ended {
        return false;
    }
    match place.word {
        "triedtoallocate" => distance < HEAD,
        "reservedintotalbypytorch" | "isreservedbypytorchbutunallocated" => true,
        // "preemptively rejected" and the like name the device again.
        "allocationondevice" => distance < CLASS,
        _ => match (place.means, earlier.means) {
            (Means::Text(_, one), Means::Text(_, other)) => one == other && distance < ONE_FAILURE,
            (Means::Allocator(_), Means::Text(_, Format::CpuAllocator)) => distance < CLASS,
            _ => false,
        },
    }
}

/// A text that says no more than that memory ran out.
fn bare_words(text: &str) -> Option<Place> {
    let words = ["outofmemoryerror", "outofmemory", "cudaoom", "gpuoom"];
    words.into_iter().find_map(|word| {
        text.find(word).map(|at| Place {
            at,
            word,
            means: Means::Allocator(Backend::Cuda),
        })
    })
}

fn failure(
    lines: &[Line],
    squeezed: &Squeezed,
    place: Place,
    // From the failure before it to the one after it.
    room: Range<usize>,
    named: Option<release::Release>,
) -> Failure {
    let text = squeezed.text();
    let in_the_middle = matches!(
        place.word,
        "triedtoallocate"
            | "reservedintotalbypytorch"
            | "isreservedbypytorchbutunallocated"
            | "cannotallocatememoryblockwithsizelargerthan"
    );
    let head = if in_the_middle { HEAD } else { 0 };
    let begin = place.at.saturating_sub(head);
    let end = room.end.min(place.at + LONGEST_MESSAGE);
    let end = ENDS
        .iter()
        .filter_map(|word| text[place.at..end].find(word))
        .min()
        .map_or(end, |at| place.at + at);
    let message = &text[begin..end];
    let with_class = &text[place.at.saturating_sub(CLASS).min(begin)..end];
    let (backend, format) = match place.means {
        Means::Text(backend, Format::AsyncStub) if message.contains("wouldexceed") => {
            (backend, Format::AsyncMultiline)
        }
        Means::Text(backend, format) => (backend, format),
        Means::Allocator(backend) => (backend, of_allocator(backend, message)),
    };
    let figures = match format {
        Format::TritonResources => fields::on_chip(message),
        Format::OtherCudaError => Figures::default(),
        Format::CpuAllocator | Format::Nccl | Format::HostError => Figures {
            tried_bytes: fields::plain_tried(message),
            ..Figures::default()
        },
        _ => fields::figures(message),
    };
    let at_line = squeezed.line_at(place.at);
    let from_line = if room.start == 0 {
        0
    } else {
        squeezed.line_at(room.start)
    };
    let frames = trace::above(lines, from_line..at_line);
    let talk = &text[place.at.saturating_sub(TALK).max(room.start)..place.at];
    let phase = moment::of_frames(&frames).or_else(|| moment::of_talk(talk));
    let last = squeezed.line_at(end.saturating_sub(1).max(place.at));
    Failure {
        format,
        backend,
        line: at_line as u32 + 1,
        rank: lines.get(at_line).and_then(|line| line.rank),
        device: fields::device(message),
        message: shown(lines, at_line, last),
        truncated: is_truncated(format, &figures),
        times: 1,
        torch: release::of_text(with_class, named),
        figures,
        phase,
        r#where: frames
            .iter()
            .rev()
            .find(|frame| !frame.is_of_library())
            .cloned(),
        frames,
        squeezed: with_class.to_owned(),
    }
}

/// Which generation of the allocator wrote this.
fn of_allocator(backend: Backend, text: &str) -> Format {
    let has = |word: &str| text.contains(word);
    if has("morethan1ebmemory") {
        return Format::AbsurdSize;
    }
    if has("preemptivelyreject") {
        return Format::V2Preempt;
    }
    if backend == Backend::Npu {
        return Format::NpuV1;
    }
    let is_second = has("totalcapacityof") || has("totalcapactyof") || has("isallocatedbypytorch");
    if backend == Backend::Xpu {
        return if is_second || has("pleaseuse") {
            Format::XpuV2
        } else {
            Format::XpuV1
        };
    }
    if has("allocatedinprivatepools") {
        return Format::V2Pools;
    }
    if has("totalcapactyof") {
        return Format::V2Capacty;
    }
    if is_second {
        return Format::V2Capacity;
    }
    if has("cached") && has("alreadyallocated") {
        return Format::V1Cached;
    }
    if has("ifreservedmemoryis>>") {
        return Format::V1ReservedHint;
    }
    if has("totalcapacity") || has("alreadyallocated") {
        return Format::V1Reserved;
    }
    Format::Cut
}

/// Whether figures are missing that this kind of text has.
fn is_truncated(format: Format, figures: &Figures) -> bool {
    let reserved = figures.reserved_bytes.is_none();
    match format {
        Format::Cut | Format::AsyncStub => true,
        Format::V1Cached
        | Format::V1Reserved
        | Format::V1ReservedHint
        | Format::V2Capacty
        | Format::V2Capacity
        | Format::V2Pools
        | Format::XpuV1
        | Format::NpuV1 => reserved,
        Format::XpuV2 => reserved && figures.tried_bytes.is_some(),
        Format::AsyncMultiline => figures.total_bytes.is_none(),
        Format::Mps => figures.allocated_bytes.is_none(),
        _ => false,
    }
}

fn shown(lines: &[Line], first: usize, last: usize) -> String {
    let last = last
        .min(first + SHOWN_LINES - 1)
        .min(lines.len().saturating_sub(1));
    let texts: Vec<&str> = lines
        .get(first..=last)
        .unwrap_or_default()
        .iter()
        .map(|line| line.text.trim())
        .take_while(|text| !text.is_empty())
        .collect();
    let mut message: String = texts.join(" ");
    if let Some((at, _)) = message.char_indices().nth(SHOWN) {
        message.truncate(at);
        message.push_str(" ...");
    }
    message
}
