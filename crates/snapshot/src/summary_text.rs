//! A summary as lines for people.

use std::fmt::Write as _;

use crate::origin::Container;
use crate::snapshot::Snapshot;
use crate::stack_table::{Frame, StackId};
use crate::summary::{CutEvidence, DeviceSummary, Summary, TraceStart};

/// How many stacks of a peak are listed.
const N_STACKS: usize = 5;

impl Summary {
    /// The lines; the snapshot must be the one that was summed up, for its texts.
    pub fn to_text(&self, snapshot: &Snapshot) -> String {
        let mut text = format!("from      {}\n", containers(&self.origin.containers));
        let _ = writeln!(text, "torch     {}", self.releases);
        let conf = match self.conf.as_deref() {
            None => "not recorded",
            Some("") => "none",
            Some(conf) => conf,
        };
        let _ = writeln!(text, "settings  {conf}");
        for lack in &self.origin.lacks {
            let _ = writeln!(text, "note      {lack}");
        }
        if !self.origin.unknown_keys.is_empty() {
            let _ = writeln!(
                text,
                "note      left out, not known: {}",
                self.origin.unknown_keys.join(", ")
            );
        }
        if self.devices.is_empty() {
            text.push_str("empty     no device holds or recorded anything\n");
        }
        for device in &self.devices {
            device.write(snapshot, &mut text);
        }
        text
    }
}

impl DeviceSummary {
    fn write(&self, snapshot: &Snapshot, text: &mut String) {
        let _ = write!(text, "device {}  ", self.device);
        let _ = match self.n_segments {
            None => writeln!(text, "no segments in this kind of source"),
            Some(n_segments) => writeln!(
                text,
                "{n_segments} segments, {} reserved, {} allocated, {} active",
                self.reserved, self.allocated, self.active
            ),
        };
        let start = match self.start {
            TraceStart::NoTrace => "no trace".to_owned(),
            TraceStart::Empty => "complete from empty".to_owned(),
            TraceStart::MidRun {
                requested,
                reserved,
            } => format!("starts mid-run with {requested} live and {reserved} reserved"),
            TraceStart::Inconsistent => {
                "entries are missing: it does not fit the segments".to_owned()
            }
            TraceStart::Unknown => "whether it is complete cannot be told".to_owned(),
        };
        let _ = write!(text, "  trace   {} entries", self.n_entries);
        if let Some((first, last)) = self.span {
            let micros = last.get().saturating_sub(first.get());
            let _ = write!(text, " in {:.3} s", micros as f64 / 1e6);
        }
        let _ = writeln!(text, ", {start}");
        match self.cut {
            None => {}
            Some(CutEvidence::BeginsInsideFree) => {
                text.push_str(
                    "  cut     it begins in the middle of a free: older entries were overwritten\n",
                );
            }
            Some(CutEvidence::RoundNumber) => {
                text.push_str(
                    "  cut     a round number of entries: older ones were probably overwritten\n",
                );
            }
        }
        if let Some(peak) = &self.peak {
            let place = match peak.entry {
                Some(entry) => format!("after entry {entry}"),
                None => "before the first entry".to_owned(),
            };
            let _ = write!(text, "  peak    {} requested {place}", peak.requested);
            if let Some(reserved) = self.peak_reserved {
                let _ = write!(text, "; {reserved} reserved at most");
            }
            text.push('\n');
        }
        for part in self.peak_parts.iter().take(N_STACKS) {
            let place = place(snapshot, part.stack);
            let _ = writeln!(
                text,
                "    {:>12} in {:>5} blocks  {place}",
                part.requested, part.n_blocks
            );
        }
        for failure in &self.out_of_memory {
            let _ = writeln!(
                text,
                "  failed  {} at entry {}, with {} free",
                failure.size, failure.entry, failure.device_free
            );
        }
        if self.ends_in_out_of_memory {
            text.push_str("  end     out of memory\n");
        }
    }
}

/// The frame that says most: the innermost of the user's own Python, or of any Python, or the innermost.
fn place(snapshot: &Snapshot, stack: StackId) -> String {
    let file = |frame: &Frame| snapshot.text(frame.file);
    let is_python = |frame: &Frame| {
        std::path::Path::new(file(frame))
            .extension()
            .is_some_and(|end| end == "py")
    };
    let is_own = |frame: &Frame| {
        is_python(frame)
            && !file(frame).contains("site-packages")
            && !file(frame).contains("/torch/")
    };
    let frames = || snapshot.stacks().frames(stack);
    let found = frames()
        .find(is_own)
        .or_else(|| frames().find(is_python))
        .or_else(|| frames().next());
    match found {
        None => "without a stack".to_owned(),
        Some(frame) => format!(
            "{}:{} {}",
            file(&frame),
            frame.line,
            snapshot.text(frame.function)
        ),
    }
}

fn containers(containers: &[Container]) -> String {
    let words: Vec<String> = containers.iter().map(ToString::to_string).collect();
    words.join(", in it ")
}
