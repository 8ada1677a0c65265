//! What the allocator tells as it works, in the words of PyTorch's own traces.

use oomproof_units::{Bytes, DeviceAddress};

use crate::pool::PoolId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// The block can be used again.
    FreeCompleted,
    /// A segment was made by `cudaMalloc`.
    SegmentAlloc,
    /// A segment was given back to the device.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages were taken out of an expandable segment.
    SegmentUnmap,
    /// A snapshot was made.
    Snapshot,
    /// A request failed for lack of memory.
    OutOfMemory,
}

impl Action {
    /// The word in the `action` column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::OutOfMemory => "oom",
        }
    }
}

/// One entry of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What happened.
    pub action: Action,
    /// Where; of [`Action::OutOfMemory`] how many bytes of the device were free.
    pub address: DeviceAddress,
    /// Bytes that were asked for, or that a segment or mapping takes; of [`Action::OutOfMemory`] the rounded size.
    pub size: Bytes,
    /// The handle of the stream.
    pub stream: u64,
    /// The pool; PyTorch writes it down since 2.12.
    pub pool: PoolId,
}

/// Hears every entry. [`NoTrace`] costs nothing, and a vector keeps them.
pub trait TraceSink {
    /// Hears one.
    fn record(&mut self, entry: TraceEntry);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl TraceSink for NoTrace {
    #[inline]
    fn record(&mut self, _: TraceEntry) {}
}

impl TraceSink for Vec<TraceEntry> {
    #[inline]
    fn record(&mut self, entry: TraceEntry) {
        self.push(entry);
    }
}
