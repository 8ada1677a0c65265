//! The counters of one device over the run. All peaks are first moments: PyTorch's own counters rise only when a level
//! is above all before it.

use std::collections::BTreeMap;

use oomproof_profile::{AllocatorEvent, Phase};
use oomproof_units::Bytes;

use crate::timeline::Moment;
use crate::verdict::PhasePeak;

/// What one device's counters did.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    allocated: u64,
    reserved: u64,
    used: Option<u64>,
    outside: Option<u64>,
    /// The first moment with the highest allocated bytes, and their number.
    pub(crate) peak: Option<(Moment, u64)>,
    /// The highest reserved bytes.
    pub(crate) peak_reserved: u64,
    /// The most the driver gave to others than the allocator, context and other processes included.
    pub(crate) peak_outside: u64,
    /// The highest levels while in each phase.
    pub(crate) phases: BTreeMap<Phase, PhasePeak>,
    /// Allocated bytes when each step ended.
    pub(crate) at_step_ends: Vec<u64>,
}

impl Levels {
    pub(crate) fn allocator(&mut self, event: &AllocatorEvent, moment: Moment) {
        self.allocated = event.allocated;
        self.reserved = event.reserved;
        if self.peak.is_none_or(|(_, peak)| event.allocated > peak) {
            self.peak = Some((moment, event.allocated));
        }
        self.peak_reserved = self.peak_reserved.max(event.reserved);
        self.enter(event.phase);
        self.look_outside();
    }

    /// The allocator's own count of live bytes, now.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// What the allocator holds, now.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(crate) fn driver(&mut self, used: u64) {
        self.used = Some(used);
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        let peak = self.phases.entry(phase).or_default();
        peak.allocated_bytes = peak.allocated_bytes.max(Bytes::new(self.allocated));
        peak.reserved_bytes = peak.reserved_bytes.max(Bytes::new(self.reserved));
    }

    pub(crate) fn step_ended(&mut self) {
        self.at_step_ends.push(self.allocated);
        self.look_outside();
    }

    /// The driver's counter moves just before or after the allocator's, so that only what two looks in a row agree on
    /// is memory of somebody else.
    fn look_outside(&mut self) {
        let Some(used) = self.used else { return };
        let outside = used.saturating_sub(self.reserved);
        let before = self.outside.replace(outside).unwrap_or(0);
        self.peak_outside = self.peak_outside.max(outside.min(before));
    }
}
