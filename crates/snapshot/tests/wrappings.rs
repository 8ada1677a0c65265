//! The same snapshot in every wrapping, and wrappings that are damaged or tricks.

use std::io::Write as _;

use oomproof_snapshot::{
    Action, Container, Entry, Limits, PoolId, ReleaseRange, Snapshot, SnapshotBuilder,
    StreamHandle, write_snapshot,
};
use oomproof_units::{Bytes, DeviceAddress, Micros};

fn entry(action: Action, address: u64, size: u64) -> Entry {
    Entry {
        action,
        address: DeviceAddress::new(address),
        size: Bytes::new(size),
        stream: StreamHandle::DEFAULT,
        time: Some(Micros::new(1_000_000 + address)),
        stack: SnapshotBuilder::new().stack(&[]),
        pool: Some(PoolId::DEFAULT),
        compile_context: None,
        user_metadata: None,
        internal_metadata: None,
    }
}

fn snapshot() -> Snapshot {
    let mut builder = SnapshotBuilder::new();
    for number in 1..200 {
        builder.entry(0, &entry(Action::Alloc, number * 512, number));
    }
    builder.finish()
}

fn pickle() -> Vec<u8> {
    write_snapshot(&snapshot())
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn base64(content: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in content.chunks(3) {
        let bits = part
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte))
            << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= part.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

fn html(content: &[u8]) -> Vec<u8> {
    let text = base64(content);
    format!(
        "\n<!DOCTYPE html>\n<html><body><script type=\"module\">\nimport {{add_local_files}} from \"x\"\nconst local_files = [{{\"name\": \"snapshot.pickle\", \"base64\": \"{text}\"}}]\nadd_local_files(local_files, 'Active Memory Timeline')\n</script></body></html>"
    )
    .into_bytes()
}

/// A member of an archive: name, method, what is stored, length before compression.
type Member<'a> = (&'a str, u16, &'a [u8], usize);

fn zip(members: &[Member<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for &(name, method, packed, len) in members {
        let header_at = out.len() as u32;
        let mut common = Vec::new();
        common.extend(0_u16.to_le_bytes());
        common.extend(method.to_le_bytes());
        common.extend([0; 8]);
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((len as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        out.extend(b"PK\x03\x04\x00\x00");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(packed);
        directory.extend(b"PK\x01\x02\x00\x00\x00\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(header_at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let directory_at = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\x00\x00\x00\x00");
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(directory_at.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// What `torch.save` makes of a pickle.
fn archive(content: &[u8]) -> Vec<u8> {
    zip(&[
        ("snap/data.pkl", 0, content, content.len()),
        ("snap/byteorder", 0, b"little", 6),
        ("snap/version", 0, b"3\n", 2),
    ])
}

fn legacy(content: &[u8]) -> Vec<u8> {
    let before: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\r\x00\x00\x00little_endianq\x02\x88u.";
    [before, content, b"\x80\x02]q\x00."].concat()
}

fn check(file: &[u8], expected: &[Container]) {
    let read = Snapshot::read(file).unwrap();
    assert_eq!(read, snapshot());
    let inner = [expected, &[Container::Pickle { protocol: 4 }]].concat();
    assert_eq!(read.origin().containers, inner);
}

fn check_error(file: &[u8], expected: &str) {
    let error = Snapshot::read(file).unwrap_err().to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn reads_every_wrapping() {
    let plain = pickle();
    check(&plain, &[]);
    check(&gzip(&plain), &[Container::Gzip]);
    check(
        &[gzip(&plain[..100]), gzip(&plain[100..])].concat(),
        &[Container::Gzip],
    );
    check(&zstd(&plain), &[Container::Zstd]);
    check(
        &[
            zstd(&plain[..100]),
            b"\x50\x2a\x4d\x18\x02\x00\x00\x00xx".to_vec(),
            zstd(&plain[100..]),
        ]
        .concat(),
        &[Container::Zstd],
    );
    check(&archive(&plain), &[Container::Zip]);
    check(
        &zip(&[("run/snap.pickle", 8, &deflate(&plain), plain.len())]),
        &[Container::Zip],
    );
    check(&html(&plain), &[Container::Html]);
    check(&legacy(&plain), &[Container::TorchLegacy]);
    check(&gzip(&archive(&plain)), &[Container::Gzip, Container::Zip]);
    check(&gzip(&html(&plain)), &[Container::Gzip, Container::Html]);
}

#[test]
fn refuses_what_is_no_snapshot() {
    check_error(b"", "the file is empty");
    check_error(b"\x00\x01\x02", "none of the kinds");
    check_error(b"(dp0\n.", "none of the kinds");
    check_error(b"<html></html>", "the page holds no snapshot");
    check_error(b"{\"a\": [1, 2]}", "the JSON holds no snapshot");
    check_error(
        b"{\"traceEvents\": [1,",
        "not the JSON of a profiler at line 1, column 19",
    );
    check_error(b"oomproof", "not a profile of oomproof");
    check_error(
        b"\x80\x04}.",
        "the pickle holds an empty dictionary and no snapshot",
    );
    check_error(
        b"\x80\x04}\x8c\x01aK\x01s.",
        "a dictionary without segments and traces",
    );
    check_error(
        b"\x80\x02cposix\nsystem\n.",
        "names the global `posix.system` at byte 2",
    );
}

#[test]
fn survives_every_cut() {
    let mut legacy = legacy(&pickle());
    // What follows the object is not read.
    legacy.truncate(legacy.len() - 6);
    for whole in [
        pickle(),
        gzip(&pickle()),
        zstd(&pickle()),
        archive(&pickle()),
        legacy,
    ] {
        for len in (0..whole.len()).step_by(41).chain([whole.len() - 1]) {
            assert!(Snapshot::read(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn refuses_bombs() {
    let zeros = vec![0; 4 << 20];
    let limits = Limits {
        unfolded_bytes: 1 << 20,
        ..Limits::default()
    };
    let check = |file: &[u8]| {
        let error = Snapshot::read_within(file, &limits)
            .unwrap_err()
            .to_string();
        assert!(error.contains("unfolds to more than"), "{error}");
    };
    check(&gzip(&zeros));
    check(&zstd(&zeros));
    check(&zip(&[("a.pkl", 8, &deflate(&zeros), zeros.len())]));
    let nested = (0..6).fold(pickle(), |content, _| gzip(&content));
    check_error(&nested, "wrapped more than 4 times");
}

#[test]
fn refuses_tricks_with_archives() {
    let plain = pickle();
    check_error(&zip(&[]), "the zip archive holds no snapshot");
    check_error(
        &zip(&[
            ("a/data.pkl", 0, &plain, plain.len()),
            ("b/data.pkl", 0, &plain, plain.len()),
        ]),
        "several files",
    );
    check_error(
        &zip(&[("a.pkl", 0, &plain, plain.len() + 1)]),
        "another length",
    );
    check_error(
        &zip(&[("a.pkl", 8, &deflate(&plain), plain.len() - 1)]),
        "another length",
    );
    check_error(
        &zip(&[("a.pkl", 14, &plain, plain.len())]),
        "a way that is not supported",
    );
    let good = archive(&plain);
    let directory_at = good
        .windows(4)
        .position(|window| window == b"PK\x01\x02")
        .unwrap();
    let changed = |offset: usize, bytes: &[u8], expected: &str| {
        let mut file = good.clone();
        file[directory_at + offset..][..bytes.len()].copy_from_slice(bytes);
        check_error(&file, expected);
    };
    changed(8, &[1], "it is encrypted");
    changed(20, &[0xff, 0xff, 0xff, 0x7f], "reaches past its place");
    changed(42, &[0xff, 0xff, 0xff, 0x7f], "outside the file");
    changed(46, b"S", "not that of the directory");
    let mut file = good.clone();
    let end = file.len() - 22;
    file[end + 10] = 200;
    check_error(&file, "fewer files than it says");
}

#[test]
fn reads_traces_of_the_profiler() {
    let trace = br#"{"schemaVersion": 1, "baseTimeNanoseconds": 2000000, "traceEvents": [
        {"ph": "X", "name": "aten::empty [not memory]", "ts": 1.5, "dur": 3, "args": {"Addr": "none"}},
        {"ph": "i", "name": "[memory]", "ts": 20.25, "args": {"Total Allocated": 0, "Bytes": -512, "Addr": 4096, "Device Id": 1, "Device Type": 1}},
        {"ph": "i", "name": "[memory]", "ts": 10, "args": {"Total Allocated": 512, "Bytes": 512, "Addr": 4096, "Device Id": 1, "Device Type": 1}},
        {"ph": "i", "name": "[memory]", "ts": 11, "args": {"Bytes": 64, "Addr": 77, "Device Id": -1, "Device Type": 0}},
        {"ph": "i", "name": "[OutOfMemory]", "ts": 30, "args": {"Bytes": 1024, "Device Id": 1, "Device Type": 1}}]}"#;
    let snapshot = Snapshot::read(&gzip(trace)).unwrap();
    assert_eq!(
        snapshot.origin().containers,
        [Container::Gzip, Container::ChromeTrace]
    );
    let trace = &snapshot.traces()[1];
    let rows: Vec<_> = trace
        .entries()
        .map(|entry| {
            (
                entry.action,
                entry.address.get(),
                entry.size.get(),
                entry.time.map(Micros::get),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Action::Alloc, 4096, 512, Some(2010)),
            (Action::FreeRequested, 4096, 512, Some(2020)),
            (Action::FreeCompleted, 4096, 512, Some(2020)),
            (Action::OutOfMemory, 0, 1024, Some(2030)),
        ]
    );
    assert_eq!(
        snapshot.summary().devices[0]
            .peak
            .as_ref()
            .unwrap()
            .requested,
        Bytes::new(512)
    );
}

#[test]
fn reads_profiles_of_virtual_runs() {
    use oomproof_profile::{AllocatorEvent, DriverAction, Phase, Record, encode, layout};
    let mut file = layout::new_header(1);
    let event = |nanos, address, size| AllocatorEvent {
        nanos,
        address,
        size,
        allocated: 0,
        reserved: 0,
        device: 0,
        phase: Phase::Forward,
        step: 0,
        site: 1,
        module: 0,
    };
    let records = [
        Record::Text("train.py".to_owned()),
        Record::Text("forward".to_owned()),
        Record::Site {
            file: 1,
            line: 7,
            function: 2,
        },
        Record::Driver {
            nanos: 1000,
            action: DriverAction::Malloc,
            device: 0,
            address: 1 << 20,
            size: 2 << 20,
            used: 0,
        },
        Record::Alloc(event(2000, 1 << 20, 512)),
        Record::Free(event(3000, 1 << 20, 512)),
    ];
    for record in &records {
        encode(record, &mut file);
    }
    layout::set_committed(&mut file);
    let snapshot = Snapshot::read(&file).unwrap();
    let trace = &snapshot.traces()[0];
    assert_eq!(
        trace.actions(),
        [
            Action::SegmentAlloc,
            Action::Alloc,
            Action::FreeRequested,
            Action::FreeCompleted
        ]
    );
    let frame = snapshot.stacks().frames(trace.stacks()[1]).next().unwrap();
    assert_eq!(
        (
            snapshot.text(frame.file),
            frame.line,
            snapshot.text(frame.function)
        ),
        ("train.py", 7, "forward")
    );
    assert_eq!(snapshot.origin().lacks.len(), 3);
    assert_eq!(snapshot.origin().releases, ReleaseRange::ANY);
}
