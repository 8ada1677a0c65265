//! The records as lives of blocks. One pass over a million events has to stay well under a second, and records can be
//! lost, so a block that is handed out where others still seem to live ends those: that they were released went unseen.

use std::collections::BTreeMap;

use oomproof_profile::{
    AllocatorEvent, DriverAction, OutOfMemory, Phase, Profile, Record, Role, Touch, UnknownRead,
};

use crate::legend::Legend;
use crate::levels::Levels;
use crate::notes::Note;

/// A point in the run. Moments of one run are ordered by `at`, the number of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: usize,
    /// Index into [`Timeline::spans`].
    pub(crate) span: usize,
    pub(crate) phase: Phase,
    pub(crate) step: u32,
    /// How many backward passes had begun.
    pub(crate) backwards: u32,
}

/// One stay in a phase: from its begin to the begin of another. A step may end within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) phase: Phase,
}

/// One life of a block, from being handed out to being taken back.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) size: u64,
    pub(crate) device: u8,
    pub(crate) site: u32,
    pub(crate) module: u32,
    pub(crate) born: Moment,
    /// `None` when it lived to the end.
    pub(crate) freed: Option<Moment>,
    /// The last role it was given, at any time of its life, and the id of the name that came with it.
    pub(crate) label: Option<(Role, u32)>,
    /// Used as scratch memory by a library.
    pub(crate) workspace: bool,
    /// Written by a copy from the host.
    pub(crate) from_host: bool,
}

impl Block {
    pub(crate) fn lives_at(&self, at: usize) -> bool {
        self.born.at <= at && self.freed.is_none_or(|freed| freed.at > at)
    }
}

/// PyTorch's allocator gave up, with what the driver had refused just before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GaveUp {
    pub(crate) at: usize,
    pub(crate) record: OutOfMemory,
    pub(crate) refused: Option<u64>,
}

/// The driver refused memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) at: usize,
    pub(crate) device: u8,
    pub(crate) size: u64,
    /// What was in use on the device.
    pub(crate) used: u64,
    /// What PyTorch's allocator had handed out, and what it held.
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
}

/// A training step ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepEnd {
    pub(crate) at: usize,
    pub(crate) peak_allocated: u64,
    /// By how much the clock of the device moved on in it; 0 when that is not known.
    pub(crate) device_nanos: u64,
}

/// A call of a function that is not modelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsupportedCall {
    pub(crate) function: u32,
    pub(crate) library: u32,
    pub(crate) site: u32,
}

/// Everything a profile says, in the order in which it happened.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) legend: Legend,
    pub(crate) blocks: Vec<Block>,
    pub(crate) spans: Vec<Span>,
    pub(crate) devices: BTreeMap<u8, Levels>,
    pub(crate) steps: Vec<StepEnd>,
    pub(crate) gave_up: Vec<GaveUp>,
    /// The last refusal, when nothing was handed out after it and PyTorch's allocator has not reported it.
    pub(crate) unanswered: Option<Refused>,
    pub(crate) unknown_reads: Vec<UnknownRead>,
    pub(crate) unsupported: Vec<UnsupportedCall>,
    pub(crate) notes: Vec<Note>,
    /// Where the ordinary course of things was cut: memory ran out, or the script was about to end. What is released
    /// after that is released by unwinding and says nothing of what it was for.
    pub(crate) cuts: Vec<Moment>,
    /// Number of the last record of a block handed out inside a module's `forward`.
    pub(crate) last_in_module: Option<usize>,
    /// The last moment.
    pub(crate) end: Option<Moment>,
    live: BTreeMap<u64, usize>,
    phase: Option<Phase>,
    step: u32,
    backwards: u32,
}

impl Timeline {
    /// Whether the script entered a phase.
    pub(crate) fn entered(&self, phase: Phase) -> bool {
        self.spans.iter().any(|span| span.phase == phase)
    }

    /// The last note of a kind.
    pub(crate) fn last_note(&self, kind: &str) -> Option<&Note> {
        self.notes.iter().rev().find(|note| note.kind == kind)
    }

    /// How many steps had ended whenever a loop over training data was ended early.
    pub(crate) fn steps_at_cuts(&self) -> Vec<usize> {
        let trains = |note: &&Note| note.fields.get("training") == Some(&true.into());
        let notes = self.notes.iter().filter(|note| note.kind == "cut");
        let cuts = notes.filter(trains);
        cuts.map(|note| self.steps.partition_point(|step| step.at < note.at))
            .collect()
    }

    /// The note of an end that the agent chose because it knew enough. The time limit may have come while it did so.
    pub(crate) fn stopped_from_inside(&self) -> Option<&Note> {
        let mut stops = self.notes.iter().filter(|note| note.kind == "stop");
        stops.find(|note| note.text("reason").is_some_and(|why| why != "timeout"))
    }

    pub(crate) fn of(profile: &Profile) -> Self {
        let mut timeline = Self::default();
        for (at, record) in profile.records.iter().enumerate() {
            timeline.see(at, record);
        }
        timeline
    }

    fn see(&mut self, at: usize, record: &Record) {
        match record {
            Record::Text(_) | Record::Site { .. } | Record::Module { .. } => {
                self.legend.declare(record);
            }
            Record::Alloc(event) => {
                let moment = self.moment(at, event);
                self.unanswered = None;
                self.hand_out(event, moment);
            }
            Record::Free(event) => {
                let moment = self.moment(at, event);
                if let Some(index) = self.live.remove(&event.address) {
                    self.blocks[index].freed = Some(moment);
                }
            }
            Record::Driver {
                action,
                device,
                size,
                used,
                ..
            } => {
                self.device(*device).driver(*used);
                self.drive(at, *device, *action, (*size, *used));
            }
            Record::Phase { phase, step, .. } => self.begin(at, *phase, *step),
            Record::Label {
                address,
                role,
                name,
                ..
            } if *role != Role::Unknown => {
                if let Some(block) = self.holder(*address) {
                    block.label = Some((*role, *name));
                }
            }
            Record::Label { .. } => {}
            Record::Touch { address, touch, .. } => {
                if let Some(block) = self.holder(*address) {
                    match touch {
                        Touch::Workspace => block.workspace = true,
                        Touch::HostToDevice => block.from_host = true,
                    }
                }
            }
            Record::UnknownRead(read) => self.unknown_reads.push(*read),
            Record::Unsupported {
                function,
                library,
                site,
                ..
            } => self.unsupported.push(UnsupportedCall {
                function: *function,
                library: *library,
                site: *site,
            }),
            Record::OutOfMemory(record) => {
                self.cuts.push(self.now(at));
                let refused = self.unanswered.take().map(|refused| refused.size);
                self.gave_up.push(GaveUp {
                    at,
                    record: *record,
                    refused,
                });
            }
            Record::Step {
                peak_allocated,
                device_nanos,
                ..
            } => {
                self.unanswered = None;
                self.steps.push(StepEnd {
                    at,
                    peak_allocated: *peak_allocated,
                    device_nanos: *device_nanos,
                });
                for levels in self.devices.values_mut() {
                    levels.step_ended();
                }
            }
            Record::Note { json, .. } => {
                let note = Note::parse(at, json);
                if let Some("stop" | "exit") = note.as_ref().map(|note| note.kind.as_str()) {
                    self.cuts.push(self.now(at));
                }
                self.notes.extend(note);
            }
        }
    }

    /// What the driver did with a request: of how many bytes, and what was in use then.
    fn drive(&mut self, at: usize, device: u8, action: DriverAction, (size, used): (u64, u64)) {
        let levels = self.device(device);
        let (allocated, reserved) = (levels.allocated(), levels.reserved());
        match action {
            DriverAction::Refused => {
                self.unanswered = Some(Refused {
                    at,
                    device,
                    size,
                    used,
                    allocated,
                    reserved,
                });
            }
            DriverAction::Malloc | DriverAction::Create => self.unanswered = None,
            DriverAction::Free | DriverAction::Release => {}
        }
    }

    fn device(&mut self, device: u8) -> &mut Levels {
        self.devices.entry(device).or_default()
    }

    fn begin(&mut self, at: usize, phase: Phase, step: u32) {
        self.step = step;
        if self.phase.replace(phase) != Some(phase) {
            self.spans.push(Span { phase });
            self.backwards += u32::from(phase == Phase::Backward);
        }
        for levels in self.devices.values_mut() {
            levels.enter(phase);
        }
        self.end = Some(self.now(at));
    }

    fn now(&self, at: usize) -> Moment {
        Moment {
            at,
            span: self.spans.len().saturating_sub(1),
            phase: self.phase.unwrap_or(Phase::Load),
            step: self.step,
            backwards: self.backwards,
        }
    }

    /// The moment of an event; what the event says of its phase holds where no record of a phase came before it.
    fn moment(&mut self, at: usize, event: &AllocatorEvent) -> Moment {
        if self.phase != Some(event.phase) {
            self.begin(at, event.phase, event.step);
        }
        self.step = event.step;
        let moment = self.now(at);
        self.end = Some(moment);
        self.device(event.device).allocator(event, moment);
        moment
    }

    fn hand_out(&mut self, event: &AllocatorEvent, born: Moment) {
        let end = event.address.saturating_add(event.size.max(1));
        while let Some(&start) = self.live.range(..end).next_back().map(|(start, _)| start) {
            let index = self.live[&start];
            let old = &mut self.blocks[index];
            if start != event.address && start.saturating_add(old.size) <= event.address {
                break;
            }
            old.freed = Some(born);
            self.live.remove(&start);
        }
        if event.module != 0 {
            self.last_in_module = Some(born.at);
        }
        self.live.insert(event.address, self.blocks.len());
        self.blocks.push(Block {
            size: event.size,
            device: event.device,
            site: event.site,
            module: event.module,
            born,
            freed: None,
            label: None,
            workspace: false,
            from_host: false,
        });
    }

    fn holder(&mut self, address: u64) -> Option<&mut Block> {
        let (start, index) = self.live.range(..=address).next_back()?;
        let block = &mut self.blocks[*index];
        (address - start < block.size.max(1)).then_some(block)
    }
}
