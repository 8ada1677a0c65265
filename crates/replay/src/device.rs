//! A device of a given size under a program that was recorded elsewhere: what was in use when the trace began is there
//! from the beginning, and what is new lies behind it, at the lowest address that is free.

use std::collections::BTreeMap;

use oomproof_allocator::{Driver, Event, MemoryInfo, Pages, SegmentRequest, Stream};
use oomproof_units::{Bytes, DeviceAddress};
use rustc_hash::FxHashMap;

use crate::start::Segment;
use crate::waiting::Waiting;

const GRANULARITY: u64 = 2 << 20;
/// Where CUDA usually begins; nothing depends on it but the order of addresses.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// More than any program reserves.
const ADDRESS_SPACE: u64 = 1 << 50;

/// How much PyTorch may take from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Bytes for PyTorch's segments; all that it asks for when this is `u64::MAX`.
    pub(crate) available: u64,
    /// Bytes of the card, by which expandable segments reserve address space.
    pub(crate) total: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Device {
    capacity: Capacity,
    used: u64,
    /// Start and length of free address space.
    free: BTreeMap<u64, u64>,
    taken: FxHashMap<u64, Taken>,
    waiting: Waiting,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Of the address space.
    len: u64,
    /// Of the memory.
    charged: u64,
}

impl Device {
    pub(crate) fn new(capacity: Capacity, start: &[Segment]) -> Self {
        let end = start.iter().map(|segment| segment.address + segment.size);
        let first = end.max().map_or(FIRST_ADDRESS, |end| {
            end.saturating_add(capacity.total.saturating_mul(2).min(ADDRESS_SPACE))
                .next_multiple_of(GRANULARITY)
        });
        let charged = |size: u64| size.next_multiple_of(GRANULARITY);
        let taken = start
            .iter()
            .filter(|segment| !segment.is_expandable)
            .map(|segment| {
                let taken = Taken {
                    len: 0,
                    charged: charged(segment.size),
                };
                (segment.address, taken)
            })
            .collect();
        Self {
            capacity,
            used: start.iter().map(|segment| charged(segment.size)).sum(),
            free: BTreeMap::from([(first, ADDRESS_SPACE)]),
            taken,
            waiting: Waiting::default(),
        }
    }

    pub(crate) fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    fn charge(&mut self, size: u64) -> bool {
        let fits = self
            .used
            .checked_add(size)
            .filter(|used| *used <= self.capacity.available);
        self.used = fits.unwrap_or(self.used);
        fits.is_some()
    }

    fn take(&mut self, size: u64, charged: u64) -> Option<u64> {
        let len = size.checked_next_multiple_of(GRANULARITY)?;
        let (&start, &hole) = self.free.iter().find(|(_, hole)| **hole >= len)?;
        self.free.remove(&start);
        if hole > len {
            self.free.insert(start + len, hole - len);
        }
        self.taken.insert(start, Taken { len, charged });
        Some(start)
    }

    fn give(&mut self, start: u64) {
        let Some(Taken { len, charged }) = self.taken.remove(&start) else {
            return;
        };
        self.used = self.used.saturating_sub(charged);
        if len == 0 {
            return;
        }
        let (mut start, mut len) = (start, len);
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            self.free.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        self.free.insert(start, len);
    }
}

impl Driver for Device {
    fn allocate(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        let charged = request.size.get().checked_next_multiple_of(GRANULARITY)?;
        if !self.charge(charged) {
            return None;
        }
        self.take(charged, charged).map(DeviceAddress::new)
    }

    fn release(&mut self, address: DeviceAddress, _: Bytes) {
        self.give(address.get());
    }

    fn reserve(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        self.take(request.size.get(), 0).map(DeviceAddress::new)
    }

    fn unreserve(&mut self, address: DeviceAddress, _: Bytes) {
        self.give(address.get());
    }

    fn map(&mut self, pages: Pages) -> bool {
        self.charge(pages.size.get())
    }

    fn unmap(&mut self, pages: Pages) {
        self.used = self.used.saturating_sub(pages.size.get());
    }

    fn record_event(&mut self, _: Stream) -> Event {
        self.waiting.record()
    }

    fn is_done(&mut self, event: Event) -> bool {
        self.waiting.is_done(event)
    }

    fn wait(&mut self, event: Event) {
        self.waiting.finish(event);
    }

    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo {
            free: Bytes::new(self.capacity.available.saturating_sub(self.used)),
            total: Bytes::new(self.capacity.total),
        }
    }
}
