//! The device of the recording: it answers each request as it did when the trace was made.
//!
//! Whether `cudaMalloc` succeeded, and at which address, is in the trace between a request and its outcome. As long as
//! the allocator asks what it asked then, the answers fit. When it asks something else the replay has left the
//! recording; it goes on with addresses that the recording does not use.

use oomproof_allocator::{Driver, Event as StreamEvent, MemoryInfo, Pages, SegmentRequest, Stream};
use oomproof_units::{Bytes, DeviceAddress};

use crate::event::{Action, Event};
use crate::waiting::Waiting;

const GRANULARITY: u64 = 2 << 20;
/// Above what the user half of an address space can hold.
const ELSEWHERE: u64 = 1 << 60;

#[derive(Clone, Debug)]
pub(crate) struct Playback {
    /// What the driver did during the present step, the next one last.
    expected: Vec<Event>,
    /// The present step failed in the recording.
    fails: bool,
    total: u64,
    free: u64,
    elsewhere: u64,
    waiting: Waiting,
}

impl Playback {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            expected: Vec::new(),
            fails: false,
            total,
            free: 0,
            elsewhere: ELSEWHERE,
            waiting: Waiting::default(),
        }
    }

    pub(crate) fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    /// The entries of the next step.
    pub(crate) fn begin_step(&mut self, entries: &[Event]) {
        self.expected.clear();
        self.expected.extend(
            entries
                .iter()
                .rev()
                .filter(|entry| entry.action.is_of_driver()),
        );
        let failure = entries
            .iter()
            .find(|entry| entry.action == Action::OutOfMemory);
        self.fails = failure.is_some();
        self.free = failure.map_or(0, |entry| entry.address);
    }

    /// Whether the device was full when it was asked at this point.
    fn was_full(&self) -> bool {
        self.expected
            .last()
            .map_or(self.fails, |next| next.action.gives_back())
    }

    fn expect(&mut self, action: Action, matches: impl Fn(&Event) -> bool) -> Option<Event> {
        self.expected
            .pop_if(|next| next.action == action && matches(next))
    }

    /// Takes an entry out wherever it is: the order of what is given back is the allocator's matter.
    fn strike(&mut self, action: Action, address: u64) {
        let found = self
            .expected
            .iter()
            .rposition(|next| next.action == action && next.address == address);
        if let Some(idx) = found {
            self.expected.remove(idx);
        }
    }

    fn invent(&mut self, size: u64) -> DeviceAddress {
        let address = self.elsewhere;
        self.elsewhere = address
            .saturating_add(size)
            .checked_next_multiple_of(GRANULARITY)
            .unwrap_or(ELSEWHERE);
        DeviceAddress::new(address)
    }
}

impl Driver for Playback {
    fn allocate(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        if self.was_full() {
            return None;
        }
        let size = request.size.get();
        match self.expect(Action::SegmentAlloc, |next| next.size == size) {
            Some(next) => Some(DeviceAddress::new(next.address)),
            None => Some(self.invent(size)),
        }
    }

    fn release(&mut self, address: DeviceAddress, _: Bytes) {
        self.strike(Action::SegmentFree, address.get());
    }

    /// Address space is reserved before its first page is mapped, maybe after memory was given back, and only the pages
    /// are in a trace.
    fn reserve(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        let mut next = self.expected.iter().rev();
        match next.find(|entry| entry.action == Action::SegmentMap) {
            Some(next) => Some(DeviceAddress::new(next.address)),
            None => Some(self.invent(request.size.get())),
        }
    }

    fn unreserve(&mut self, _: DeviceAddress, _: Bytes) {}

    fn map(&mut self, pages: Pages) -> bool {
        let address = pages.address.get();
        if self
            .expect(Action::SegmentMap, |next| next.address == address)
            .is_some()
        {
            return true;
        }
        !self.was_full()
    }

    fn unmap(&mut self, pages: Pages) {
        self.strike(Action::SegmentUnmap, pages.address.get());
    }

    fn record_event(&mut self, _: Stream) -> StreamEvent {
        self.waiting.record()
    }

    fn is_done(&mut self, event: StreamEvent) -> bool {
        self.waiting.is_done(event)
    }

    fn wait(&mut self, event: StreamEvent) {
        self.waiting.finish(event);
    }

    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo {
            free: Bytes::new(self.free),
            total: Bytes::new(self.total),
        }
    }
}
