//! Streams as a trace shows them: not by their work, but by when blocks that they used became free.

use oomproof_allocator::Event;
use rustc_hash::FxHashSet;

/// The events of a replay, each done when the trace says so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    next: u64,
    unfinished: FxHashSet<Event>,
    /// Recorded since they were last taken.
    fresh: Vec<Event>,
}

impl Waiting {
    pub(crate) fn record(&mut self) -> Event {
        let event = Event(self.next);
        self.next += 1;
        self.unfinished.insert(event);
        self.fresh.push(event);
        event
    }

    /// The events that were recorded since this was last asked.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.fresh)
    }

    pub(crate) fn finish(&mut self, event: Event) {
        self.unfinished.remove(&event);
    }

    pub(crate) fn is_done(&self, event: Event) -> bool {
        !self.unfinished.contains(&event)
    }
}
