//! What is written is read again as the same, whatever it is.

use oomproof_snapshot::{
    Action, Annotation, Block, BlockState, Entry, PoolId, RecordedSettings, SegmentInfo,
    SegmentKind, SettingValue, Snapshot, SnapshotBuilder, StreamHandle, write_snapshot,
};
use oomproof_units::{Bytes, DeviceAddress, Micros};
use proptest::prelude::*;

/// An entry with texts in place of numbers.
#[derive(Clone, Debug)]
struct Event {
    device: u32,
    action: usize,
    address: u64,
    size: u64,
    stream: u64,
    time: Option<u64>,
    stack: Vec<u8>,
    pool: Option<(u64, u64)>,
    texts: [Option<u8>; 3],
}

fn event() -> impl Strategy<Value = Event> {
    (
        (0_u32..3, 0_usize..12, any::<u64>(), any::<u64>()),
        prop_oneof![Just(0_u64), any::<u64>()],
        prop::option::of(0..u64::MAX),
        prop::collection::vec(any::<u8>(), 0..4),
        prop::option::of((any::<u64>(), 0_u64..3)),
        prop::array::uniform3(prop::option::of(0_u8..3)),
    )
        .prop_map(
            |((device, action, address, size), stream, time, stack, pool, texts)| Event {
                device,
                action,
                address,
                size,
                stream,
                time,
                stack,
                pool,
                texts,
            },
        )
}

/// Size, state, requested size and line.
type BlockRow = (u64, u8, u64, u8);

#[derive(Clone, Debug)]
struct Layout {
    /// Blocks, pool, small, expandable.
    segments: Vec<(Vec<BlockRow>, u64, bool, bool)>,
}

fn layout() -> impl Strategy<Value = Layout> {
    let block = (1_u64..1 << 40, 0_u8..3, any::<u64>(), any::<u8>());
    let segment = (
        prop::collection::vec(block, 0..5),
        0_u64..3,
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec(segment, 0..4).prop_map(|segments| Layout { segments })
}

fn settings() -> impl Strategy<Value = RecordedSettings> {
    (
        ".{0,20}",
        prop::option::of(0_u64..1 << 62),
        any::<bool>(),
        prop::collection::vec((any::<u64>(), any::<u64>()), 0..3),
        any::<i64>(),
    )
        .prop_map(
            |(conf, max_split_size, expandable_segments, mut divisions, number)| {
                divisions.dedup_by_key(|(from, _)| *from);
                RecordedSettings {
                    conf,
                    max_split_size: max_split_size.map(Bytes::new),
                    garbage_collection_threshold: 0.25,
                    expandable_segments,
                    roundup_power2_divisions: divisions,
                    others: vec![
                        (
                            "pinned_num_register_threads".to_owned(),
                            SettingValue::Number(number),
                        ),
                        ("a_flag".to_owned(), SettingValue::Flag(true)),
                        ("a_fraction".to_owned(), SettingValue::Fraction(0.5)),
                        ("a_text".to_owned(), SettingValue::Text("x".to_owned())),
                    ],
                }
            },
        )
}

fn build(events: &[Event], layout: &Layout, settings: Option<RecordedSettings>) -> Snapshot {
    let mut builder = SnapshotBuilder::new();
    let mut next = 1_u64 << 40;
    for (blocks, pool, is_small, is_expandable) in &layout.segments {
        let total: u64 = blocks.iter().map(|block| block.0).sum();
        let stack = builder.stack(&[]);
        builder.segment(SegmentInfo {
            device: *pool as u32,
            address: DeviceAddress::new(next),
            total_size: Bytes::new(total),
            allocated_size: Bytes::new(total / 2),
            active_size: Bytes::new(total / 2),
            requested_size: Bytes::new(total / 3),
            stream: StreamHandle::new(*pool),
            kind: if *is_small {
                SegmentKind::Small
            } else {
                SegmentKind::Large
            },
            pool: PoolId(*pool, 1),
            is_expandable: *is_expandable,
            stack,
        });
        for (size, state, requested, line) in blocks {
            let frame = builder.frame("blocks.py", u32::from(*line), "f");
            let stack = builder.stack(&[frame]);
            builder.block(Block {
                address: DeviceAddress::new(next),
                size: Bytes::new(*size),
                requested_size: Bytes::new(*requested),
                state: [
                    BlockState::Allocated,
                    BlockState::PendingFree,
                    BlockState::Inactive,
                ][usize::from(*state)],
                stack,
            });
            next += size;
        }
        next += 512;
    }
    for event in events {
        let unknown = builder.text("teleported");
        let frames: Vec<_> = event
            .stack
            .iter()
            .map(|line| {
                builder.frame(
                    ["a.py", "b.py"][usize::from(line % 2)],
                    u32::from(*line),
                    "f",
                )
            })
            .collect();
        let stack = builder.stack(&frames);
        let [compile_context, user_metadata, internal_metadata] = event.texts.map(|text| {
            text.map(|text| {
                builder.text(["N/A", "", "Torch-Compiled Region: 0/1"][usize::from(text)])
            })
        });
        let action = Action::KNOWN.get(event.action).copied();
        builder.entry(
            event.device,
            &Entry {
                action: action.unwrap_or(Action::Unknown(unknown)),
                address: DeviceAddress::new(event.address),
                size: Bytes::new(event.size),
                stream: StreamHandle::new(event.stream),
                time: event.time.map(Micros::new),
                stack,
                pool: event.pool.map(|(first, second)| PoolId(first, second)),
                compile_context,
                user_metadata,
                internal_metadata,
            },
        );
    }
    if let Some(settings) = settings {
        builder.settings(settings);
        let (name, stage) = (
            builder.text("Optimizer.step#Adam.step"),
            builder.text("START"),
        );
        builder.annotation(Annotation {
            name,
            stage,
            device: 0,
            time: Some(Micros::new(7)),
        });
    }
    builder.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_what_it_wrote(events in prop::collection::vec(event(), 0..40), layout in layout(), settings in prop::option::of(settings())) {
        let snapshot = build(&events, &layout, settings);
        let written = write_snapshot(&snapshot);
        let again = Snapshot::read(&written).unwrap();
        prop_assert_eq!(&again, &snapshot);
        prop_assert_eq!(again.origin().schema, snapshot.origin().schema);
        prop_assert_eq!(write_snapshot(&again), written);
    }

    #[test]
    fn equality_sees_a_difference(events in prop::collection::vec(event(), 1..10), layout in layout(), at in any::<prop::sample::Index>()) {
        let snapshot = build(&events, &layout, None);
        let mut changed = events.clone();
        let at = at.index(events.len());
        changed[at].size ^= 1;
        prop_assert!(build(&changed, &layout, None) != snapshot);
        let mut changed = events.clone();
        changed[at].stack.push(3);
        prop_assert!(build(&changed, &layout, None) != snapshot);
    }
}

#[test]
fn a_batch_of_frames_is_not_the_end_of_a_stack() {
    let mut builder = SnapshotBuilder::new();
    let frames: Vec<_> = (0..2500)
        .map(|line| builder.frame("deep.py", line, "recurse"))
        .collect();
    let stack = builder.stack(&frames);
    builder.entry(
        0,
        &Entry {
            action: Action::Alloc,
            address: DeviceAddress::new(512),
            size: Bytes::new(512),
            stream: StreamHandle::DEFAULT,
            time: None,
            stack,
            pool: None,
            compile_context: None,
            user_metadata: None,
            internal_metadata: None,
        },
    );
    let snapshot = builder.finish();
    let again = Snapshot::read(&write_snapshot(&snapshot)).unwrap();
    assert_eq!(again, snapshot);
    assert_eq!(
        again
            .stacks()
            .frames(again.traces()[0].entry(0).stack)
            .len(),
        2500
    );
}
