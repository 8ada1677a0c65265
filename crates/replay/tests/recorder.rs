use std::ops::Range;

use oomproof_allocator::{
    self as allocator, Allocator, Card, Configuration, Progress, Release, Request, Settings,
    Stream, TraceEntry,
};
use oomproof_snapshot::{
    Action, Block, BlockState, Entry, PoolId, RecordedSettings, SegmentInfo, SegmentKind, Snapshot,
    SnapshotBuilder, StackId, StreamHandle,
};
use oomproof_units::{Bytes, DeviceAddress};
use proptest::prelude::*;

/// Something that a program does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Asks for so many bytes on a stream.
    Take(u64, u8),
    /// Gives back the n-th of what it holds.
    Give(usize),
    /// The n-th is used by another stream too.
    Share(usize, u8),
    /// A stream gets through with its work.
    Finish(u8),
    EmptyCache,
}

/// A card, what the allocator is told, and what the program does.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) minor: u16,
    pub(crate) conf: &'static str,
    pub(crate) card: Bytes,
    pub(crate) acts: Vec<Act>,
}

/// What a case left behind.
pub(crate) struct Recorded {
    /// Entries that a call of `empty_cache` led to.
    emptied: Vec<Range<usize>>,
    pub(crate) entries: Vec<TraceEntry>,
    pub(crate) segments: Vec<allocator::Segment>,
    pub(crate) statistics: allocator::Statistics,
    conf: &'static str,
    settings: Settings,
}

/// Whether entries say where they came from, as they do unless the program wants none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacks {
    Recorded,
    None,
}

fn stream(number: u8) -> Stream {
    if number == 0 {
        Stream::DEFAULT
    } else {
        Stream::from_pool(0x1000 + 0x40 * u64::from(number), u64::from(number))
    }
}

/// Runs a case; like a script that catches nothing, it ends with the first request that fails.
pub(crate) fn record(case: &Case) -> Recorded {
    let release = Release::new(2, case.minor).unwrap();
    let settings = Settings::parse(case.conf, release).unwrap();
    let card = Card::new(case.card, Bytes::ZERO).with_progress(Progress::OnRequest);
    let configuration = Configuration::new(release).with_settings(settings.clone());
    let mut allocator = Allocator::with_trace(configuration, card, Vec::new());
    let mut held: Vec<DeviceAddress> = Vec::new();
    let mut emptied = Vec::new();
    for act in &case.acts {
        match *act {
            Act::Take(size, number) => {
                let request = Request::new(Bytes::new(size)).on(stream(number));
                match allocator.allocate(request) {
                    Ok(address) => held.push(address),
                    Err(_) => break,
                }
            }
            Act::Give(idx) if !held.is_empty() => {
                let address = held.swap_remove(idx % held.len());
                allocator.free(address).unwrap();
            }
            Act::Share(idx, number) if !held.is_empty() => {
                let address = held[idx % held.len()];
                allocator.record_stream(address, stream(number)).unwrap();
            }
            Act::Finish(number) => allocator.driver_mut().finish(stream(number)),
            Act::EmptyCache => {
                let from = allocator.sink().len();
                allocator.empty_cache().unwrap();
                emptied.push(from..allocator.sink().len());
            }
            Act::Give(_) | Act::Share(..) => {}
        }
    }
    Recorded {
        emptied,
        entries: allocator.sink().clone(),
        segments: allocator.segments(),
        statistics: allocator.statistics().clone(),
        conf: case.conf,
        settings,
    }
}

impl Recorded {
    /// The snapshot of it, without the first `lost` entries.
    pub(crate) fn snapshot(&self, lost: usize, stacks: Stacks) -> Snapshot {
        let mut builder = SnapshotBuilder::new();
        let mut of = |function: &str| {
            let frame = builder.frame("train.py", 7, function);
            builder.stack(&[frame])
        };
        let (usual, emptying) = (of("train"), of("empty_cache"));
        for (idx, entry) in self.entries.iter().enumerate().skip(lost) {
            let stack = match stacks {
                Stacks::None => StackId::EMPTY,
                Stacks::Recorded if self.emptied.iter().any(|range| range.contains(&idx)) => {
                    emptying
                }
                Stacks::Recorded => usual,
            };
            let entry = Entry {
                stack,
                ..written(entry)
            };
            builder.entry(0, &entry);
        }
        for segment in &self.segments {
            builder.segment(info(segment));
            for block in &segment.blocks {
                builder.block(Block {
                    address: block.address,
                    size: block.size,
                    requested_size: block.requested,
                    state: match block.state {
                        allocator::BlockState::Allocated => BlockState::Allocated,
                        allocator::BlockState::PendingFree => BlockState::PendingFree,
                        allocator::BlockState::Inactive => BlockState::Inactive,
                    },
                    stack: StackId::EMPTY,
                });
            }
        }
        builder.settings(RecordedSettings {
            conf: self.conf.to_owned(),
            max_split_size: self.settings.max_split_size,
            garbage_collection_threshold: self.settings.garbage_collection_threshold,
            expandable_segments: self.settings.expandable_segments,
            roundup_power2_divisions: (0..16)
                .map(|slot| (1 << slot, self.settings.roundup_power2_divisions[slot]))
                .collect(),
            others: Vec::new(),
        });
        builder.finish()
    }
}

fn info(segment: &allocator::Segment) -> SegmentInfo {
    SegmentInfo {
        device: 0,
        address: segment.address,
        total_size: segment.size,
        allocated_size: segment.allocated(),
        active_size: segment.active(),
        requested_size: segment.requested(),
        stream: StreamHandle::new(segment.stream.handle),
        kind: match segment.half {
            allocator::Half::Small => SegmentKind::Small,
            allocator::Half::Large => SegmentKind::Large,
        },
        pool: PoolId(segment.pool.0, segment.pool.1),
        is_expandable: matches!(segment.kind, allocator::SegmentKind::Expandable { .. }),
        stack: StackId::EMPTY,
    }
}

fn written(entry: &TraceEntry) -> Entry {
    Entry {
        action: Action::from_word(entry.action.name()).unwrap(),
        address: entry.address,
        size: entry.size,
        stream: StreamHandle::new(entry.stream),
        time: None,
        stack: StackId::EMPTY,
        pool: None,
        compile_context: None,
        user_metadata: None,
        internal_metadata: None,
    }
}

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1_u64..4_000,
        2 => 4_000_u64..1_100_000,
        2 => 1_100_000_u64..12_000_000,
        1 => 12_000_000_u64..70_000_000,
    ]
}

fn any_act(n_streams: u8) -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (any_size(), 0..n_streams).prop_map(|(size, number)| Act::Take(size, number)),
        8 => any::<usize>().prop_map(Act::Give),
        2 => (any::<usize>(), 0..n_streams).prop_map(|(idx, number)| Act::Share(idx, number)),
        1 => (0..n_streams).prop_map(Act::Finish),
        1 => Just(Act::EmptyCache),
    ]
}

/// Cases of one stream on a small card, which runs out of memory, or of three on a large one.
pub(crate) fn any_decided_case(minors: &'static [u16]) -> impl Strategy<Value = Case> {
    let small = any_case(minors, 1, Bytes::from_mib(256));
    prop_oneof![small, any_case(minors, 3, Bytes::from_gib(8))]
}

pub(crate) fn any_case(
    minors: &'static [u16],
    n_streams: u8,
    card: Bytes,
) -> impl Strategy<Value = Case> {
    let conf = prop::sample::select(vec![
        "",
        "",
        "expandable_segments:True",
        "max_split_size_mb:64",
        "roundup_power2_divisions:4",
    ]);
    let acts = prop::collection::vec(any_act(n_streams), 1..120);
    (prop::sample::select(minors), conf, acts).prop_map(move |(minor, conf, acts)| Case {
        minor,
        conf,
        card,
        acts,
    })
}
