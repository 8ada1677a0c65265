//! One device of a snapshot: what it held at the end, and how it got there.

use oomproof_snapshot::{
    Action as Word, BlockState as State, Container, SegmentKind, Snapshot, StackId,
};

use crate::event::{Action, Event, PoolId, Stack};
use crate::start::{Block, BlockState, Segment};
use crate::undecided::{Question, Undecided};

/// The device's segments at the end, and its entries, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) device: u32,
    pub(crate) end: Vec<Segment>,
    pub(crate) events: Vec<Event>,
    pub(crate) undecided: Undecided,
}

impl Recording {
    /// What `snapshot` has of a device.
    pub(crate) fn of(snapshot: &Snapshot, device: u32) -> Self {
        let mut recording = Self {
            device,
            ..Self::default()
        };
        recording.end = segments(snapshot, device);
        let mut askers = Askers::new(snapshot);
        let Some(trace) = snapshot.traces().get(device as usize) else {
            return recording;
        };
        recording.events = trace
            .entries()
            .map(|entry| {
                let is_possible = entry.action == Word::OutOfMemory
                    || is_possible(entry.address.get(), entry.size.get());
                if !is_possible || matches!(entry.action, Word::Unknown(_)) {
                    recording.undecided.ask(Question::UnknownEntries);
                }
                Event {
                    action: if is_possible {
                        action(entry.action)
                    } else {
                        Action::Other
                    },
                    address: entry.address.get(),
                    size: entry.size.get(),
                    stream: entry.stream.get(),
                    pool: entry.pool.map(|pool| (pool.0, pool.1)),
                    stack: askers.of(entry.stack),
                }
            })
            .collect();
        match snapshot.origin().containers.last() {
            Some(Container::Profile) => {
                recording.undecided.ask(Question::SizesAreOfBlocks);
                recording.undecided.ask(Question::NoStreams);
            }
            Some(Container::ChromeTrace) => recording.undecided.ask(Question::NoStreams),
            _ => {}
        }
        let has_memory = recording
            .events
            .iter()
            .any(|event| event.action == Action::Alloc);
        let has_segments = recording
            .events
            .iter()
            .any(|event| event.action.is_of_driver());
        if has_memory && !has_segments && recording.end.is_empty() {
            recording.undecided.ask(Question::NoSegments);
        }
        recording
    }
}

impl Recording {
    /// Whether it has anything that can be asked of an allocator again.
    pub(crate) fn has_requests(&self) -> bool {
        self.events.iter().any(|event| {
            matches!(
                event.action,
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::OutOfMemory
            )
        })
    }
}

/// The devices that a snapshot says anything of.
pub(crate) fn devices(snapshot: &Snapshot) -> Vec<u32> {
    let traced = (0..).zip(snapshot.traces());
    let traced = traced.filter(|(_, trace)| !trace.is_empty());
    let mut found: Vec<u32> = traced.map(|(device, _)| device).collect();
    found.extend(snapshot.segments().iter().map(|segment| segment.device));
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether memory can lie there: a file may say anything, and sums of what no device has would run over.
const fn is_possible(address: u64, size: u64) -> bool {
    const MOST_BYTES: u64 = 1 << 42;
    const LAST_ADDRESS: u64 = 1 << 62;
    size <= MOST_BYTES && address <= LAST_ADDRESS
}

fn segments(snapshot: &Snapshot, device: u32) -> Vec<Segment> {
    let mut found: Vec<Segment> = snapshot
        .segments()
        .iter()
        .filter(|segment| segment.device == device)
        .filter(|segment| is_possible(segment.address.get(), segment.total_size.get()))
        .map(|segment| Segment {
            address: segment.address.get(),
            size: segment.total_size.get(),
            stream: segment.stream.get(),
            pool: (segment.pool.0, segment.pool.1),
            is_small: segment.kind == SegmentKind::Small,
            is_expandable: segment.is_expandable,
            space: None,
            blocks: segment
                .blocks()
                .iter()
                .map(|block| Block {
                    address: block.address.get(),
                    size: block.size.get(),
                    requested: block.requested_size.get(),
                    state: match block.state {
                        State::Allocated => BlockState::Allocated,
                        State::PendingFree => BlockState::Pending,
                        State::Inactive => BlockState::Free,
                    },
                })
                .collect(),
        })
        .collect();
    found.sort_by_key(|segment| segment.address);
    found
}

const fn action(word: Word) -> Action {
    match word {
        Word::Alloc => Action::Alloc,
        Word::FreeRequested => Action::FreeRequested,
        Word::FreeCompleted => Action::FreeCompleted,
        Word::SegmentAlloc => Action::SegmentAlloc,
        Word::SegmentFree => Action::SegmentFree,
        Word::SegmentMap => Action::SegmentMap,
        Word::SegmentUnmap => Action::SegmentUnmap,
        Word::OutOfMemory => Action::OutOfMemory,
        Word::Snapshot | Word::Annotate | Word::Unknown(_) => Action::Other,
    }
}

/// What each stack says of who asked, found out once.
struct Askers<'a> {
    snapshot: &'a Snapshot,
    found: Vec<Option<Stack>>,
}

impl<'a> Askers<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            found: vec![None; snapshot.stacks().len()],
        }
    }

    fn of(&mut self, id: StackId) -> Stack {
        if id == StackId::EMPTY {
            return Stack::None;
        }
        let snapshot = self.snapshot;
        *self.found[id.index()].get_or_insert_with(|| {
            let mut frames = snapshot.stacks().frames(id);
            if frames.any(|frame| snapshot.text(frame.function) == "empty_cache") {
                Stack::EmptyCache(id.index() as u32)
            } else {
                Stack::Other(id.index() as u32)
            }
        })
    }
}

/// The pool of a segment as the allocator names it.
pub(crate) const fn pool_id(pool: PoolId) -> oomproof_allocator::PoolId {
    oomproof_allocator::PoolId(pool.0, pool.1)
}
