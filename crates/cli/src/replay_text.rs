//! A replay for people: the answer first, then a table, then what is not certain.

use std::cmp::Ordering;
use std::fmt::Write;

use oomproof_replay::Growth;
use oomproof_units::Bytes;

use crate::commands::diff::place;
use crate::commands::replay::{DeviceForm, Report, SearchForm, SettingForm};

/// Lines that leave memory behind that are named.
const MOST_LINES: usize = 3;

/// The report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    for line in answer(report) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    for device in &report.devices {
        let _ = writeln!(text, "{}", device_line(report, device));
        if let Some(first) = &device.first_difference {
            let _ = writeln!(
                text,
                "       the first difference is at entry {}: recorded {}, replayed {}",
                first.entry, first.recorded, first.replayed
            );
        }
    }
    text.push('\n');
    text.push_str(&table(report));
    for device in &report.devices {
        if let Some(growth) = &device.growth_text {
            text.push('\n');
            text.push_str(growth);
        }
    }
    if !report.undecided.is_empty() {
        text.push_str("\nWhat the snapshot does not decide:\n");
        for one in &report.undecided {
            let _ = writeln!(text, "  {}", one.text);
        }
    }
    text
}

fn answer(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let recorded = &report.recorded;
    for setting in &report.settings {
        let outcome = match (&setting.stop, recorded.oom) {
            (Some(stop), _) => format!("would not get through: {}", stop.text),
            (None, true) => format!(
                "would have survived, and reserves {}",
                setting.peak_reserved_bytes
            ),
            (None, false) => format!(
                "reserves {}, {}",
                setting.peak_reserved_bytes,
                compared(setting.peak_reserved_bytes, recorded.peak_reserved_bytes)
            ),
        };
        lines.push(format!("{} {outcome}.", named(&setting.conf)));
    }
    if let Some(search) = &report.search {
        lines.push(found(search, recorded));
        if let Some(set) = &search.set {
            lines.push(String::new());
            lines.push(format!("    export {}=\"{}\"", set.variable, set.value));
        }
    }
    if lines.is_empty() {
        lines.push(recorded.stop.as_ref().map_or_else(
            || {
                format!(
                    "The recorded settings get through and reserve {}.",
                    recorded.peak_reserved_bytes
                )
            },
            |stop| format!("The recorded settings do not get through: {}.", stop.text),
        ));
    }
    lines
}

fn found(search: &SearchForm, recorded: &SettingForm) -> String {
    let tried = format!(
        "Of {} settings, {} get through.",
        search.tried, search.surviving
    );
    let Some(set) = &search.set else {
        let mut reason = search.reason.clone();
        if let Some(first) = reason.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        return format!("{tried} {reason}.");
    };
    let change = if recorded.oom {
        "the recorded ones do not".to_owned()
    } else {
        compared(set.peak_reserved_bytes, recorded.peak_reserved_bytes)
    };
    format!(
        "{tried} Setting this reserves {}, {change}:",
        set.peak_reserved_bytes
    )
}

fn compared(new: Bytes, old: Bytes) -> String {
    match new.cmp(&old) {
        Ordering::Less => format!("{} less than recorded", old - new),
        Ordering::Equal => "as recorded".to_owned(),
        Ordering::Greater => format!("{} more than recorded", new - old),
    }
}

fn named(conf: &str) -> String {
    if conf.is_empty() {
        "the default".to_owned()
    } else {
        format!("`{conf}`")
    }
}

fn device_line(report: &Report, device: &DeviceForm) -> String {
    let begins = if device.complete {
        "from the first allocation"
    } else {
        "from a moment when memory was in use"
    };
    let percent = if device.first_difference.is_none() {
        "100 %".to_owned()
    } else {
        format!("{:.2} %", device.match_percent)
    };
    let available = match (device.available_bytes, device.available_below_bytes) {
        (None, _) => String::new(),
        (Some(bytes), None) => format!("; PyTorch had {bytes}"),
        (Some(bytes), Some(below)) => format!("; PyTorch had {bytes} to {below}"),
    };
    format!(
        "GPU {}  torch {}, {} entries {begins}; the replay equals {percent} of {} entries, segments and blocks{available}",
        device.device, report.torch.release, device.entries, device.compared
    )
}

fn table(report: &Report) -> String {
    let mut rows: Vec<(String, &SettingForm)> = vec![(
        format!("recorded ({})", named(&report.recorded.conf)),
        &report.recorded,
    )];
    rows.extend(
        report
            .settings
            .iter()
            .map(|setting| (named(&setting.conf), setting)),
    );
    if let Some(search) = &report.search {
        rows.extend(
            search
                .best
                .iter()
                .filter(|best| report.settings.iter().all(|given| given.conf != best.conf))
                .map(|setting| (named(&setting.conf), setting)),
        );
    }
    let wide = rows
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0)
        .max(40);
    let mut text = format!(
        "{:<wide$}  {:>12} {:>12} {:>12} {:>8} {:>8}  smallest memory that does\n",
        "settings", "reserved", "unused", "free piece", "mallocs", "retries"
    );
    for (name, setting) in rows {
        let smallest = match (setting.smallest_bytes, setting.smallest_card) {
            (None, _) => "none".to_owned(),
            (Some(bytes), None) => bytes.to_string(),
            (Some(bytes), Some(card)) => format!("{bytes} ({card})"),
        };
        let failed = if setting.oom { ", fails" } else { "" };
        let _ = writeln!(
            text,
            "{name:<wide$}  {:>12} {:>12} {:>12} {:>8} {:>8}  {smallest}{failed}",
            setting.peak_reserved_bytes.to_string(),
            setting.unused_at_peak_bytes.to_string(),
            setting.largest_free_at_peak_bytes.to_string(),
            setting.cudamalloc_calls,
            setting.retries,
        );
    }
    let packed = if report.packed_is_optimal {
        "best placement with all known beforehand"
    } else {
        "best placement found with all known"
    };
    let _ = writeln!(
        text,
        "{packed:<wide$}  {:>12}",
        report.packed_bytes.to_string()
    );
    let _ = writeln!(
        text,
        "{:<wide$}  {:>12}",
        "no allocator gets below",
        report.floor_bytes.to_string()
    );
    text
}

/// What every round of a loop leaves behind.
pub(crate) fn growth_lines(device: u32, growth: &Growth) -> String {
    let mut text = if growth.is_sure {
        format!(
            "Growth on GPU {device}: each of the last of {} rounds leaves {} behind.\n",
            growth.n_rounds, growth.per_round
        )
    } else {
        format!(
            "Memory on GPU {device} rises by {} in each of the last of {} rounds: a loop that keeps what it makes, or the \
             layers of one pass.\n",
            growth.per_round, growth.n_rounds
        )
    };
    for (stack, bytes) in growth.left_by.iter().take(MOST_LINES) {
        let _ = writeln!(
            text,
            "  {:>12} a round  {}",
            bytes.to_string(),
            place(stack)
        );
    }
    text
}
