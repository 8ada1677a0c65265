//! The verdict as people read it: one sentence, a picture of the card, then the figures.
//!
//! What PyTorch decides is called exact and what a closed library decides an estimate, on every line that has one.

use std::fmt::{self, Write};

use oomproof_analysis::{Answer, AskedBy, Assumption, Estimate, Oom, Reason, ReasonKind, Verdict};
use oomproof_profile::{Phase, Role};
use oomproof_units::Bytes;
use owo_colors::{AnsiColors, OwoColorize};

use crate::bar::{Glyphs, Part, bar};
use crate::wrap::{Margins, wrap};

mod ranks;

/// Most lines in a list of modules, source lines, assumptions or calls.
const LONGEST_LIST: usize = 8;
/// Width of the names of figures, which have a remark behind them.
const NAMES: usize = 24;
/// Width of the names in lists, which are paths.
const LISTED: usize = 42;
/// Width of the names of phases, which have two figures behind them.
const PHASES: usize = LISTED - 12;
/// Width at which sentences are wrapped.
const LINE: usize = 72;

/// Kinds of assumptions on which the figure does not hang: they tell how it was found or shown.
const HARMLESS: &[&str] = &[
    "context_estimate",
    "unknown_number",
    "unknown_data",
    "assumed_health",
    "given_value",
    "plan_reads",
    "writes_redirected",
    "skipped_init",
    "compile",
    "one_device_shown",
    "other_processes",
    "profiler_kernels",
    "rest_not_run",
    "loops_cut",
    "largest_batch_run",
    "epochs_skipped",
    "allocation_not_recorded",
    "release_not_recorded",
    "no_labels",
    "not_run",
    "weights_not_local",
];

/// The verdict as text; whoever prints to something that is not a terminal strips the color.
pub(crate) fn render(verdict: &Verdict, glyphs: Glyphs) -> String {
    let mut text = String::new();
    write(&mut text, verdict, glyphs).expect("a String takes all that is written to it");
    text
}

fn write(out: &mut String, verdict: &Verdict, glyphs: Glyphs) -> fmt::Result {
    writeln!(out, "{}", first_line(verdict))?;
    // The section on running out of memory says it better.
    let told = |reason: &&Reason| reason.kind != ReasonKind::OutOfMemory;
    for reason in verdict.reasons.iter().filter(told) {
        write_wrapped(out, "", &reason.text)?;
    }
    if let Some(oom) = &verdict.oom {
        write_oom(out, verdict, oom, glyphs)?;
    }
    if verdict.peak.reserved_bytes != Bytes::ZERO {
        if verdict.oom.as_ref().is_none_or(|oom| oom.survived) {
            write_bar(
                out,
                verdict,
                &verdict.peak.roles.iter().map(pair).collect::<Vec<_>>(),
                glyphs,
            )?;
        }
        write_figures(out, verdict)?;
        write_shares(out, verdict, glyphs)?;
        write_phases(out, verdict)?;
    }
    ranks::write(out, verdict)?;
    write_caveats(out, verdict)?;
    writeln!(out, "\nprofile  {}", verdict.profile)
}

fn pair((&role, &size): (&Role, &Bytes)) -> (Role, Bytes) {
    (role, size)
}

/// Whether the answer could be another if this did not hold.
fn matters(assumption: &Assumption, answer: Answer) -> bool {
    // Something fits only when the upper end of every range does.
    let bounded = answer == Answer::Fits && assumption.kind == "library_scratch";
    !bounded && !HARMLESS.contains(&assumption.kind.as_str())
}

/// The sentence that answers the question.
pub(crate) fn first_line(verdict: &Verdict) -> String {
    // What came after an early stop may need more, and often does: evaluation and saving are where late errors come from.
    let stopped_early = verdict
        .assumptions
        .iter()
        .any(|assumption| assumption.kind == "rest_not_run");
    let is_training = verdict.not_reached.contains(&Phase::Evaluation);
    let (fits, tight) = match (stopped_early, is_training) {
        (false, _) => ("", ""),
        (true, true) => ("training ", "training is "),
        (true, false) => ("so far it ", "so far it is "),
    };
    let word = match verdict.verdict {
        Answer::Fits => format!("{fits}{}", "fits".color(AnsiColors::Green).bold()),
        Answer::Tight => format!("{tight}{}", "tight".color(AnsiColors::Yellow).bold()),
        Answer::DoesNotFit => "does not fit".color(AnsiColors::Red).bold().to_string(),
        Answer::Unknown => "unknown".color(AnsiColors::Yellow).bold().to_string(),
    };
    let decisive = verdict
        .assumptions
        .iter()
        .filter(|each| matters(each, verdict.verdict));
    let condition = match decisive.count() {
        _ if verdict.verdict == Answer::Unknown => String::new(),
        0 => String::new(),
        1 => ", if the assumption below holds".to_owned(),
        count => format!(", if the {count} assumptions below hold"),
    };
    let card = format!("{} on {}", verdict.device.total_bytes, verdict.device.name);
    let peak = verdict.peak.allocated_bytes;
    let process = with_context(&verdict.peak.process_bytes);
    let fatal = verdict.oom.as_ref().filter(|oom| !oom.survived);
    let text = match (verdict.verdict, fatal) {
        (Answer::DoesNotFit, Some(oom)) => {
            let held = oom.held_by.values().copied().sum::<Bytes>();
            format!(
                "out of memory in {}, with {held} allocated of {card}",
                moment(oom.phase, oom.step)
            )
        }
        (Answer::DoesNotFit, None) => {
            format!("{process} is above the {card}; peak {peak} allocated")
        }
        (Answer::Unknown, _) if verdict.peak.reserved_bytes == Bytes::ZERO => {
            format!("no memory of {} was used", verdict.device.name)
        }
        (Answer::Unknown, _) => format!("at least {peak} of {card} (allocated), {process}"),
        (Answer::Fits | Answer::Tight, _) => {
            format!("peak {peak} of {card} (allocated), {process}")
        }
    };
    let growth = match (verdict.verdict, verdict.growth_bytes_per_step) {
        (Answer::Fits | Answer::Tight, growth) if growth > Bytes::ZERO => {
            format!(", and grows by {growth} a step")
        }
        _ => String::new(),
    };
    format!("{word}{condition}: {}{text}{growth}", ranks::whose(verdict))
}

fn with_context(process: &Estimate) -> String {
    let Estimate { low, likely, high } = process;
    if low == high {
        return format!("about {likely} with context");
    }
    format!("about {likely} with context ({low} to {high})")
}

fn moment(phase: Phase, step: u32) -> String {
    match step {
        0 => format!("{phase}, before the first step"),
        _ => format!("step {step}, {phase}"),
    }
}

fn write_oom(out: &mut String, verdict: &Verdict, oom: &Oom, glyphs: Glyphs) -> fmt::Result {
    heading(
        out,
        if oom.survived {
            "out of memory, which the script survived"
        } else {
            "out of memory"
        },
    )?;
    match &oom.message {
        Some(message) => {
            for line in message.lines() {
                write_wrapped(out, "  | ", line)?;
            }
        }
        None => write_wrapped(
            out,
            "  ",
            match oom.asked_by {
                AskedBy::Pytorch => {
                    "the error did not reach Python, so PyTorch's message is not known"
                }
                AskedBy::Library => {
                    "the driver refused a request that was not PyTorch's allocator's"
                }
            },
        )?,
    }
    row(out, "moment", &moment(oom.phase, oom.step), "")?;
    if let Some(place) = &oom.r#where {
        row(out, "line", &shown_path(place), "")?;
    }
    if let Some(module) = &oom.module {
        row(out, "module", &module_name(module), "")?;
    }
    if let Some(requested) = oom.requested_bytes {
        let of_segment = match oom.tried_bytes {
            Some(tried) if tried != requested => {
                format!("the message names the segment for it: {tried}")
            }
            _ => String::new(),
        };
        let asked = match oom.asked_by {
            AskedBy::Pytorch => "the line asked for",
            AskedBy::Library => "asked for",
        };
        size_row(out, asked, requested, &of_segment)?;
    }
    if let Some(free) = oom.free_bytes {
        size_row(out, "free on the card", free, "")?;
    }
    for holder in &oom.held_by_others {
        size_row(
            out,
            &format!("held by process {}", holder.pid),
            holder.bytes,
            "of the script, with its context",
        )?;
    }
    if let Some(enough) = oom.would_have_fitted_bytes {
        size_row(
            out,
            "would have sufficed",
            enough,
            "a card of this size; later lines may need more",
        )?;
    }
    if oom.survived {
        return Ok(());
    }
    let held: Vec<(Role, Bytes)> = oom.held_by.iter().map(pair).collect();
    write_bar(out, verdict, &held, glyphs)?;
    if held.iter().any(|(role, _)| *role != Role::Unknown) {
        heading(out, "held at that moment, by role")?;
        write_roles(out, held, glyphs)?;
    }
    Ok(())
}

fn write_bar(
    out: &mut String,
    verdict: &Verdict,
    roles: &[(Role, Bytes)],
    glyphs: Glyphs,
) -> fmt::Result {
    let allocated: Bytes = roles.iter().map(|&(_, size)| size).sum();
    let outside = verdict.context_bytes.likely + verdict.library_bytes.likely;
    let mut parts: Vec<(Part, Bytes)> = roles
        .iter()
        .filter(|(role, _)| *role != Role::Unknown)
        .chain(roles.iter().filter(|(role, _)| *role == Role::Unknown))
        .map(|&(role, size)| (Part::Role(role), size))
        .collect();
    // When memory ran out, less may have been reserved than at the peak; what was free says how much.
    let free = verdict
        .oom
        .as_ref()
        .filter(|oom| !oom.survived)
        .and_then(|oom| oom.free_bytes);
    let of_script: Bytes = match (free, &verdict.oom) {
        (Some(_), Some(oom)) => oom.held_by_others.iter().map(|holder| holder.bytes).sum(),
        _ => verdict.beside_bytes.likely,
    };
    let others = verdict.device.reserved_by_others_bytes + of_script;
    let reserved = match free {
        Some(free) => verdict.device.total_bytes - free - outside - others,
        None => verdict.peak.reserved_bytes,
    };
    parts.push((Part::Cached, reserved - allocated));
    parts.push((Part::Context, outside));
    parts.push((Part::Others, others));
    let held: Bytes = parts.iter().map(|&(_, size)| size).sum();
    let total = verdict.device.total_bytes;
    writeln!(out, "\n{}", bar(&parts, total.max(held), glyphs))?;
    let key = |part: Part, word: &str| format!("{} {word}", part.glyph(glyphs));
    let mut keys = vec![
        key(Part::Cached, "reserved, not allocated"),
        key(Part::Context, "context, libraries"),
    ];
    if others != Bytes::ZERO {
        keys.push(key(Part::Others, "others"));
    }
    if held <= total {
        keys.push(key(Part::Free, "free"));
    }
    writeln!(out, " {}", keys.join("   "))?;
    if held > total {
        writeln!(
            out,
            " the bar is {held} long: {} more than the card has",
            held - total
        )?;
    }
    Ok(())
}

fn write_figures(out: &mut String, verdict: &Verdict) -> fmt::Result {
    let peak = &verdict.peak;
    heading(out, "the card and the peak")?;
    let device = &verdict.device;
    size_row(
        out,
        "card",
        device.total_bytes,
        &format!("compute capability {}", device.compute_capability),
    )?;
    if device.reserved_by_others_bytes != Bytes::ZERO {
        size_row(
            out,
            "held by other processes",
            device.reserved_by_others_bytes,
            "",
        )?;
    }
    let (allocated, reserved) = how_sure(verdict);
    size_row(
        out,
        "peak allocated",
        peak.allocated_bytes,
        &format!("{allocated}, in {}", moment(peak.phase, peak.step)),
    )?;
    size_row(out, "peak reserved", peak.reserved_bytes, &reserved)?;
    size_row(
        out,
        "CUDA context",
        verdict.context_bytes.likely,
        &estimated(&verdict.context_bytes),
    )?;
    if verdict.library_bytes.high != Bytes::ZERO {
        size_row(
            out,
            "libraries",
            verdict.library_bytes.likely,
            &estimated(&verdict.library_bytes),
        )?;
    }
    size_row(
        out,
        "process total",
        peak.process_bytes.likely,
        &estimated(&peak.process_bytes),
    )?;
    if !verdict.other_processes.is_empty() {
        size_row(
            out,
            "other processes",
            verdict.beside_bytes.likely,
            &format!("of the script, {}", estimated(&verdict.beside_bytes)),
        )?;
    }
    let left = Bytes::new(peak.headroom_bytes.unsigned_abs());
    if peak.headroom_bytes < 0 {
        size_row(out, "above the card by", left, "estimate")?;
    } else {
        size_row(out, "headroom", left, "estimate")?;
    }
    if verdict.growth_bytes_per_step != Bytes::ZERO {
        size_row(
            out,
            "growth per step",
            verdict.growth_bytes_per_step,
            "memory that steps do not give back",
        )?;
    }
    Ok(())
}

/// What is said of the two figures that are PyTorch's own, in which closed libraries or the driver may have a part.
fn how_sure(verdict: &Verdict) -> (&'static str, String) {
    let is_assumed = |kind| verdict.assumptions.iter().any(|each| each.kind == kind);
    let exact = "exact".to_owned();
    if is_assumed("driver_pool") {
        let pool = "estimate, as the driver's own pool is taken to grow";
        return ("exact", pool.to_owned());
    }
    if !is_assumed("library_scratch") {
        return ("exact", exact);
    }
    // What is left of the range of the process without that of what lies outside of PyTorch.
    let (process, context) = (verdict.peak.process_bytes, verdict.context_bytes);
    let libraries = verdict.library_bytes;
    let range = Estimate {
        low: process.low.saturating_sub(context.low + libraries.low),
        likely: verdict.peak.reserved_bytes,
        high: process.high.saturating_sub(context.high + libraries.high),
    };
    if range.is_exact() {
        ("exact", exact)
    } else {
        ("with likely scratch memory of libraries", estimated(&range))
    }
}

fn estimated(estimate: &Estimate) -> String {
    if estimate.is_exact() {
        "exact".to_owned()
    } else {
        format!("estimate, {} to {}", estimate.low, estimate.high)
    }
}

fn write_shares(out: &mut String, verdict: &Verdict, glyphs: Glyphs) -> fmt::Result {
    let peak = &verdict.peak;
    let fatal = verdict.oom.as_ref().is_some_and(|oom| !oom.survived);
    if peak.roles.keys().any(|role| *role != Role::Unknown) && !fatal {
        heading(out, "at the peak, by role")?;
        write_roles(out, peak.roles.iter().map(pair).collect(), glyphs)?;
    }
    if !peak.modules.is_empty() {
        heading(out, "at the peak, by module")?;
        let modules = peak
            .modules
            .iter()
            .map(|module| (module_name(&module.path), module.bytes));
        write_list(out, modules, peak.allocated_bytes)?;
    }
    if !peak.sites.is_empty() {
        heading(out, "at the peak, by source line")?;
        let sites = peak.sites.iter().map(|site| {
            let place = format!("{}:{}", shown_path(&site.file), site.line);
            (shortened(&place), site.bytes)
        });
        write_list(out, sites, peak.allocated_bytes)?;
    }
    Ok(())
}

fn write_roles(out: &mut String, mut roles: Vec<(Role, Bytes)>, glyphs: Glyphs) -> fmt::Result {
    roles.retain(|&(_, size)| size != Bytes::ZERO);
    roles.sort_by_key(|&(role, size)| (std::cmp::Reverse(size), role));
    let whole = roles.iter().map(|&(_, size)| size).sum();
    for (role, size) in roles {
        let glyph = Part::Role(role).glyph(glyphs);
        writeln!(
            out,
            "  {glyph} {:<width$}{size:>12}{:>7}",
            role,
            percent(size, whole),
            width = LISTED - 2
        )?;
    }
    Ok(())
}

fn write_list(
    out: &mut String,
    mut items: impl ExactSizeIterator<Item = (String, Bytes)>,
    whole: Bytes,
) -> fmt::Result {
    for (name, size) in items.by_ref().take(LONGEST_LIST) {
        let share = percent(size, whole);
        if name.chars().count() > LISTED {
            writeln!(out, "  {name}\n  {:<LISTED$}{size:>12}{share:>7}", "")?;
        } else {
            writeln!(out, "  {name:<LISTED$}{size:>12}{share:>7}")?;
        }
    }
    match items.len() {
        0 => Ok(()),
        more => {
            let rest: Bytes = items.map(|(_, size)| size).sum();
            let name = format!("{more} more");
            writeln!(
                out,
                "  {name:<LISTED$}{rest:>12}{:>7}",
                percent(rest, whole)
            )
        }
    }
}

fn percent(part: Bytes, whole: Bytes) -> String {
    if whole == Bytes::ZERO {
        return String::new();
    }
    format!("{:.0} %", part.get() as f64 * 100.0 / whole.get() as f64)
}

fn write_phases(out: &mut String, verdict: &Verdict) -> fmt::Result {
    if !verdict.phases.is_empty() {
        heading(out, "highest in each phase")?;
        writeln!(
            out,
            "  {:<PHASES$}{:>12}{:>12}",
            "", "allocated", "reserved"
        )?;
        for (phase, level) in &verdict.phases {
            writeln!(
                out,
                "  {phase:<PHASES$}{:>12}{:>12}",
                level.allocated_bytes, level.reserved_bytes
            )?;
        }
    }
    writeln!(
        out,
        "\n  {:<PHASES$}{:>12}",
        "steps measured", verdict.steps_measured
    )?;
    if !verdict.not_reached.is_empty() {
        let words: Vec<&str> = verdict
            .not_reached
            .iter()
            .map(|phase| phase.word())
            .collect();
        writeln!(out, "  {:<NAMES$}{}", "not reached", words.join(", "))?;
    }
    Ok(())
}

fn write_caveats(out: &mut String, verdict: &Verdict) -> fmt::Result {
    let (decisive, harmless): (Vec<_>, Vec<_>) = verdict
        .assumptions
        .iter()
        .partition(|each| matters(each, verdict.verdict));
    for (title, assumptions) in [("assumed, and decisive", decisive), ("assumed", harmless)] {
        if assumptions.is_empty() {
            continue;
        }
        heading(out, title)?;
        for assumption in assumptions.iter().take(LONGEST_LIST) {
            let place = placed(assumption.r#where.as_deref());
            write_wrapped(out, "  - ", &format!("{}{place}", assumption.text))?;
        }
        write_more(out, assumptions.len())?;
    }
    if !verdict.unsupported.is_empty() {
        heading(out, "not supported, and answered so")?;
        for call in verdict.unsupported.iter().take(LONGEST_LIST) {
            let times = if call.count == 1 {
                "once".to_owned()
            } else {
                format!("{} times", call.count)
            };
            let place = placed(call.r#where.as_deref());
            write_wrapped(
                out,
                "  - ",
                &format!("{} ({}) {times}{place}", call.function, call.library),
            )?;
        }
        write_more(out, verdict.unsupported.len())?;
    }
    if let Some(signal) = verdict.script.signal {
        writeln!(out, "\nthe script was ended by signal {signal}")?;
    } else if let Some(code) = verdict.script.exit_code.filter(|&code| code != 0) {
        writeln!(out, "\nthe script ended with exit code {code}")?;
    }
    Ok(())
}

fn placed(place: Option<&str>) -> String {
    place
        .map(|place| format!(", at {}", shown_path(place)))
        .unwrap_or_default()
}

fn write_more(out: &mut String, count: usize) -> fmt::Result {
    if count > LONGEST_LIST {
        writeln!(
            out,
            "  - {} more, in the output of `--json`",
            count - LONGEST_LIST
        )?;
    }
    Ok(())
}

fn heading(out: &mut String, text: &str) -> fmt::Result {
    writeln!(out, "\n{}", text.bold())
}

fn row(out: &mut String, name: &str, value: &str, note: &str) -> fmt::Result {
    let line = format!("  {name:<NAMES$}{value}  {note}");
    writeln!(out, "{}", line.trim_end())
}

fn size_row(out: &mut String, name: &str, size: Bytes, note: &str) -> fmt::Result {
    row(out, name, &format!("{size:>12}"), note)
}

/// The dotted path; that of the outermost module is empty.
fn module_name(path: &str) -> String {
    if path.is_empty() {
        "(the outermost module)".to_owned()
    } else {
        shortened(path)
    }
}

/// A path from its last telling folder on: after `site-packages`, or relative to the current folder.
fn shown_path(path: &str) -> String {
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, inside)) = path.rsplit_once(folder) {
            return inside.to_owned();
        }
    }
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(&format!("{}/", here.display())) {
        Some(inside) => inside.to_owned(),
        None => path.to_owned(),
    }
}

/// A long dotted path or file name with its middle left out: the end is what people look for.
fn shortened(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let longest = LINE - 4;
    if characters.len() <= longest {
        return name.to_owned();
    }
    let tail: String = characters[characters.len() - (longest - 3)..]
        .iter()
        .collect();
    format!("...{tail}")
}

fn write_wrapped(out: &mut String, lead: &str, text: &str) -> fmt::Result {
    wrap(out, text, Margins { lead, line: LINE })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::sample;
