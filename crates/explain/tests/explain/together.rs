//! A text together with a snapshot or a run of the same program.

use oomproof_explain::{CauseId, Explanation, Input, explain_with_snapshot};
use oomproof_snapshot::{
    Action, Block, BlockState, Entry, PoolId, SegmentInfo, SegmentKind, Snapshot, SnapshotBuilder,
    StackId, StreamHandle,
};
use oomproof_units::{Bytes, DeviceAddress};

const GIB: u64 = 1 << 30;

fn entry(action: Action, address: u64, size: u64, stack: StackId) -> Entry {
    Entry {
        action,
        address: DeviceAddress::new(address),
        size: Bytes::new(size),
        stream: StreamHandle::DEFAULT,
        time: None,
        stack,
        pool: None,
        compile_context: None,
        user_metadata: None,
        internal_metadata: None,
    }
}

/// One segment of 8 GiB with blocks of 1 GiB of which every second one is given back; then, when `failed` says so,
/// 3 GiB are refused with 256 MiB free.
fn snapshot(failed: bool) -> Snapshot {
    let mut builder = SnapshotBuilder::new();
    let frame = builder.frame("net.py", 7, "forward");
    let stack = builder.stack(&[frame]);
    builder.entry(0, &entry(Action::SegmentAlloc, 1 << 40, 8 * GIB, stack));
    for index in 0..8 {
        builder.entry(
            0,
            &entry(Action::Alloc, (1 << 40) + index * GIB, GIB, stack),
        );
    }
    builder.segment(SegmentInfo {
        device: 0,
        address: DeviceAddress::new(1 << 40),
        total_size: Bytes::new(8 * GIB),
        allocated_size: Bytes::new(4 * GIB),
        active_size: Bytes::new(4 * GIB),
        requested_size: Bytes::new(4 * GIB),
        stream: StreamHandle::DEFAULT,
        kind: SegmentKind::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack,
    });
    for index in 0..8 {
        let address = (1 << 40) + index * GIB;
        let freed = index % 2 == 1;
        if freed {
            for action in [Action::FreeRequested, Action::FreeCompleted] {
                builder.entry(0, &entry(action, address, GIB, StackId::EMPTY));
            }
        }
        builder.block(Block {
            address: DeviceAddress::new(address),
            size: Bytes::new(GIB),
            requested_size: Bytes::new(GIB),
            state: if freed {
                BlockState::Inactive
            } else {
                BlockState::Allocated
            },
            stack,
        });
    }
    if failed {
        builder.entry(0, &entry(Action::OutOfMemory, 256 << 20, 3 * GIB, stack));
    }
    builder.finish()
}

fn explained(allocated: &str, failed: bool) -> Explanation {
    let text = format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of \
         9.50 GiB of which 256.00 MiB is free. Of the allocated memory {allocated} GiB is allocated by PyTorch, and \
         4.00 GiB is reserved by PyTorch but unallocated."
    );
    let input = Input {
        text: &text,
        ..Input::default()
    };
    explain_with_snapshot(&input, &snapshot(failed)).unwrap()
}

fn check(allocated: &str, failed: bool, same_moment: bool) {
    let found = explained(allocated, failed);
    assert_eq!(found.agreement.as_ref().unwrap().same_moment, same_moment);
    let said = found
        .story
        .iter()
        .any(|sentence| sentence.contains("snapshot is of another moment"));
    assert_eq!(said, !same_moment, "{:?}", found.story);
    // The card is the text's in any case.
    assert_eq!(
        found.card.unwrap().total_bytes,
        "9.50 GiB".parse::<Bytes>().unwrap()
    );
}

#[test]
fn they_are_checked_against_each_other() {
    check("4.00", true, true);
    check("5.00", true, false);
    check("4.00", false, true);
    check("1.00", false, false);
}

#[test]
fn the_lines_and_the_largest_piece_are_the_snapshot_s() {
    let found = explained("4.00", true);
    assert_eq!(found.causes[0].id, CauseId::Fragmentation);
    let evidence = found.causes[0].evidence.join(" ");
    assert!(
        evidence.contains("the largest piece without a tensor was 1024.00 MiB"),
        "{evidence}"
    );
    let place = found.failures[0].r#where.as_ref().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("net.py", 7));
}
