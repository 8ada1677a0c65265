//! What the allocator asks of CUDA.
//!
//! Everything that the allocator cannot decide by itself comes from here: where memory lies, whether there is any, and
//! whether a stream has come so far. A replay answers from a recording, a what-if from a [`Card`](crate::Card).

use oomproof_units::{Bytes, DeviceAddress};

use crate::pool::PoolId;
use crate::stream::Stream;

/// Something that a stream will have done when it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event(pub u64);

/// A request for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// How large.
    pub size: Bytes,
    /// For which stream.
    pub stream: Stream,
    /// For which pool; [`PoolId::DEFAULT`] for none.
    pub pool: PoolId,
}

/// Pages of an expandable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Where they begin; a whole number of pages behind the start of the segment.
    pub address: DeviceAddress,
    /// Their size together.
    pub size: Bytes,
    /// The size of one.
    pub page_size: Bytes,
    /// The stream of the segment.
    pub stream: Stream,
}

/// What `cudaMemGetInfo` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that nobody holds.
    pub free: Bytes,
    /// Bytes of the device.
    pub total: Bytes,
}

/// The device below the allocator. Out of memory is an answer, not an error.
pub trait Driver {
    /// `cudaMalloc`; `None` when the device has no room.
    fn allocate(&mut self, request: SegmentRequest) -> Option<DeviceAddress>;

    /// `cudaFree` of what [`Driver::allocate`] gave.
    fn release(&mut self, address: DeviceAddress, size: Bytes);

    /// Address space for an expandable segment; `None` when there is none left.
    fn reserve(&mut self, request: SegmentRequest) -> Option<DeviceAddress>;

    /// Gives address space back.
    fn unreserve(&mut self, address: DeviceAddress, size: Bytes);

    /// Puts memory behind pages: all of them, or none and `false`.
    fn map(&mut self, pages: Pages) -> bool;

    /// Takes the memory behind pages away, after the stream was waited for.
    fn unmap(&mut self, pages: Pages);

    /// An event at the present end of a stream.
    fn record_event(&mut self, stream: Stream) -> Event;

    /// Whether a stream has reached an event. An event that was found done is not asked for again.
    fn is_done(&mut self, event: Event) -> bool;

    /// Waits until a stream has reached an event.
    fn wait(&mut self, event: Event);

    /// How much is free.
    fn memory_info(&self) -> MemoryInfo;

    /// Puts blocks that were freed while a pool was filled into the order in which they are settled. Asked since 2.9,
    /// where PyTorch walks a map of heap addresses that no rule foretells: a replay knows the order from its recording.
    /// By default it is that of the frees, as it was before.
    fn order_deferred(&mut self, _blocks: &mut [DeviceAddress]) {}
}
