//! What a person wants to know of a snapshot first. Every figure is counted from the snapshot; where it cannot tell, the
//! summary says so.

use oomproof_units::{Bytes, Micros};

use crate::entry::Action;
use crate::liveness::{Peak, PeakPart, has_segments, live_course, reserved_course};
use crate::origin::{Origin, ReleaseRange};
use crate::segment::BlockState;
use crate::snapshot::Snapshot;
use crate::trace::Trace;

/// The main facts of a snapshot.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Each device that has segments or a trace.
    pub devices: Vec<DeviceSummary>,
    /// The string of settings; `None` when none were recorded.
    pub conf: Option<String>,
    /// The releases of torch that can have written it.
    pub releases: ReleaseRange,
    /// Where it came from, and what it lacks.
    pub origin: Origin,
}

/// The main facts of one device.
#[derive(Clone, Debug)]
pub struct DeviceSummary {
    /// Its index.
    pub device: u32,
    /// The number of segments at the end; `None` if the source has none.
    pub n_segments: Option<usize>,
    /// What they hold together.
    pub reserved: Bytes,
    /// Their allocated blocks, rounding included.
    pub allocated: Bytes,
    /// Their allocated blocks and those that wait for other streams.
    pub active: Bytes,
    /// The number of entries in the trace.
    pub n_entries: usize,
    /// From the first entry to the last.
    pub span: Option<(Micros, Micros)>,
    /// What the trace begins with.
    pub start: TraceStart,
    /// Why it seems that older entries were overwritten.
    pub cut: Option<CutEvidence>,
    /// When most was live.
    pub peak: Option<Peak>,
    /// Who had asked for that, the largest first.
    pub peak_parts: Vec<PeakPart>,
    /// The most that was reserved; `None` without a trace of segments.
    pub peak_reserved: Option<Bytes>,
    /// Each failed request, oldest first.
    pub out_of_memory: Vec<Failure>,
    /// Nothing was allocated after the last failed request.
    pub ends_in_out_of_memory: bool,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of its entry.
    pub entry: usize,
    /// What was asked for, rounded.
    pub size: Bytes,
    /// The device's free bytes.
    pub device_free: Bytes,
}

/// In what state a trace finds the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStart {
    /// There is no trace.
    NoTrace,
    /// Nothing was reserved: every block and segment is in the trace.
    Empty,
    /// Something was there already.
    MidRun {
        /// What was requested for blocks that were live.
        requested: Bytes,
        /// What was reserved.
        reserved: Bytes,
    },
    /// The trace and the segments at the end do not fit together: entries are missing in between.
    Inconsistent,
    /// The source has no segments to compare with.
    Unknown,
}

/// Why it seems that a trace lost its oldest entries. A snapshot does not record how many it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutEvidence {
    /// It begins with the completion of a free whose request is not there.
    BeginsInsideFree,
    /// It has a round number of entries, as people choose for the maximum.
    RoundNumber,
}

impl Snapshot {
    /// The main facts.
    pub fn summary(&self) -> Summary {
        let mut devices: Vec<u32> = self
            .segments()
            .iter()
            .map(|segment| segment.device)
            .collect();
        devices.extend(
            (0..self.traces().len() as u32)
                .filter(|&device| !self.traces()[device as usize].is_empty()),
        );
        devices.sort_unstable();
        devices.dedup();
        Summary {
            devices: devices
                .into_iter()
                .map(|device| self.device_summary(device))
                .collect(),
            conf: self.settings().map(|settings| settings.conf.clone()),
            releases: self.origin().releases,
            origin: self.origin().clone(),
        }
    }

    fn device_summary(&self, device: u32) -> DeviceSummary {
        let nothing = Trace::default();
        let index = device as usize;
        let trace = self.traces().get(index).unwrap_or(&nothing);
        let segments = || {
            self.segments()
                .iter()
                .filter(|segment| segment.device == device)
        };
        let in_state = |is_counted: fn(BlockState) -> bool| {
            let blocks = segments().flat_map(|segment| segment.blocks());
            blocks
                .filter(|block| is_counted(block.state))
                .map(|block| block.size)
                .sum()
        };
        let out_of_memory = failures(trace);
        let last_alloc = trace
            .actions()
            .iter()
            .rposition(|&action| action == Action::Alloc);
        let peak = self.peak(index);
        let reserved = reserved_course(self, index, trace);
        let has_segment_entries = trace
            .actions()
            .iter()
            .any(|action| matches!(action, Action::SegmentAlloc | Action::SegmentMap));
        let start = self.trace_start(index, trace);
        DeviceSummary {
            device,
            n_segments: has_segments(self).then(|| segments().count()),
            reserved: segments().map(|segment| segment.total_size).sum(),
            allocated: in_state(|state| state == BlockState::Allocated),
            active: in_state(|state| state != BlockState::Inactive),
            n_entries: trace.len(),
            span: span(trace),
            start,
            cut: cut_evidence(trace, start),
            peak_parts: peak
                .as_ref()
                .map(|peak| self.peak_parts(index, peak))
                .unwrap_or_default(),
            peak,
            peak_reserved: (has_segment_entries || has_segments(self) && !trace.is_empty())
                .then(|| to_bytes(reserved.highest)),
            ends_in_out_of_memory: out_of_memory
                .last()
                .is_some_and(|failure| last_alloc.is_none_or(|alloc| alloc < failure.entry)),
            out_of_memory,
        }
    }

    fn trace_start(&self, device: usize, trace: &Trace) -> TraceStart {
        if !trace
            .actions()
            .iter()
            .any(|action| !matches!(action, Action::Snapshot | Action::Annotate))
        {
            return TraceStart::NoTrace;
        }
        if !has_segments(self) {
            return TraceStart::Unknown;
        }
        let live = live_course(self, device, trace);
        let reserved = reserved_course(self, device, trace);
        if live.lowest < 0 || reserved.lowest < 0 {
            return TraceStart::Inconsistent;
        }
        if live.start == 0 && reserved.start == 0 {
            return TraceStart::Empty;
        }
        TraceStart::MidRun {
            requested: to_bytes(live.start),
            reserved: to_bytes(reserved.start),
        }
    }
}

fn to_bytes(sum: i128) -> Bytes {
    Bytes::new(u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
}

fn failures(trace: &Trace) -> Vec<Failure> {
    let entries = trace.actions().iter().enumerate();
    entries
        .filter(|&(_, &action)| action == Action::OutOfMemory)
        .map(|(entry, _)| Failure {
            entry,
            size: trace.sizes()[entry],
            device_free: Bytes::new(trace.addresses()[entry].get()),
        })
        .collect()
}

fn span(trace: &Trace) -> Option<(Micros, Micros)> {
    let last = trace.len().checked_sub(1)?;
    trace.entry(0).time.zip(trace.entry(last).time)
}

fn cut_evidence(trace: &Trace, start: TraceStart) -> Option<CutEvidence> {
    /// Nobody chooses a maximum below this.
    const LEAST: usize = 1000;
    if start == TraceStart::Empty {
        return None;
    }
    if trace.actions().first() == Some(&Action::FreeCompleted) {
        return Some(CutEvidence::BeginsInsideFree);
    }
    (trace.len() >= LEAST && trace.len().is_multiple_of(LEAST)).then_some(CutEvidence::RoundNumber)
}
