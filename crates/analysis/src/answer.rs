//! The answer and its reasons. Fits may be said only of a run that showed what the script does and whose upper end
//! leaves room, so everything that speaks against comes first.

use oomproof_profile::Phase;
use oomproof_units::Bytes;

use crate::circumstances::{Circumstances, EndedBy};
use crate::timeline::Timeline;
use crate::verdict::{Answer, Device, Oom, Peak, Reason, ReasonKind};

/// A card is tight when less than one part in this many is left.
const LEAST_HEADROOM: u64 = 50;

/// What the answer depends on.
pub(crate) struct Evidence<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) circumstances: &'a Circumstances,
    pub(crate) records_lost: bool,
    pub(crate) device: &'a Device,
    pub(crate) peak: &'a Peak,
    pub(crate) oom: Option<&'a Oom>,
}

impl Evidence<'_> {
    pub(crate) fn answer(&self) -> (Answer, Vec<Reason>) {
        if let Some(oom) = self.oom.filter(|oom| !oom.survived) {
            let text = format!("PyTorch ran out of memory in phase {}", oom.phase);
            return (
                Answer::DoesNotFit,
                vec![reason(ReasonKind::OutOfMemory, text)],
            );
        }
        let room = self
            .device
            .total_bytes
            .saturating_sub(self.device.reserved_by_others_bytes);
        let process = self.peak.process_bytes;
        if process.likely > room {
            let text = format!(
                "the process takes about {}, and the card has {room}",
                process.likely
            );
            return (
                Answer::DoesNotFit,
                vec![reason(ReasonKind::AboveCard, text)],
            );
        }
        let undecided = self.undecided();
        if !undecided.is_empty() {
            return (Answer::Unknown, undecided);
        }
        let mut tight = Vec::new();
        if process.high > room {
            let text = format!(
                "the process may take up to {}, and the card has {room}",
                process.high
            );
            tight.push(reason(ReasonKind::UpperEndAboveCard, text));
        }
        let left = room.saturating_sub(process.likely);
        if left < Bytes::new(self.device.total_bytes.get() / LEAST_HEADROOM) {
            let text = format!("only {left} of the card are left");
            tight.push(reason(ReasonKind::LittleHeadroom, text));
        }
        let answer = if tight.is_empty() {
            Answer::Fits
        } else {
            Answer::Tight
        };
        (answer, tight)
    }

    fn undecided(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        reasons.extend(self.cut_short());
        if self.records_lost {
            let text = "records were lost because the disk was full".to_owned();
            reasons.push(reason(ReasonKind::RecordsLost, text));
        }
        reasons.extend(self.nothing_measured());
        reasons
    }

    fn cut_short(&self) -> Option<Reason> {
        let stop = self.timeline.notes.iter().rev().find(|n| n.kind == "stop");
        let stopped_for = stop.and_then(|stop| stop.text("reason"));
        let Circumstances {
            exit_code,
            signal,
            ended_by,
            ..
        } = *self.circumstances;
        if ended_by == EndedBy::Interrupt {
            let text = "the run was interrupted".to_owned();
            return Some(reason(ReasonKind::Interrupted, text));
        }
        if ended_by == EndedBy::Timeout || stopped_for == Some("timeout") {
            let text = match stop.and_then(|stop| stop.text("waiting_for")) {
                Some(what) => format!("time ran out while waiting for {what}"),
                None => "time ran out".to_owned(),
            };
            return Some(reason(ReasonKind::TimedOut, text));
        }
        if matches!(stopped_for, Some("steady" | "steps")) {
            return None;
        }
        if let Some(signal) = signal {
            let text = format!("signal {signal} ended the script");
            return Some(reason(ReasonKind::Signal, text));
        }
        match exit_code {
            None | Some(0) => None,
            Some(code) => {
                let text = match self.exception() {
                    Some(exception) => format!("the script failed with {exception}"),
                    None => format!("the script failed with exit code {code}"),
                };
                Some(reason(ReasonKind::ScriptFailed, text))
            }
        }
    }

    fn exception(&self) -> Option<String> {
        let mut notes = self.timeline.notes.iter().rev();
        let exception = notes
            .find(|note| note.kind == "exit")?
            .fields
            .get("exception")?;
        let name = exception.get("type")?.as_str()?;
        let mut sentence = name.to_owned();
        if let Some(text) = exception.get("text").and_then(|text| text.as_str()) {
            sentence = format!("{sentence}: {text}");
        }
        if let Some(place) = crate::notes::place(exception) {
            sentence = format!("{sentence} ({place})");
        }
        Some(sentence)
    }

    /// A script that ran to its end by itself was measured whole as soon as it ran a model; one that was cut short must
    /// have finished a step.
    fn nothing_measured(&self) -> Option<Reason> {
        if self.timeline.devices.values().all(|d| d.peak.is_none()) {
            let text = "the script allocated no device memory".to_owned();
            return Some(reason(ReasonKind::DeviceUnused, text));
        }
        let whole = self.circumstances.ended_by == EndedBy::Script
            && self.circumstances.exit_code == Some(0);
        let ran_a_model = self.timeline.spans.iter().any(|span| {
            matches!(
                span.phase,
                Phase::Forward | Phase::Backward | Phase::Evaluation
            )
        });
        if !self.timeline.steps.is_empty() || (whole && ran_a_model) {
            return None;
        }
        let text = if self.timeline.evaluations.is_empty() {
            "no training step ended and no evaluation was seen"
        } else {
            "the script did not finish its evaluation"
        };
        Some(reason(ReasonKind::NothingMeasured, text.to_owned()))
    }
}

fn reason(kind: ReasonKind, text: String) -> Reason {
    Reason { kind, text }
}
