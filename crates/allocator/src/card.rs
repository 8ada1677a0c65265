//! A device that exists only as an account: memory in pieces of 2 MiB, at the first address that is free.

use std::collections::{BTreeMap, BTreeSet};

use oomproof_units::{Bytes, DeviceAddress};

use crate::driver::{Driver, Event, MemoryInfo, Pages, SegmentRequest};
use crate::stream::Stream;

const GRANULARITY: u64 = 2 << 20;
/// What CUDA hands out begins at about here.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// As far apart as to never meet.
const ADDRESS_SPACE: u64 = 1 << 46;

/// When the streams of a [`Card`] get to their events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// At once.
    #[default]
    Immediate,
    /// When they are waited for, or told to by [`Card::finish`].
    OnRequest,
}

/// A device with so much memory.
#[derive(Clone, Debug)]
pub struct Card {
    total: u64,
    used: u64,
    first: u64,
    /// Start and length of what is free.
    free: BTreeMap<u64, u64>,
    /// What is handed out, by its start.
    taken: BTreeMap<u64, u64>,
    progress: Progress,
    next_event: u64,
    unfinished: BTreeSet<Event>,
    streams: BTreeMap<Event, Stream>,
}

impl Card {
    /// A card of `total` bytes of which others hold `used`.
    pub fn new(total: Bytes, used: Bytes) -> Self {
        Self {
            total: total.get(),
            used: used.get().min(total.get()),
            first: FIRST_ADDRESS,
            free: BTreeMap::from([(FIRST_ADDRESS, ADDRESS_SPACE)]),
            taken: BTreeMap::new(),
            progress: Progress::Immediate,
            next_event: 0,
            unfinished: BTreeSet::new(),
            streams: BTreeMap::new(),
        }
    }

    /// The same card, which hands out addresses from `first` on.
    #[must_use]
    pub fn starting_at(self, first: DeviceAddress) -> Self {
        let first = first.get();
        let len = ADDRESS_SPACE.min(u64::MAX - first);
        Self {
            first,
            free: BTreeMap::from([(first, len)]),
            ..self
        }
    }

    /// The same card, whose streams get on as `progress` says.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// Where the first address is that it hands out.
    pub fn first_address(&self) -> DeviceAddress {
        DeviceAddress::new(self.first)
    }

    /// A stream does all that it was given.
    pub fn finish(&mut self, stream: Stream) {
        let streams = &self.streams;
        self.unfinished
            .retain(|event| streams.get(event) != Some(&stream));
    }

    fn take(&mut self, size: u64) -> Option<u64> {
        let len = size.checked_next_multiple_of(GRANULARITY)?;
        let (&start, &hole) = self.free.iter().find(|(_, hole)| **hole >= len)?;
        self.free.remove(&start);
        if hole > len {
            self.free.insert(start + len, hole - len);
        }
        self.taken.insert(start, len);
        Some(start)
    }

    fn give(&mut self, start: u64) -> u64 {
        let Some(given) = self.taken.remove(&start) else {
            return 0;
        };
        let (mut start, mut len) = (start, given);
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
        given
    }

    fn charge(&mut self, size: u64) -> bool {
        let after = self.used.checked_add(size);
        let fits = after.filter(|after| *after <= self.total);
        self.used = fits.unwrap_or(self.used);
        fits.is_some()
    }
}

impl Driver for Card {
    fn allocate(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        let size = request.size.get().checked_next_multiple_of(GRANULARITY)?;
        if !self.charge(size) {
            return None;
        }
        let start = self.take(size);
        if start.is_none() {
            self.used -= size;
        }
        start.map(DeviceAddress::new)
    }

    fn release(&mut self, address: DeviceAddress, _: Bytes) {
        let given = self.give(address.get());
        self.used = self.used.saturating_sub(given);
    }

    fn reserve(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        self.take(request.size.get()).map(DeviceAddress::new)
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

    fn record_event(&mut self, stream: Stream) -> Event {
        let event = Event(self.next_event);
        self.next_event += 1;
        if self.progress == Progress::OnRequest {
            self.unfinished.insert(event);
            self.streams.insert(event, stream);
        }
        event
    }

    fn is_done(&mut self, event: Event) -> bool {
        let is_done = !self.unfinished.contains(&event);
        if is_done {
            self.streams.remove(&event);
        }
        is_done
    }

    fn wait(&mut self, event: Event) {
        self.unfinished.remove(&event);
        self.streams.remove(&event);
    }

    fn memory_info(&self) -> MemoryInfo {
        MemoryInfo {
            free: Bytes::new(self.total - self.used),
            total: Bytes::new(self.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolId;

    fn request(mib: u64) -> SegmentRequest {
        SegmentRequest {
            size: Bytes::from_mib(mib),
            stream: Stream::DEFAULT,
            pool: PoolId::DEFAULT,
        }
    }

    #[test]
    fn memory_comes_back_and_holes_are_used_first() {
        let mut card =
            Card::new(Bytes::from_mib(16), Bytes::from_mib(4)).starting_at(DeviceAddress::new(0));
        let first = card.allocate(request(4)).unwrap();
        let second = card.allocate(request(3)).unwrap();
        assert_eq!(card.memory_info().free, Bytes::from_mib(4));
        assert_eq!(card.allocate(request(5)), None);
        card.release(first, Bytes::from_mib(4));
        card.release(first, Bytes::from_mib(4));
        assert_eq!(card.allocate(request(2)), Some(first));
        card.release(second, Bytes::from_mib(3));
        assert_eq!(card.memory_info().free, Bytes::from_mib(10));
        assert_eq!(card.allocate(request(u64::MAX >> 21)), None);
    }

    #[test]
    fn events_wait_when_told_to() {
        let mut card =
            Card::new(Bytes::from_mib(16), Bytes::ZERO).with_progress(Progress::OnRequest);
        let stream = Stream::from_handle(7);
        let events = [(); 3].map(|()| card.record_event(stream));
        card.wait(events[1]);
        assert_eq!(
            events.map(|event| card.is_done(event)),
            [false, true, false]
        );
        card.finish(stream);
        assert!(card.is_done(events[0]));
    }
}
