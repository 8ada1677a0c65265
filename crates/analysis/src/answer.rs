//! The answer and its reasons. Fits may be said only of a run that showed what the script does and whose upper end
//! leaves room, so everything that speaks against comes first.

use oomproof_profile::Phase;
use oomproof_units::Bytes;

use crate::circumstances::{Circumstances, EndedBy};
use crate::processes::{Holder, Shown};
use crate::timeline::Timeline;
use crate::verdict::{Answer, AskedBy, Device, Estimate, Oom, Peak, Reason, ReasonKind};

/// A card is tight when less than one part in this many is left.
const LEAST_HEADROOM: u64 = 50;
/// Growth that leaves room for this many steps is of no concern.
const STEPS_OF_A_RUN: u64 = 10_000;
const EPOCHS_OF_A_RUN: u64 = 1_000;

/// What the answer depends on.
pub(crate) struct Evidence<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) circumstances: &'a Circumstances,
    pub(crate) records_lost: bool,
    pub(crate) device: &'a Device,
    pub(crate) peak: &'a Peak,
    /// What other processes of the script hold.
    pub(crate) beside: Estimate,
    pub(crate) oom: Option<&'a Oom>,
    pub(crate) growth: Bytes,
    pub(crate) epoch_growth: Bytes,
}

impl Evidence<'_> {
    pub(crate) fn answer(&self) -> (Answer, Vec<Reason>) {
        if let Some(oom) = self.oom.filter(|oom| !oom.survived) {
            let who = match (oom.asked_by, oom.requested_bytes) {
                (AskedBy::Pytorch, _) => "PyTorch ran out of memory".to_owned(),
                (AskedBy::Library, None) => "a library was refused memory".to_owned(),
                (AskedBy::Library, Some(size)) => {
                    format!(
                        "the driver refused a library's request of {size}, and the script ended"
                    )
                }
            };
            let text = format!("{who} in {}", self.moment(oom));
            return (
                Answer::DoesNotFit,
                vec![reason(ReasonKind::OutOfMemory, text)],
            );
        }
        let room = self
            .device
            .total_bytes
            .saturating_sub(self.device.reserved_by_others_bytes);
        let process = self.peak.process_bytes + self.beside;
        let (whose, take) = match self.circumstances.beside.processes.len() {
            0 => ("the process".to_owned(), "takes"),
            others => (
                format!("the {} processes of the script", others + 1),
                "take",
            ),
        };
        if process.likely > room {
            let text = format!(
                "{whose} {take} about {}, and the card has {room}",
                process.likely
            );
            return (
                Answer::DoesNotFit,
                vec![reason(ReasonKind::AboveCard, text)],
            );
        }
        let headroom = room.saturating_sub(process.likely);
        if let Some(reason) = self.full_before_the_end_of_a_loop(headroom) {
            return (Answer::DoesNotFit, vec![reason]);
        }
        let undecided = self.undecided();
        if !undecided.is_empty() {
            return (Answer::Unknown, undecided);
        }
        let mut tight = Vec::new();
        if process.high > room {
            let text = format!(
                "{whose} may take up to {}, and the card has {room}",
                process.high
            );
            tight.push(reason(ReasonKind::UpperEndAboveCard, text));
        }
        let left = headroom;
        if left < Bytes::new(self.device.total_bytes.get() / LEAST_HEADROOM) {
            let text = format!("only {left} of the card are left");
            tight.push(reason(ReasonKind::LittleHeadroom, text));
        }
        tight.extend(self.full_soon(left));
        let answer = if tight.is_empty() {
            Answer::Fits
        } else {
            Answer::Tight
        };
        (answer, tight)
    }

    /// When memory ran out, in which process if not in the one that was started, and what others held then.
    fn moment(&self, oom: &Oom) -> String {
        let mut text = match oom.step {
            0 => format!("phase {}", oom.phase),
            step => format!("phase {} of step {step}", oom.phase),
        };
        if let Shown::Child { pid } = self.circumstances.beside.shown {
            text = format!("process {pid}, which the script started, in {text}");
        }
        let held = oom.held_by_others.iter().map(|holder| {
            let Holder { pid, bytes } = holder;
            format!("process {pid} of the script held {bytes} of the card")
        });
        let held: Vec<String> = held.collect();
        if held.is_empty() {
            text
        } else {
            format!("{text}, while {}", held.join(" and "))
        }
    }

    /// A loop without training steps that kept more with every batch and was ended early: its end is known by its length.
    fn full_before_the_end_of_a_loop(&self, left: Bytes) -> Option<Reason> {
        let mut cuts = self.timeline.notes.iter().filter(|note| note.kind == "cut");
        cuts.find_map(|cut| {
            let growth = cut.number("growth").filter(|growth| *growth > 0)?;
            let rest = cut.number("of")?.saturating_sub(cut.number("batches")?);
            let more = Bytes::new(growth.saturating_mul(rest));
            (more > left).then(|| {
                let text = format!(
                    "each batch of a loop without training keeps {} more than the one before, {rest} more batches would keep {more}, and {left} are left",
                    Bytes::new(growth)
                );
                reason(ReasonKind::Growing, text)
            })
        })
    }

    /// Growth that would fill the card while a run of ordinary length lasts.
    fn full_soon(&self, left: Bytes) -> Option<Reason> {
        let kinds = [
            ("step", self.growth, STEPS_OF_A_RUN),
            ("epoch", self.epoch_growth, EPOCHS_OF_A_RUN),
        ];
        kinds.into_iter().find_map(|(what, growth, most)| {
            let times = left.get().checked_div(growth.get())?;
            (times < most).then(|| {
                let text = format!(
                    "each {what} holds {growth} more than the one before, and the card is full after about {times} more"
                );
                reason(ReasonKind::Growing, text)
            })
        })
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
        let stop = self.timeline.last_note("stop");
        let stopped_from_inside = self.timeline.stopped_from_inside().is_some();
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
        if stopped_from_inside {
            return None;
        }
        if ended_by == EndedBy::Timeout || stop.is_some() {
            let exit = self.timeline.last_note("exit");
            let mut notes = stop.into_iter().chain(exit);
            let text = match notes.find_map(|note| note.text("waiting_for")) {
                Some(what) => format!("time ran out while waiting for {what}"),
                None => "time ran out".to_owned(),
            };
            return Some(reason(ReasonKind::TimedOut, text));
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
                let text = match self.last_unsupported() {
                    Some(function) => {
                        format!("{text}, after calling `{function}`, which is not supported")
                    }
                    None => text,
                };
                Some(reason(ReasonKind::ScriptFailed, text))
            }
        }
    }

    fn exception(&self) -> Option<String> {
        let exit = self.timeline.last_note("exit")?;
        let exception = exit.fields.get("exception")?;
        let name = exception.get("type")?.as_str()?;
        let mut sentence = name.to_owned();
        if let Some(missing) = exception.get("missing").and_then(|text| text.as_str()) {
            sentence = format!("{sentence}, because {missing}");
        } else if let Some(text) = exception.get("text").and_then(|text| text.as_str()) {
            sentence = format!("{sentence}: {text}");
        }
        if let Some(place) = crate::notes::place(exception) {
            sentence = format!("{sentence} ({place})");
        }
        Some(sentence)
    }

    /// The call of a function that is not modelled that is nearest to the end.
    fn last_unsupported(&self) -> Option<&str> {
        let call = self.timeline.unsupported.last()?;
        self.timeline.legend.text(call.function)
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
        let ran_a_model = [Phase::Forward, Phase::Backward, Phase::Evaluation]
            .into_iter()
            .any(|phase| self.timeline.entered(phase));
        if !self.timeline.steps.is_empty() || (whole && ran_a_model) {
            return None;
        }
        let text = if self.timeline.entered(Phase::Evaluation) {
            "the script did not finish its evaluation"
        } else {
            "no training step ended and no evaluation was seen"
        };
        Some(reason(ReasonKind::NothingMeasured, text.to_owned()))
    }
}

fn reason(kind: ReasonKind, text: String) -> Reason {
    Reason { kind, text }
}
