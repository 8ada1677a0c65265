//! The program of a trace under settings that it was not recorded with.

use oomproof_allocator::{
    Action, Configuration, OutOfMemory, Release, Segment as AllocatorSegment, Settings, TraceEntry,
    TraceSink,
};
use oomproof_units::Bytes;

use crate::device::{Capacity, Device};
use crate::program::{Program, Step};
use crate::runner::{Outcome, Runner};
use crate::start::Segment;

/// The granularity at which the smallest sufficient memory is looked for, and in which devices hand out memory.
const GRANULARITY: u64 = 2 << 20;

/// Why a program would not have got through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A request found no memory.
    OutOfMemory {
        /// Index of the entry of the trace that the request led to.
        entry: usize,
        /// The figures of the message.
        figures: Box<OutOfMemory>,
    },
    /// A request was refused before the device was asked.
    Rejected {
        /// Index of the entry.
        entry: usize,
    },
    /// PyTorch of this release fails an assertion.
    Internal {
        /// Index of the entry.
        entry: usize,
        /// What it is.
        text: String,
    },
}

/// What a program needs under some settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Why it ended early; `None` when every request was granted, those that had failed in the recording too.
    pub stop: Option<Stop>,
    /// Requests that failed in the recording and were granted.
    pub granted_after_all: u64,
    /// Peak of `reserved_bytes`.
    pub peak_reserved: Bytes,
    /// Peak of `allocated_bytes`.
    pub peak_allocated: Bytes,
    /// `allocated_bytes` when the peak of reserved bytes was reached.
    pub allocated_at_peak: Bytes,
    /// Reserved bytes at the end.
    pub reserved_at_end: Bytes,
    /// Calls of `cudaMalloc`, or of mapping.
    pub n_device_allocations: u64,
    /// Calls of `cudaFree`, or of unmapping.
    pub n_device_releases: u64,
    /// `num_alloc_retries`.
    pub n_retries: u64,
}

impl Trial {
    /// Whether every request was granted.
    pub fn survives(&self) -> bool {
        self.stop.is_none()
    }

    /// Reserved and not allocated when the peak of reserved bytes was reached.
    pub fn unused_at_peak(&self) -> Bytes {
        self.peak_reserved.saturating_sub(self.allocated_at_peak)
    }
}

/// What a trial runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) device: u32,
    pub(crate) program: &'a Program,
    pub(crate) start: &'a [Segment],
    pub(crate) release: Release,
    /// Bytes of the card, by which expandable segments reserve address space and fractions are taken.
    pub(crate) total: Bytes,
}

/// How far a trial goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// To the end, or a request that is not granted.
    End,
    /// To the end of this step.
    Step(usize),
}

/// Sees when the device holds more than ever for PyTorch.
#[derive(Clone, Copy, Debug, Default)]
struct PeakWatch {
    reserved: u64,
    peak: u64,
    has_risen: bool,
}

impl TraceSink for PeakWatch {
    #[inline]
    fn record(&mut self, entry: TraceEntry) {
        match entry.action {
            Action::SegmentAlloc | Action::SegmentMap => {
                self.reserved += entry.size.get();
                if self.reserved > self.peak {
                    self.peak = self.reserved;
                    self.has_risen = true;
                }
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                self.reserved = self.reserved.saturating_sub(entry.size.get());
            }
            _ => {}
        }
    }
}

/// What came of a trial, with what is only of use inside.
struct Ran {
    trial: Trial,
    peak_step: usize,
    segments: Vec<AllocatorSegment>,
}

impl Stage<'_> {
    /// Runs the program with `available` bytes, or all that it asks for.
    pub(crate) fn run(&self, settings: &Settings, available: Option<Bytes>) -> Trial {
        self.run_until(settings, available, Until::End).trial
    }

    /// The largest free piece when the peak of reserved bytes was reached.
    pub(crate) fn largest_free_at_peak(
        &self,
        settings: &Settings,
        available: Option<Bytes>,
    ) -> Bytes {
        let whole = self.run_until(settings, available, Until::End);
        let at_peak = self.run_until(settings, available, Until::Step(whole.peak_step));
        let blocks = at_peak.segments.iter().flat_map(|segment| &segment.blocks);
        blocks
            .filter(|block| block.state == oomproof_allocator::BlockState::Inactive)
            .map(|block| block.size)
            .max()
            .unwrap_or_default()
    }

    /// The least memory with which the program gets through, to 2 MiB; `None` when none is enough.
    ///
    /// A little more memory can, for once, be worse than a little less, because the allocator gives back its cache only
    /// when it runs out. What is returned was tried and is enough.
    pub(crate) fn smallest_sufficient(&self, settings: &Settings, floor: Bytes) -> Option<Bytes> {
        let unbounded = self.run(settings, None);
        if !unbounded.survives() {
            return None;
        }
        let held: u64 = self.start.iter().map(|segment| segment.size).sum();
        let mut enough = unbounded.peak_reserved.get().div_ceil(GRANULARITY);
        let mut short = (floor.get().max(held) / GRANULARITY)
            .saturating_sub(1)
            .min(enough);
        while short + 1 < enough {
            let middle = short.midpoint(enough);
            let tried = self.run(settings, Some(Bytes::new(middle * GRANULARITY)));
            if tried.survives() {
                enough = middle;
            } else {
                short = middle;
            }
        }
        Some(Bytes::new(enough * GRANULARITY))
    }

    fn run_until(&self, settings: &Settings, available: Option<Bytes>, until: Until) -> Ran {
        let capacity = Capacity {
            available: available.map_or(u64::MAX, Bytes::get),
            total: self.total.get(),
        };
        let held: u64 = self.start.iter().map(|segment| segment.size).sum();
        let watch = PeakWatch {
            reserved: held,
            peak: held,
            has_risen: false,
        };
        let configuration = Configuration {
            device: u8::try_from(self.device).unwrap_or(u8::MAX),
            ..Configuration::new(self.release).with_settings(settings.clone())
        };
        let driver = Device::new(capacity, self.start);
        let mut ran = Ran {
            trial: Trial {
                stop: None,
                granted_after_all: 0,
                peak_reserved: Bytes::new(held),
                peak_allocated: Bytes::ZERO,
                allocated_at_peak: Bytes::ZERO,
                reserved_at_end: Bytes::new(held),
                n_device_allocations: 0,
                n_device_releases: 0,
                n_retries: 0,
            },
            peak_step: 0,
            segments: Vec::new(),
        };
        let mut runner = match Runner::new(self.program, self.start, configuration, driver, watch) {
            Ok(runner) => runner,
            Err(error) => {
                ran.trial.stop = Some(Stop::Internal {
                    entry: 0,
                    text: error.to_string(),
                });
                return ran;
            }
        };
        ran.trial.allocated_at_peak =
            figure(runner.allocator.statistics().allocated_bytes.all.current);
        for (step_idx, step) in self.program.steps.iter().enumerate() {
            let entry = (self.program.ends[step_idx] as usize).saturating_sub(1);
            match runner.step(step_idx, &[]) {
                Outcome::Done => {}
                Outcome::GrantedAfterAll => ran.trial.granted_after_all += 1,
                Outcome::Refused(figures) => {
                    ran.trial
                        .stop
                        .get_or_insert(Stop::OutOfMemory { entry, figures });
                }
                Outcome::Rejected => {
                    ran.trial.stop.get_or_insert(Stop::Rejected { entry });
                }
                Outcome::Internal(error) => {
                    ran.trial.stop.get_or_insert(Stop::Internal {
                        entry,
                        text: error.to_string(),
                    });
                }
            }
            if runner.allocator.sink().has_risen {
                runner.allocator.sink_mut().has_risen = false;
                ran.peak_step = step_idx;
                ran.trial.allocated_at_peak =
                    figure(runner.allocator.statistics().allocated_bytes.all.current);
            }
            // The program went on after a failure that was recorded, and after no other.
            let went_on = matches!(step, Step::Fail { .. });
            if (ran.trial.stop.is_some() && !went_on) || until == Until::Step(step_idx) {
                break;
            }
        }
        let statistics = runner.allocator.statistics();
        ran.trial.peak_reserved = figure(statistics.reserved_bytes.all.peak);
        ran.trial.peak_allocated = figure(statistics.allocated_bytes.all.peak);
        ran.trial.reserved_at_end = figure(statistics.reserved_bytes.all.current);
        ran.trial.n_device_allocations = statistics.num_device_alloc.max(0).unsigned_abs();
        ran.trial.n_device_releases = statistics.num_device_free.max(0).unsigned_abs();
        ran.trial.n_retries = statistics.num_alloc_retries.max(0).unsigned_abs();
        if until != Until::End {
            ran.segments = runner.allocator.segments();
        }
        ran
    }
}

fn figure(level: i64) -> Bytes {
    Bytes::new(level.max(0).unsigned_abs())
}
