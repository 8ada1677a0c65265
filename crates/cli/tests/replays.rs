use std::fs;

use oomproof_allocator::{
    Allocator, BlockState as State, Card, Configuration, Half, Release, Request, TraceEntry,
};
use oomproof_snapshot::{
    Action, Block, BlockState, Entry, PoolId, RecordedSettings, SegmentInfo, SegmentKind,
    SnapshotBuilder, StackId, StreamHandle, write_snapshot,
};
use oomproof_units::{Bytes, DeviceAddress};

use crate::setting::Setting;

/// What a small program does: takes so many KiB from a line of its source, or gives the n-th block back.
#[derive(Clone, Copy)]
enum Act {
    Take(u64, u32),
    Give(usize),
}

/// Runs a program on a card of so many MiB, until memory runs out, and writes the snapshot of it.
fn recorded(acts: &[Act], card_mib: u64) -> Vec<u8> {
    let release = Release::new(2, 8).unwrap();
    let card =
        Card::new(Bytes::from_mib(card_mib), Bytes::ZERO).starting_at(DeviceAddress::new(1 << 40));
    let mut allocator = Allocator::with_trace(Configuration::new(release), card, Vec::new());
    let mut builder = SnapshotBuilder::new();
    let context = builder.text("N/A");
    let mut held = Vec::new();
    let mut lines = Vec::new();
    let mut n_seen = 0;
    for act in acts {
        let line = match *act {
            Act::Take(kib, line) => {
                let request = Request::new(Bytes::from_kib(kib));
                if let Ok(address) = allocator.allocate(request) {
                    held.push((address, line));
                }
                line
            }
            Act::Give(idx) => {
                allocator.free(held[idx].0).unwrap();
                held[idx].1
            }
        };
        lines.extend((n_seen..allocator.sink().len()).map(|_| line));
        n_seen = allocator.sink().len();
    }
    let stack_of = |builder: &mut SnapshotBuilder, line: u32| -> StackId {
        let frame = builder.frame("train.py", line, "step");
        builder.stack(&[frame])
    };
    for (entry, line) in allocator.sink().iter().zip(&lines) {
        let stack = stack_of(&mut builder, *line);
        builder.entry(
            0,
            &Entry {
                stack,
                compile_context: Some(context),
                ..written(entry)
            },
        );
    }
    for segment in allocator.segments() {
        builder.segment(SegmentInfo {
            device: 0,
            address: segment.address,
            total_size: segment.size,
            allocated_size: segment.allocated(),
            active_size: segment.active(),
            requested_size: segment.requested(),
            stream: StreamHandle::DEFAULT,
            kind: if segment.half == Half::Small {
                SegmentKind::Small
            } else {
                SegmentKind::Large
            },
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::EMPTY,
        });
        for block in &segment.blocks {
            let line = held
                .iter()
                .rev()
                .find(|(address, _)| *address == block.address);
            let stack = line.map_or(StackId::EMPTY, |(_, line)| stack_of(&mut builder, *line));
            builder.block(Block {
                address: block.address,
                size: block.size,
                requested_size: block.requested,
                state: if block.state == State::Inactive {
                    BlockState::Inactive
                } else {
                    BlockState::Allocated
                },
                stack,
            });
        }
    }
    builder.settings(RecordedSettings::default());
    write_snapshot(&builder.finish())
}

fn written(entry: &TraceEntry) -> Entry {
    Entry {
        action: Action::from_word(entry.action.name()).unwrap(),
        address: entry.address,
        size: entry.size,
        stream: StreamHandle::new(entry.stream),
        time: Some(oomproof_units::Micros::new(1)),
        stack: StackId::EMPTY,
        pool: None,
        compile_context: None,
        user_metadata: None,
        internal_metadata: None,
    }
}

/// Ever larger blocks come and go, and what stays has its place in the segment of each: none can serve the next.
fn fragmented() -> Vec<Act> {
    (0..5)
        .flat_map(|round| {
            let large = Act::Take((12 + 2 * round as u64) << 10, 10);
            [large, Act::Give(2 * round), Act::Take(8 << 10, 20)]
        })
        .collect()
}

/// Rounds that take 3 MiB for a while and keep 64 KiB.
fn growing(n_rounds: usize) -> Vec<Act> {
    (0..n_rounds)
        .flat_map(|round| {
            [
                Act::Take(3 << 10, 5),
                Act::Take(64, 7),
                Act::Give(2 * round),
            ]
        })
        .collect()
}

/// A setting with snapshots of these programs.
fn setting() -> Setting {
    let setting = Setting::new();
    fs::write(
        setting.path("fragmented.pickle"),
        recorded(&fragmented(), 4096),
    )
    .unwrap();
    fs::write(
        setting.path("small_card.pickle"),
        recorded(&fragmented(), 76),
    )
    .unwrap();
    fs::write(setting.path("early.pickle"), recorded(&growing(3), 4096)).unwrap();
    fs::write(setting.path("late.pickle"), recorded(&growing(12), 4096)).unwrap();
    fs::write(
        setting.path("empty.pickle"),
        write_snapshot(&SnapshotBuilder::new().finish()),
    )
    .unwrap();
    fs::write(setting.path("bad.pickle"), "no pickle").unwrap();
    setting
}

fn check(name: &str, setting: &Setting, line: &str) {
    insta::assert_snapshot!(name, setting.shown(line));
}

#[test]
fn of_made_snapshots() {
    let setting = setting();
    check("replay_recorded", &setting, "replay fragmented.pickle");
    check(
        "replay_conf",
        &setting,
        "replay fragmented.pickle --conf expandable_segments:True",
    );
    check(
        "replay_search",
        &setting,
        "replay small_card.pickle --search --torch 2.8",
    );
    check(
        "replay_hopeless",
        &setting,
        "replay fragmented.pickle --memory 50m --conf max_split_size_mb:32",
    );
    check(
        "replay_json",
        &setting,
        "replay fragmented.pickle --json --conf expandable_segments:True",
    );
    check("replay_growth", &setting, "replay late.pickle --torch 2.8");
    check("diff_grown", &setting, "diff early.pickle late.pickle");
    check(
        "diff_json",
        &setting,
        "diff early.pickle late.pickle --json",
    );
}

#[test]
fn of_what_is_refused() {
    let setting = setting();
    check("replay_empty", &setting, "replay empty.pickle");
    check("replay_bad", &setting, "replay bad.pickle --json");
    check("replay_missing", &setting, "replay none.pickle");
    check(
        "replay_no_device",
        &setting,
        "replay late.pickle --device 3",
    );
    check(
        "replay_unknown_key",
        &setting,
        "replay late.pickle --torch 2.8 --conf large_segment_size_mb:64",
    );
    check(
        "replay_bad_value",
        &setting,
        "replay late.pickle --conf max_split_size_mb:5",
    );
    check(
        "replay_bad_torch",
        &setting,
        "replay late.pickle --torch 1.13",
    );
    check(
        "replay_later_torch",
        &setting,
        "replay late.pickle --torch 2.99",
    );
    check("diff_missing", &setting, "diff late.pickle none.pickle");
}

#[test]
fn what_is_written_is_replayed_again() {
    let setting = setting();
    let output = setting.output("replay late.pickle --write again.pickle --json");
    assert!(output.status.success());
    let again = setting.output("replay again.pickle --json");
    let percent = |stdout: &[u8]| {
        let report: serde_json::Value = serde_json::from_slice(stdout).unwrap();
        assert_eq!(report["devices"][0]["complete"], true);
        (
            report["match_percent"].as_f64(),
            report["devices"][0]["entries"].as_u64(),
        )
    };
    assert_eq!(percent(&output.stdout), percent(&again.stdout));
    assert_eq!(percent(&again.stdout).0, Some(100.0));
}
