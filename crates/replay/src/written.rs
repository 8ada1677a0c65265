//! A replay as a snapshot, so that PyTorch's own viewer shows it.

use oomproof_allocator::{
    BlockState as AllocatorBlockState, Half, Segment, SegmentKind as Kind, TraceEntry,
};
use oomproof_snapshot::{
    Action, Block, BlockState, Entry, PoolId, SegmentInfo, SegmentKind, Snapshot, SnapshotBuilder,
    StackId, StreamHandle, Trace,
};
use rustc_hash::FxHashMap;

use crate::matching::Matched;

/// Adds the entries and segments of a replay. Entries have the times and stacks of the recorded ones that they stand for.
pub(crate) fn write_device(
    builder: &mut SnapshotBuilder,
    snapshot: &Snapshot,
    device: u32,
    matched: &Matched,
) {
    let Some(recorded) = snapshot.traces().get(device as usize) else {
        return;
    };
    let mut stacks: FxHashMap<u64, StackId> = FxHashMap::default();
    for segment in snapshot.segments().iter() {
        if segment.device == device {
            for block in segment.blocks() {
                stacks.insert(block.address.get(), block.stack);
            }
        }
    }
    for (idx, entry) in &matched.trace {
        let Some(entry) = written(recorded, *idx, entry) else {
            continue;
        };
        if entry.action == Action::Alloc {
            stacks.insert(entry.address.get(), entry.stack);
        }
        builder.entry(device, &entry);
    }
    for segment in &matched.end {
        builder.segment(info(device, segment));
        for block in &segment.blocks {
            let stack = stacks.get(&block.address.get());
            builder.block(Block {
                address: block.address,
                size: block.size,
                requested_size: block.requested,
                state: match block.state {
                    AllocatorBlockState::Allocated => BlockState::Allocated,
                    AllocatorBlockState::PendingFree => BlockState::PendingFree,
                    AllocatorBlockState::Inactive => BlockState::Inactive,
                },
                stack: stack.copied().unwrap_or(StackId::EMPTY),
            });
        }
    }
}

fn written(recorded: &Trace, idx: usize, entry: &TraceEntry) -> Option<Entry> {
    let model = recorded.entry(idx.min(recorded.len().checked_sub(1)?));
    Some(Entry {
        action: Action::from_word(entry.action.name())?,
        address: entry.address,
        size: entry.size,
        stream: StreamHandle::new(entry.stream),
        pool: model.pool.map(|_| PoolId(entry.pool.0, entry.pool.1)),
        ..model
    })
}

fn info(device: u32, segment: &Segment) -> SegmentInfo {
    SegmentInfo {
        device,
        address: segment.address,
        total_size: segment.size,
        allocated_size: segment.allocated(),
        active_size: segment.active(),
        requested_size: segment.requested(),
        stream: StreamHandle::new(segment.stream.handle),
        kind: match segment.half {
            Half::Small => SegmentKind::Small,
            Half::Large => SegmentKind::Large,
        },
        pool: PoolId(segment.pool.0, segment.pool.1),
        is_expandable: matches!(segment.kind, Kind::Expandable { .. }),
        stack: StackId::EMPTY,
    }
}
