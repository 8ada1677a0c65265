//! Figures of one text, each found by the words beside it. Generations differ in the order and number of clauses,
//! texts are cut and wrapped, so nothing is read by a whole template.

use oomproof_units::Bytes;

use crate::figures::{Figures, ProcessFigure};
use crate::size::{Size, at_end, at_start, plain_at_start};

/// Most processes that are kept.
const MOST_PROCESSES: usize = 256;

/// Everything that this squeezed text, which begins with its failure, says in figures.
pub(crate) fn figures(text: &str) -> Figures {
    let known = |size: Option<Size>| size.and_then(Size::known);
    let mut figures = Figures {
        tried_bytes: known(tried(text)),
        total_bytes: known(before(text, &["totalcapacity"]).or_else(|| {
            let labels = [
                "totalcapacityof",
                "totalcapactyof",
                "devicelimit:",
                "),total:",
            ];
            after(text, &labels)
        }))
        .or_else(|| known(plain_after(text, ",total:"))),
        free_bytes: known(
            after_free_according_to(text)
                .or_else(|| before(text, &["isfree", "free;", "free,", "free)", "free"])),
        )
        .or_else(|| known(plain_after(text, "(free:"))),
        allocated_bytes: known(
            before(text, &["alreadyallocated", "isallocatedbypytorch"])
                .or_else(|| after(text, &["currentlyallocated:", "mpsallocated:"])),
        ),
        reserved_bytes: known(before(text, &["reservedintotalbypytorch"])),
        unallocated_bytes: known(before(
            text,
            &["isreservedbypytorchbutunallocated", "cached"],
        )),
        private_pools_bytes: known(before(text, &["allocatedinprivatepools"])),
        active_bytes: known(before(text, &["currentactive"])),
        allowed_bytes: known(
            before(text, &["allowed"])
                .or_else(|| after(text, &["maxallowed:", "memoryfraction):"])),
        ),
        this_process_bytes: known(after(text, &["thisprocesshas"])),
        processes: processes(text),
        other_allocations_bytes: known(after(text, &["otherallocations:"])),
        required_on_chip_bytes: None,
        on_chip_limit_bytes: None,
    };
    figures.complete();
    figures
}

/// What a kernel wanted of the chip's own memory, and how much there is.
pub(crate) fn on_chip(text: &str) -> Figures {
    let number = |label| plain_after(text, label).and_then(Size::known);
    Figures {
        required_on_chip_bytes: number("required:"),
        on_chip_limit_bytes: number("hardwarelimit:"),
        ..Figures::default()
    }
}

fn tried(text: &str) -> Option<Size> {
    let labels = [
        "triedtoallocate",
        "requestedsize:",
        "requested:",
        "invalidbuffersize:",
        "unabletoallocate",
    ];
    let plain = [
        "tryingtoallocate",
        "cudacallocasync",
        "cudacalloc",
        "posix_memalign",
    ];
    after(text, &labels)
        .or_else(|| plain.iter().find_map(|label| plain_after(text, label)))
        .or_else(|| plain_after(text, "requestedsize:"))
}

/// `Free (according to CUDA): 2.00 GiB`, whatever it is according to.
fn after_free_according_to(text: &str) -> Option<Size> {
    let at = text.find("free(accordingto")?;
    let rest = &text[at..];
    let end = rest.find("):")?;
    at_start(without_marks(&rest[end + 2..])).map(|(size, _)| size)
}

/// The first size that stands directly before one of these words, the earlier words first.
fn before(text: &str, words: &[&str]) -> Option<Size> {
    words.iter().find_map(|word| {
        let mut places = text.match_indices(word);
        places.find_map(|(at, _)| at_end(&text[..at]))
    })
}

/// The first size that stands directly behind one of these words, the earlier words first.
fn after(text: &str, words: &[&str]) -> Option<Size> {
    words.iter().find_map(|word| {
        let mut places = text.match_indices(word);
        places.find_map(|(at, _)| {
            at_start(without_marks(&text[at + word.len()..])).map(|(size, _)| size)
        })
    })
}

fn plain_after(text: &str, word: &str) -> Option<Size> {
    let mut places = text.match_indices(word);
    places.find_map(|(at, _)| {
        let rest = without_marks(&text[at + word.len()..]);
        at_start(rest)
            .or_else(|| plain_at_start(rest))
            .map(|(size, _)| size)
    })
}

/// What is left after a colon of an empty label or the border of a table.
fn without_marks(text: &str) -> &str {
    text.trim_start_matches([':', '|', '='])
}

fn processes(text: &str) -> Vec<ProcessFigure> {
    let mut found = Vec::new();
    for (at, word) in text.match_indices("process") {
        let rest = &text[at + word.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(pid) = rest[..digits].parse() else {
            continue;
        };
        let Some(amount) = rest[digits..].strip_prefix("has") else {
            continue;
        };
        if let Some((Size::Known(bytes), _)) = at_start(amount) {
            found.push(ProcessFigure { pid, bytes });
        }
        if found.len() == MOST_PROCESSES {
            break;
        }
    }
    found
}

/// The index of the device that the text names.
pub(crate) fn device(text: &str) -> Option<u32> {
    let labels = [
        "(gpu", ".gpu", "(npu", ".npu", "(mlu", "ondevice", "(xpu", ".xpu", "(musa",
    ];
    let place = |label: &&str| text.find(label).map(|at| at + label.len());
    let number = |at: usize| {
        let rest = &text[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u32>().ok()
    };
    labels.iter().filter_map(place).find_map(number)
}

/// The size a text says was tried, as a plain number of bytes; for texts that print none else.
pub(crate) fn plain_tried(text: &str) -> Option<Bytes> {
    tried(text).and_then(Size::known)
}
