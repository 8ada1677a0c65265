//! An explanation as people read it: what happened in three sentences, the card, the causes, what helps and what does
//! not.

use std::fmt::{self, Write};

use oomproof_explain::{
    Agreement, Balance, Candidate, Cause, Explanation, Failure, Numerics, RecordKind, Remedy,
    SavesKind, Suspect,
};
use oomproof_units::Bytes;
use owo_colors::OwoColorize;

use crate::bar::{Glyphs, Part, bar};
use crate::wrap::{Margins, wrap};

/// Width at which sentences are wrapped.
const LINE: usize = 88;
/// Causes that are shown.
const CAUSES: usize = 3;
/// Remedies that are shown.
const REMEDIES: usize = 6;
/// Failures that are listed beside the explained one.
const FAILURES: usize = 5;
/// Processes that the bar's key names.
const PROCESSES: usize = 4;

/// The explanation as text; whoever prints to something that is not a terminal strips the color.
pub(crate) fn render(found: &Explanation, glyphs: Glyphs) -> String {
    let mut text = String::new();
    write(&mut text, found, glyphs).expect("a String takes all that is written to it");
    text
}

/// What a run that did not fit adds to its verdict: the cause and the remedies.
pub(crate) fn render_short(found: &Explanation) -> String {
    let mut text = String::new();
    let written = write_causes(&mut text, &found.causes)
        .and_then(|()| write_remedies(&mut text, &found.remedies))
        .and_then(|()| write_useless(&mut text, found));
    written.expect("a String takes all that is written to it");
    text
}

/// All causes there are.
pub(crate) fn list(causes: &[Cause]) -> String {
    let mut text = String::new();
    for cause in causes {
        let _ = writeln!(text, "{}  {}", cause.id.word().bold(), cause.title);
        let _ = wrapped(&mut text, "  ", cause.meaning);
        let _ = wrapped(&mut text, "  tell it by: ", cause.apart);
        let _ = writeln!(text, "  decide with: {}\n", cause.check);
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn write(out: &mut String, found: &Explanation, glyphs: Glyphs) -> fmt::Result {
    for sentence in &found.story {
        wrapped(out, "", sentence)?;
    }
    if let Some(card) = &found.card {
        write_bar(out, card, glyphs)?;
    }
    if let Some(smi) = &found.nvidia_smi {
        heading(out, "nvidia-smi shows")?;
        for device in &smi.devices {
            let name = device.name.as_deref().unwrap_or("a device");
            writeln!(
                out,
                "  {name}: {} of {} used",
                device.used_bytes, device.total_bytes
            )?;
        }
        for each in &smi.processes {
            writeln!(
                out,
                "  process {} holds {}  {}",
                each.process.pid, each.process.bytes, each.name
            )?;
        }
    }
    for table in &found.memory_summaries {
        let device = table
            .device
            .map_or_else(String::new, |device| format!(" of GPU {device}"));
        heading(out, &format!("memory_summary(){device} says"))?;
        for sentence in table.reading() {
            wrapped(out, "  ", &sentence)?;
        }
    }
    write_causes(out, &found.causes)?;
    if let Some(command) = &found.decide_with {
        heading(out, "what would decide it")?;
        writeln!(out, "  {command}")?;
    }
    if let Some(agreement) = &found.agreement {
        write_agreement(out, agreement)?;
    }
    write_suspects(out, &found.suspects)?;
    write_remedies(out, &found.remedies)?;
    write_useless(out, found)?;
    write_failures(out, found)
}

fn write_bar(out: &mut String, card: &Balance, glyphs: Glyphs) -> fmt::Result {
    let parts = [
        (Part::Live, card.live_bytes, "live tensors"),
        (Part::Cached, card.idle_bytes, "reserved, not allocated"),
        (
            Part::Context,
            card.own_other_bytes.unwrap_or_default(),
            "context, libraries",
        ),
        (Part::Others, card.of_others(), "other processes"),
        (Part::Untold, card.untold_bytes, "not told apart"),
    ];
    let held: Bytes = parts.iter().map(|&(_, size, _)| size).sum();
    let sizes: Vec<(Part, Bytes)> = parts.iter().map(|&(part, size, _)| (part, size)).collect();
    writeln!(out, "\n{}", bar(&sizes, card.total_bytes.max(held), glyphs))?;
    for (part, size, word) in parts.into_iter().filter(|(_, size, _)| *size > Bytes::ZERO) {
        writeln!(
            out,
            " {} {size:>12}  {word}{}",
            part.glyph(glyphs),
            numbers(part, card)
        )?;
    }
    if held > card.total_bytes {
        return writeln!(
            out,
            " the bar is {held} long: {} more than the card has",
            held - card.total_bytes
        );
    }
    match card.free_bytes {
        Some(free) => writeln!(out, " {} {free:>12}  free", Part::Free.glyph(glyphs)),
        None => writeln!(
            out,
            " {} {:>12}  free or not told",
            Part::Free.glyph(glyphs),
            card.total_bytes - held
        ),
    }
}

/// The numbers of the other processes.
fn numbers(part: Part, card: &Balance) -> String {
    if part != Part::Others {
        return String::new();
    }
    let shown: Vec<String> = card
        .others
        .iter()
        .take(PROCESSES)
        .map(|each| format!("{} {}", each.pid, each.bytes))
        .collect();
    let more = card.others.len().saturating_sub(PROCESSES);
    let more = if more > 0 {
        format!(", {more} more")
    } else {
        String::new()
    };
    format!(": {}{more}", shown.join(", "))
}

fn write_causes(out: &mut String, causes: &[Candidate]) -> fmt::Result {
    if causes.is_empty() {
        return Ok(());
    }
    heading(out, "why")?;
    for (index, cause) in causes.iter().take(CAUSES).enumerate() {
        let certain = match (index, cause.sure) {
            (_, true) => "certain",
            (0, false) => "likeliest",
            _ => "possible",
        };
        writeln!(
            out,
            "  {} ({}, {certain})",
            cause.title.bold(),
            cause.id.word()
        )?;
        for evidence in &cause.evidence {
            wrapped(out, "    ", evidence)?;
        }
        if !cause.sure {
            wrapped(out, "    tell it by: ", cause.apart)?;
        }
    }
    Ok(())
}

fn write_agreement(out: &mut String, agreement: &Agreement) -> fmt::Result {
    let record = match agreement.record {
        RecordKind::Snapshot => "snapshot",
        RecordKind::Run => "profile",
    };
    heading(out, &format!("the text against the {record}"))?;
    for each in &agreement.compared {
        let name = each.figure.trim_end_matches("_bytes");
        let agrees = if each.agrees { "agrees" } else { "differs" };
        writeln!(
            out,
            "  {name:<10} {:>12}  {:>12}  {agrees}",
            each.text_bytes.to_string(),
            each.record_bytes.to_string()
        )?;
    }
    if agreement.compared.is_empty() {
        writeln!(out, "  no figure is in both")?;
    }
    Ok(())
}

fn write_suspects(out: &mut String, suspects: &[Suspect]) -> fmt::Result {
    if suspects.is_empty() {
        return Ok(());
    }
    heading(out, "lines of the script to look at")?;
    for suspect in suspects {
        for (at, line) in suspect.code.lines().enumerate() {
            let number = if at == 0 {
                suspect.line.to_string()
            } else {
                String::new()
            };
            writeln!(out, "  {number:>5}  {line}")?;
        }
        wrapped(out, "         ", suspect.why)?;
        for line in suspect.instead.iter().flat_map(|code| code.lines()) {
            writeln!(out, "         > {line}")?;
        }
    }
    Ok(())
}

fn write_remedies(out: &mut String, remedies: &[Remedy]) -> fmt::Result {
    if remedies.is_empty() {
        return Ok(());
    }
    heading(out, "what helps")?;
    for (index, remedy) in remedies.iter().take(REMEDIES).enumerate() {
        let saves = match (remedy.saves_bytes, remedy.saves_kind) {
            (Some(Bytes::ZERO), _) => "saves nothing by itself".to_owned(),
            (Some(bytes), SavesKind::UpTo) => format!("saves up to {bytes}"),
            (Some(bytes), SavesKind::Needed) => format!("{bytes} are needed"),
            (Some(bytes), SavesKind::Exact) if remedy.id == "larger_gpu" => format!("{bytes} more"),
            (Some(bytes), _) => format!("saves {bytes}"),
            (None, _) => "how much is not known".to_owned(),
        };
        let numerics = match remedy.numerics {
            Numerics::None => "same results",
            Numerics::Rounding => "results differ by rounding",
            Numerics::Changes => "results change",
        };
        writeln!(
            out,
            "  {}. {} ({saves}; {numerics})",
            index + 1,
            remedy.title.bold()
        )?;
        wrapped(out, "     ", &remedy.text)?;
        for line in remedy.code.lines() {
            writeln!(out, "       {line}")?;
        }
    }
    let more = remedies.len().saturating_sub(REMEDIES);
    if more > 0 {
        let ids: Vec<&str> = remedies
            .iter()
            .skip(REMEDIES)
            .map(|remedy| remedy.title)
            .collect();
        wrapped(out, "  also: ", &ids.join("; "))?;
    }
    Ok(())
}

fn write_useless(out: &mut String, found: &Explanation) -> fmt::Result {
    if found.useless.is_empty() {
        return Ok(());
    }
    heading(out, "what cannot help here")?;
    for each in &found.useless {
        wrapped(out, "  - ", &format!("{}: {}", each.title, each.why))?;
    }
    Ok(())
}

fn write_failures(out: &mut String, found: &Explanation) -> fmt::Result {
    let others: Vec<&Failure> = found
        .failures
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != found.explained)
        .map(|(_, failure)| failure)
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    heading(out, "other failures in the text")?;
    for failure in others.iter().take(FAILURES) {
        let rank = failure
            .rank
            .map_or_else(String::new, |rank| format!("rank {rank}, "));
        let start: String = failure.message.chars().take(72).collect();
        writeln!(out, "  {rank}line {}: {start}", failure.line)?;
    }
    if others.len() > FAILURES {
        writeln!(out, "  and {} more", others.len() - FAILURES)?;
    }
    Ok(())
}

fn heading(out: &mut String, text: &str) -> fmt::Result {
    writeln!(out, "\n{}", text.bold())
}

/// Words of `text` behind `lead`, the further lines indented as far.
fn wrapped(out: &mut String, lead: &str, text: &str) -> fmt::Result {
    wrap(out, text, Margins { lead, line: LINE })
}
