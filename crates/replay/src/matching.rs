//! Whether the allocator, asked again under the recorded settings, does what the recording says it did.

use oomproof_allocator::{
    Action as AllocatorAction, BlockState as AllocatorBlockState, Configuration, StateError,
    TraceEntry,
};
use oomproof_units::{Bytes, DeviceAddress};

use crate::event::{Action, Event};
use crate::playback::Playback;
use crate::program::{Program, Step};
use crate::runner::Runner;
use crate::start::{BlockState, Segment};

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// That are equal.
    pub equal: u64,
    /// In all.
    pub all: u64,
}

impl Share {
    fn count(&mut self, is_equal: Equal) {
        self.all += 1;
        self.equal += u64::from(is_equal == Equal::Yes);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Equal {
    Yes,
    No,
}

impl From<bool> for Equal {
    fn from(is_equal: bool) -> Self {
        if is_equal { Self::Yes } else { Self::No }
    }
}

/// Where the replay first did something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// Index of the entry of the trace; the number of entries for the state behind it.
    pub entry: usize,
    /// What the recording has.
    pub recorded: String,
    /// What the replay did.
    pub replayed: String,
}

/// How far a replay equals its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Entries of the trace: action, address, size, stream.
    pub entries: Share,
    /// Segments at the end: address, size, stream.
    pub segments: Share,
    /// Blocks at the end: address, size, state, and what was asked for.
    pub blocks: Share,
    /// The first difference in the order of the trace.
    pub first_difference: Option<FirstDifference>,
    /// Peak of reserved bytes in the recording.
    pub recorded_peak: Bytes,
    /// Peak of reserved bytes in the replay.
    pub replayed_peak: Bytes,
    /// How often the recording shows that memory was given back for want of it.
    pub recorded_retries: u64,
    /// `num_alloc_retries` of the replay.
    pub replayed_retries: u64,
    /// Failed requests in the recording.
    pub recorded_ooms: u64,
    /// Failed requests in the replay.
    pub replayed_ooms: u64,
}

impl Match {
    /// Equal entries, segments and blocks among all of them, in percent; 100 only when nothing differs.
    pub fn percent(&self) -> f64 {
        let shares = [self.entries, self.segments, self.blocks];
        let equal: u64 = shares.iter().map(|share| share.equal).sum();
        let all: u64 = shares.iter().map(|share| share.all).sum();
        if equal == all {
            return 100.0;
        }
        let hundredths = u128::from(equal) * 10_000 / u128::from(all);
        hundredths as f64 / 100.0
    }

    /// Whether nothing differs.
    pub fn is_exact(&self) -> bool {
        self.first_difference.is_none()
    }
}

/// A replay under the recorded settings, with the trace that it made.
pub(crate) struct Matched {
    pub(crate) found: Match,
    /// Entries of the replay with the index of the recorded entry that they stand for, when it was kept.
    pub(crate) trace: Vec<(usize, TraceEntry)>,
    pub(crate) end: Vec<oomproof_allocator::Segment>,
}

/// Whether the entries of the replay are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Entries,
    Nothing,
}

/// Runs `program` and compares with the entries and the end that were recorded.
pub(crate) fn replay(
    program: &Program,
    start: &[Segment],
    events: &[Event],
    end: &[Segment],
    configuration: Configuration,
    total: Bytes,
    keep: Keep,
) -> Result<Matched, StateError> {
    let driver = Playback::new(total.get());
    let mut runner = Runner::new(program, start, configuration, driver, Vec::new())?;
    let mut matched = Matched {
        found: Match::default(),
        trace: Vec::new(),
        end: Vec::new(),
    };
    for (step_idx, step) in program.steps.iter().enumerate() {
        let range = program.entries_of(step_idx);
        let entries = &events[range.clone()];
        let _ = runner.step(step_idx, entries);
        count_recorded(&mut matched.found, *step, entries);
        if matches!(step, Step::Ready { .. }) {
            continue;
        }
        let done = std::mem::take(runner.allocator.sink_mut());
        if !range.is_empty() {
            compare_entries(&mut matched.found, range.start, entries, &done);
        }
        if keep == Keep::Entries {
            let last = range.end.saturating_sub(1);
            let kept = (range.start..).zip(&done);
            let kept = kept.map(|(idx, entry)| (idx.min(last), *entry));
            matched.trace.extend(kept);
        }
        *runner.allocator.sink_mut() = cleared(done);
    }
    let statistics = runner.allocator.statistics();
    let found = &mut matched.found;
    found.recorded_peak = Bytes::new(peak_reserved(start, events));
    found.replayed_peak = Bytes::new(statistics.reserved_bytes.all.peak.max(0).unsigned_abs());
    found.replayed_retries = statistics.num_alloc_retries.unsigned_abs();
    found.replayed_ooms = statistics.num_ooms.unsigned_abs();
    matched.end = runner.allocator.segments();
    if !end.is_empty() {
        compare_ends(found, events.len(), end, &matched.end);
    }
    Ok(matched)
}

fn cleared(mut entries: Vec<TraceEntry>) -> Vec<TraceEntry> {
    entries.clear();
    entries
}

fn count_recorded(found: &mut Match, step: Step, entries: &[Event]) {
    let released = entries.iter().any(|entry| entry.action.gives_back());
    match step {
        Step::Fail { .. } => {
            found.recorded_ooms += 1;
            found.recorded_retries += 1;
        }
        Step::Allocate { .. } if released => found.recorded_retries += 1,
        _ => {}
    }
}

/// The highest sum of segments that a recording shows.
pub(crate) fn peak_reserved(start: &[Segment], events: &[Event]) -> u64 {
    let mut now: u64 = start.iter().map(|segment| segment.size).sum();
    let mut peak = now;
    for event in events.iter().filter(|event| event.action.is_of_driver()) {
        if event.action.gives_back() {
            now = now.saturating_sub(event.size);
        } else {
            now += event.size;
        }
        peak = peak.max(now);
    }
    peak
}

fn compare_entries(found: &mut Match, first: usize, recorded: &[Event], done: &[TraceEntry]) {
    let mut done = done
        .iter()
        .filter(|entry| action(entry.action) != Action::Other);
    for (idx, entry) in recorded.iter().enumerate() {
        if entry.action == Action::Other {
            continue;
        }
        let other = done.next();
        let is_equal = other.is_some_and(|other| is_same(entry, other));
        found.entries.count(is_equal.into());
        if !is_equal {
            differ(found, first + idx, || {
                (
                    told(entry),
                    other.map_or_else(|| "nothing".to_owned(), |other| told(&event_of(other))),
                )
            });
        }
    }
    for other in done {
        found.entries.count(Equal::No);
        differ(found, first + recorded.len() - 1, || {
            ("nothing more".to_owned(), told(&event_of(other)))
        });
    }
}

fn differ(found: &mut Match, entry: usize, what: impl FnOnce() -> (String, String)) {
    if found.first_difference.is_none() {
        let (recorded, replayed) = what();
        found.first_difference = Some(FirstDifference {
            entry,
            recorded,
            replayed,
        });
    }
}

fn is_same(entry: &Event, other: &TraceEntry) -> bool {
    // The address of a failure is what was free, which is the device's matter.
    let is_failure = entry.action == Action::OutOfMemory;
    action(other.action) == entry.action
        && other.size.get() == entry.size
        && other.stream == entry.stream
        && (is_failure || other.address.get() == entry.address)
}

const fn action(word: AllocatorAction) -> Action {
    match word {
        AllocatorAction::Alloc => Action::Alloc,
        AllocatorAction::FreeRequested => Action::FreeRequested,
        AllocatorAction::FreeCompleted => Action::FreeCompleted,
        AllocatorAction::SegmentAlloc => Action::SegmentAlloc,
        AllocatorAction::SegmentFree => Action::SegmentFree,
        AllocatorAction::SegmentMap => Action::SegmentMap,
        AllocatorAction::SegmentUnmap => Action::SegmentUnmap,
        AllocatorAction::OutOfMemory => Action::OutOfMemory,
        AllocatorAction::Snapshot => Action::Other,
    }
}

fn event_of(entry: &TraceEntry) -> Event {
    Event {
        action: action(entry.action),
        address: entry.address.get(),
        size: entry.size.get(),
        stream: entry.stream,
        pool: None,
        stack: crate::event::Stack::None,
    }
}

fn told(entry: &Event) -> String {
    let what = match entry.action {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free_requested",
        Action::FreeCompleted => "free_completed",
        Action::SegmentAlloc => "segment_alloc",
        Action::SegmentFree => "segment_free",
        Action::SegmentMap => "segment_map",
        Action::SegmentUnmap => "segment_unmap",
        Action::OutOfMemory => return format!("oom for {}", Bytes::new(entry.size)),
        Action::Other => "other",
    };
    let address = DeviceAddress::new(entry.address);
    format!("{what} of {} at {address}", Bytes::new(entry.size))
}

fn compare_ends(
    found: &mut Match,
    n_entries: usize,
    recorded: &[Segment],
    replayed: &[oomproof_allocator::Segment],
) {
    let of = |address: u64| {
        replayed
            .binary_search_by_key(&address, |segment| segment.address.get())
            .ok()
            .map(|idx| &replayed[idx])
    };
    let mut n_common = 0;
    for segment in recorded {
        let other = of(segment.address);
        n_common += usize::from(other.is_some());
        let is_equal = other.is_some_and(|other| {
            other.size.get() == segment.size && other.stream.handle == segment.stream
        });
        found.segments.count(is_equal.into());
        if !is_equal {
            differ(found, n_entries, || {
                (
                    segment_told(segment.address, segment.size),
                    other.map_or_else(
                        || "no segment there".to_owned(),
                        |other| segment_told(other.address.get(), other.size.get()),
                    ),
                )
            });
        }
        compare_blocks(found, n_entries, segment, other);
    }
    for _ in n_common..replayed.len() {
        found.segments.count(Equal::No);
        differ(found, n_entries, || {
            (
                format!("{} segments at the end", recorded.len()),
                format!("{} segments at the end", replayed.len()),
            )
        });
    }
}

fn segment_told(address: u64, size: u64) -> String {
    format!(
        "a segment of {} at {}",
        Bytes::new(size),
        DeviceAddress::new(address)
    )
}

fn compare_blocks(
    found: &mut Match,
    n_entries: usize,
    recorded: &Segment,
    replayed: Option<&oomproof_allocator::Segment>,
) {
    let others = replayed.map_or(&[][..], |segment| &segment.blocks[..]);
    for block in &recorded.blocks {
        let other = others
            .binary_search_by_key(&block.address, |other| other.address.get())
            .ok()
            .map(|idx| &others[idx]);
        let is_equal = other.is_some_and(|other| {
            let state = match other.state {
                AllocatorBlockState::Allocated => BlockState::Allocated,
                AllocatorBlockState::PendingFree => BlockState::Pending,
                AllocatorBlockState::Inactive => BlockState::Free,
            };
            let is_free = block.state == BlockState::Free;
            other.size.get() == block.size
                && state == block.state
                && (is_free || other.requested.get() == block.requested)
        });
        found.blocks.count(is_equal.into());
        if !is_equal {
            differ(found, n_entries, || {
                (
                    block_told(block.address, block.size, block.requested),
                    other.map_or_else(
                        || "no block there".to_owned(),
                        |other| {
                            block_told(other.address.get(), other.size.get(), other.requested.get())
                        },
                    ),
                )
            });
        }
    }
}

fn block_told(address: u64, size: u64, requested: u64) -> String {
    format!(
        "a block of {} (requested {requested} bytes) at {}",
        Bytes::new(size),
        DeviceAddress::new(address)
    )
}
