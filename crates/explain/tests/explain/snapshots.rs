//! Snapshots of our own making: who held the memory when a request failed, and whether pieces were what was missing.

use oomproof_explain::{CauseId, Explanation, Moment, explain_snapshot};
use oomproof_snapshot::{
    Action, Entry, PoolId, SegmentInfo, SegmentKind, SnapshotBuilder, StackId, StreamHandle,
};
use oomproof_units::{Bytes, DeviceAddress};

fn entry(action: Action, address: u64, size: Bytes, stack: StackId) -> Entry {
    Entry {
        action,
        address: DeviceAddress::new(address),
        size,
        stream: StreamHandle::DEFAULT,
        time: None,
        stack,
        pool: None,
        compile_context: None,
        user_metadata: None,
        internal_metadata: None,
    }
}

/// Two lines allocate blocks of 1 GiB, of which every second of the second line is freed again; then 3 GiB fail with
/// 256 MiB free, and everything is freed.
fn recorded(kept: u64, freed: u64) -> Explanation {
    let mut builder = SnapshotBuilder::new();
    let layer = builder.frame(
        "/e/site-packages/torch/nn/modules/linear.py",
        125,
        "forward",
    );
    let own = builder.frame("net.py", 7, "forward");
    let other = builder.frame("net.py", 9, "forward");
    let (kept_stack, freed_stack) = (builder.stack(&[layer, own]), builder.stack(&[layer, other]));
    let gib = Bytes::from_gib(1);
    let all = kept + freed;
    builder.entry(
        0,
        &entry(
            Action::SegmentAlloc,
            1 << 40,
            Bytes::from_gib(all),
            kept_stack,
        ),
    );
    let address = |index: u64| (1 << 40) + (index << 30);
    for index in 0..all {
        let stack = if index < kept {
            kept_stack
        } else {
            freed_stack
        };
        builder.entry(0, &entry(Action::Alloc, address(index), gib, stack));
    }
    for index in kept..all {
        builder.entry(
            0,
            &entry(Action::FreeRequested, address(index), gib, StackId::EMPTY),
        );
    }
    builder.entry(
        0,
        &entry(
            Action::OutOfMemory,
            256 << 20,
            Bytes::from_gib(3),
            kept_stack,
        ),
    );
    for index in 0..kept {
        builder.entry(
            0,
            &entry(Action::FreeRequested, address(index), gib, StackId::EMPTY),
        );
    }
    builder.segment(SegmentInfo {
        device: 0,
        address: DeviceAddress::new(1 << 40),
        total_size: Bytes::from_gib(all),
        allocated_size: Bytes::ZERO,
        active_size: Bytes::ZERO,
        requested_size: Bytes::ZERO,
        stream: StreamHandle::DEFAULT,
        kind: SegmentKind::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack: StackId::EMPTY,
    });
    explain_snapshot(&builder.finish(), None).unwrap()
}

fn check(kept: u64, freed: u64, first: CauseId) {
    let found = recorded(kept, freed);
    assert_eq!(found.causes[0].id, first, "{:?}", found.causes);
    let card = found.card.unwrap();
    assert_eq!(card.live_bytes, Bytes::from_gib(kept));
    assert_eq!(card.idle_bytes, Bytes::from_gib(freed));
    assert_eq!(card.free_bytes, Some(Bytes::from_mib(256)));
    assert_eq!(found.phase, Some(Moment::Forward));
    let place = found.failures[0].r#where.as_ref().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("net.py", 7));
}

#[test]
fn full_or_in_pieces() {
    check(20, 0, CauseId::TooBig);
    check(10, 10, CauseId::Fragmentation);
}

#[test]
fn the_lines_that_held_it_are_named() {
    let found = recorded(20, 1);
    let evidence = found.causes[0].evidence.join(" ");
    assert!(
        evidence.contains("net.py:7 forward holds 20.00 GiB"),
        "{evidence}"
    );
    assert!(!evidence.contains("net.py:9"), "{evidence}");
    assert!(
        found.failures[0].message.contains("20 entries follow"),
        "{}",
        found.failures[0].message
    );
}

#[test]
fn without_a_failed_request_there_is_nothing_to_explain() {
    assert_eq!(
        explain_snapshot(&SnapshotBuilder::new().finish(), None),
        None
    );
}
