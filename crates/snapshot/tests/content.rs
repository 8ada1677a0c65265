//! Pickles that are well-formed and whose content is not: each is refused with what is wrong and where.

use oomproof_pickle::Writer;
use oomproof_snapshot::{CutEvidence, Snapshot, TraceStart};
use proptest::prelude::*;

/// A block of the test: address, size, state, requested size.
type Block = (u64, u64, &'static str, u64);

fn write_segment(writer: &mut Writer, address: u64, size: u64, blocks: &[Block]) {
    writer.begin_dict();
    for (key, value) in [
        ("device", 0),
        ("address", address),
        ("total_size", size),
        ("stream", 0),
    ] {
        writer.text(key);
        writer.unsigned(value);
    }
    writer.text("segment_type");
    writer.text("large");
    writer.text("blocks");
    writer.begin_list();
    for &(address, size, state, requested) in blocks {
        writer.begin_dict();
        for (key, value) in [
            ("address", address),
            ("size", size),
            ("requested_size", requested),
        ] {
            writer.text(key);
            writer.unsigned(value);
        }
        writer.text("state");
        writer.text(state);
        writer.end();
    }
    writer.end();
    writer.end();
}

/// An entry of the test: action, address, size.
type Event = (&'static str, u64, u64);

fn write_entry(writer: &mut Writer, &(action, address, size): &Event) {
    writer.begin_dict();
    writer.text("action");
    writer.text(action);
    for (key, value) in [
        (
            if action == "oom" {
                "device_free"
            } else {
                "addr"
            },
            address,
        ),
        ("size", size),
        ("stream", 0),
    ] {
        writer.text(key);
        writer.unsigned(value);
    }
    writer.end();
}

fn pickle(segments: &[(u64, u64, &[Block])], trace: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.begin_dict();
    writer.text("segments");
    writer.begin_list();
    for (address, size, blocks) in segments {
        write_segment(&mut writer, *address, *size, blocks);
    }
    writer.end();
    writer.text("device_traces");
    writer.begin_list();
    writer.begin_list();
    for event in trace {
        write_entry(&mut writer, event);
    }
    writer.end();
    writer.end();
    writer.end();
    writer.finish()
}

fn check_error(segments: &[(u64, u64, &[Block])], expected: &str) {
    let error = Snapshot::read(&pickle(segments, &[]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(expected) && error.contains("at byte "),
        "{error}"
    );
}

#[test]
fn refuses_segments_that_cannot_be() {
    const LIVE: &str = "active_allocated";
    check_error(
        &[(512, 1024, &[]), (512, 1024, &[])],
        "the segment at 0x200 overlaps",
    );
    check_error(
        &[(512, 1024, &[]), (1024, 1024, &[])],
        "the segment at 0x400 overlaps",
    );
    check_error(
        &[(u64::MAX, 2, &[])],
        "the segment at 0xffffffffffffffff reaches past the end",
    );
    check_error(
        &[(512, 1024, &[(512, 1025, LIVE, 1)])],
        "the block at 0x200 overlaps",
    );
    check_error(
        &[(512, 1024, &[(0, 512, LIVE, 1)])],
        "the block at 0x0 overlaps",
    );
    check_error(
        &[(512, 1024, &[(512, 512, LIVE, 1), (512, 512, LIVE, 1)])],
        "the block at 0x200 overlaps",
    );
    check_error(
        &[(512, 1024, &[(512, u64::MAX, LIVE, 1)])],
        "the block at 0x200 reaches past the end",
    );
    check_error(
        &[(512, 1024, &[(512, 512, "gone", 1)])],
        "`state` of a block is `gone`",
    );
}

fn check_written(write: impl FnOnce(&mut Writer), expected: &str) {
    let mut writer = Writer::new();
    write(&mut writer);
    let error = Snapshot::read(&writer.finish()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn refuses_values_of_the_wrong_kind() {
    check_written(
        |writer| {
            writer.begin_dict();
            writer.text("action");
            writer.text("alloc");
            writer.text("size");
            writer.int(-1);
            writer.text("addr");
            writer.int(1);
        },
        "`size` of an entry is not a whole number from 0 on, at byte",
    );
    check_written(
        |writer| {
            writer.begin_dict();
            writer.text("segments");
            writer.int(3);
        },
        "`segments` of the snapshot is not a list of segments",
    );
    check_written(
        |writer| {
            writer.begin_dict();
            writer.text("device_traces");
            writer.begin_list();
            writer.begin_list();
            writer.int(3);
        },
        "`device_traces` of the snapshot is not a list with a list of entries for each device",
    );
}

#[test]
fn refuses_the_same_entry_twice() {
    check_written(
        |writer| {
            writer.begin_dict();
            writer.text("device_traces");
            writer.begin_list();
            let trace = writer.begin_list();
            write_entry(writer, &("alloc", 1, 1));
            writer.end();
            writer.again(trace);
        },
        "the same entry stands in two places",
    );
}

#[test]
fn names_what_it_does_not_know() {
    let mut writer = Writer::new();
    writer.begin_dict();
    writer.text("segments");
    writer.begin_list();
    writer.end();
    writer.text("zeta");
    writer.begin_list();
    writer.end();
    writer.text("alpha");
    writer.none();
    let snapshot = Snapshot::read(&writer.finish()).unwrap();
    assert_eq!(snapshot.origin().unknown_keys, ["alpha", "zeta"]);
}

fn start_of(segments: &[(u64, u64, &[Block])], trace: &[Event]) -> TraceStart {
    let snapshot = Snapshot::read(&pickle(segments, trace)).unwrap();
    snapshot.summary().devices[0].start
}

#[test]
fn tells_how_a_trace_starts() {
    use oomproof_units::Bytes;
    let held: &[Block] = &[
        (4096, 512, "active_allocated", 500),
        (4608, 512, "inactive", 7),
    ];
    let segments: &[(u64, u64, &[Block])] = &[(4096, 1024, held)];
    let whole: &[Event] = &[("segment_alloc", 4096, 1024), ("alloc", 4096, 500)];
    assert_eq!(start_of(segments, whole), TraceStart::Empty);
    assert_eq!(
        start_of(segments, &whole[1..]),
        TraceStart::MidRun {
            requested: Bytes::ZERO,
            reserved: Bytes::new(1024)
        }
    );
    assert_eq!(
        start_of(
            segments,
            &[("free_requested", 4608, 30), ("free_completed", 4608, 30)]
        ),
        TraceStart::MidRun {
            requested: Bytes::new(530),
            reserved: Bytes::new(1024)
        }
    );
    assert_eq!(start_of(segments, &[]), TraceStart::NoTrace);
    assert_eq!(
        start_of(segments, &[("snapshot", 0, 512)]),
        TraceStart::NoTrace
    );
    let frees_missing: &[Event] = &[
        ("segment_alloc", 4096, 1024),
        ("alloc", 4096, 500),
        ("alloc", 4608, 7),
    ];
    assert_eq!(start_of(segments, frees_missing), TraceStart::Inconsistent);
}

#[test]
fn finds_peak_failure_and_cut() {
    let held: &[Block] = &[(4096, 512, "active_allocated", 500)];
    let trace: &[Event] = &[
        ("free_completed", 9000, 5),
        ("alloc", 4608, 100),
        ("alloc", 5120, 50),
        ("free_requested", 4608, 100),
        ("free_completed", 4608, 100),
        ("free_requested", 5120, 50),
        ("oom", 77, 1024),
        ("free_completed", 5120, 50),
    ];
    let snapshot = Snapshot::read(&pickle(&[(4096, 512, held)], trace)).unwrap();
    let summary = snapshot.summary();
    let device = &summary.devices[0];
    let peak = device.peak.as_ref().unwrap();
    assert_eq!((peak.requested.get(), peak.entry), (650, Some(2)));
    let parts: u64 = device
        .peak_parts
        .iter()
        .map(|part| part.requested.get())
        .sum();
    assert_eq!(parts, 650);
    assert_eq!(device.cut, Some(CutEvidence::BeginsInsideFree));
    assert_eq!(device.out_of_memory.len(), 1);
    assert_eq!(device.out_of_memory[0].device_free.get(), 77);
    assert!(device.ends_in_out_of_memory);
    assert!(summary.to_text(&snapshot).contains("out of memory"));
}

/// Work grows with the length of the file and not with its square.
#[test]
fn is_not_slowed_down_by_tricks() {
    const MANY: usize = 60_000;
    let keys = b"\x80\x04\x8c\x08filename\x94\x8c\x04line\x94\x8c\x04name\x94\x8c\x06stream\x94"
        .as_slice();
    let frame = b"}(h\x00h\x00h\x02h\x00h\x01K\x01u\x94".as_slice();
    let many = |part: &dyn Fn(usize) -> Vec<u8>| (0..MANY).flat_map(part).collect::<Vec<u8>>();
    let noted = many(&|number| {
        let note = format!("{number:05}");
        [
            b"}(h\x00h\x00h\x02h\x00h\x01K\x01h\x03\x8c\x05",
            note.as_bytes(),
            b"u0",
        ]
        .concat()
    });
    let one_by_one = many(&|_| b"h\x04a".to_vec());
    let in_turn = many(&|_| b"h\x05h\x04a0h\x06h\x04a0".to_vec());
    let wide = many(&|_| b"h\x03K\x01".to_vec());
    let referred = many(&|_| b"]h\x04a0".to_vec());
    let files = [
        [keys, &noted, b"."].concat(),
        [keys, frame, b"0]", &one_by_one, b"."].concat(),
        [keys, frame, b"0]\x940]\x940", &in_turn, b"h\x05."].concat(),
        [keys, b"}\x94(", &wide, b"u0", &referred, b"."].concat(),
    ];
    for file in files {
        assert!(Snapshot::read(&file).is_err());
    }
}

proptest! {
    #[test]
    fn survives_damage(at in any::<prop::sample::Index>(), byte in any::<u8>(), second in any::<prop::sample::Index>()) {
        let held: &[Block] = &[(4096, 512, "active_allocated", 500), (4608, 512, "inactive", 7)];
        let trace: &[Event] = &[("segment_alloc", 4096, 1024), ("alloc", 4096, 500), ("oom", 4, 9)];
        let mut file = pickle(&[(4096, 1024, held)], trace);
        let at = at.index(file.len());
        file[at] = byte;
        let from = second.index(file.len());
        file[from] = byte.wrapping_add(1);
        if let Ok(snapshot) = Snapshot::read(&file) {
            let _ = snapshot.summary().to_text(&snapshot);
            let _ = oomproof_snapshot::write_snapshot(&snapshot);
        }
    }

    /// The peak by running sums is that of a table of live blocks.
    #[test]
    fn the_peak_is_that_of_a_table(steps in prop::collection::vec((0_u64..6, 1_u64..100), 0..60)) {
        let mut live = std::collections::BTreeMap::new();
        let mut trace: Vec<Event> = vec![("segment_alloc", 0, 4096)];
        let (mut highest, mut at) = (0, None);
        for (slot, size) in steps {
            if let Some(size) = live.remove(&slot) {
                trace.push(("free_requested", slot * 512, size));
                trace.push(("free_completed", slot * 512, size));
            } else {
                live.insert(slot, size);
                trace.push(("alloc", slot * 512, size));
                let sum: u64 = live.values().sum();
                if sum > highest {
                    highest = sum;
                    at = Some(trace.len() - 1);
                }
            }
        }
        let blocks: Vec<Block> = live.iter().map(|(slot, size)| (slot * 512, 512, "active_allocated", *size)).collect();
        let snapshot = Snapshot::read(&pickle(&[(0, 4096, &blocks)], &trace)).unwrap();
        let peak = snapshot.peak(0).unwrap();
        prop_assert_eq!((peak.requested.get(), peak.entry), (highest, at));
        let parts: u64 = snapshot.peak_parts(0, &peak).iter().map(|part| part.requested.get()).sum();
        prop_assert_eq!(parts, highest);
        prop_assert_eq!(snapshot.summary().devices[0].start, TraceStart::Empty);
    }
}
