//! The largest piece that PyTorch held without a tensor in it when a request failed. A snapshot has the blocks of its
//! end alone, so later entries of the trace are taken back one by one.

use std::collections::BTreeMap;

use oomproof_snapshot::{Action, BlockState, Snapshot};
use oomproof_units::Bytes;

/// Most entries after the failure that are taken back; beyond that the answer is not worth its time.
const MOST: usize = 2_000_000;

/// The largest hole of one device before entry `at` of its trace; `None` when the trace goes on for too long.
pub(crate) fn largest(snapshot: &Snapshot, device: usize, at: usize) -> Option<Bytes> {
    let trace = &snapshot.traces()[device];
    if trace.len() - at > MOST {
        return None;
    }
    let mut segments: BTreeMap<u64, u64> = BTreeMap::new();
    let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
    let own = snapshot.segments().iter();
    for segment in own.filter(|segment| segment.info().device as usize == device) {
        segments.insert(
            segment.info().address.get(),
            segment.info().total_size.get(),
        );
        let held = |state: BlockState| state != BlockState::Inactive;
        for block in segment.blocks().iter().filter(|block| held(block.state)) {
            blocks.insert(block.address.get(), block.size.get());
        }
    }
    let entries: Vec<_> = trace.entries().skip(at).collect();
    for entry in entries.into_iter().rev() {
        let (address, size) = (entry.address.get(), entry.size.get());
        match entry.action {
            Action::Alloc => {
                blocks.remove(&address);
            }
            Action::FreeCompleted => {
                blocks.insert(address, size);
            }
            Action::SegmentAlloc | Action::SegmentMap => unmap(&mut segments, address, size),
            Action::SegmentFree | Action::SegmentUnmap => {
                segments.insert(address, size);
            }
            _ => {}
        }
    }
    Some(Bytes::new(largest_gap(&segments, &blocks)))
}

/// A segment that grew is one in the snapshot, so its growth is taken off its end.
fn unmap(segments: &mut BTreeMap<u64, u64>, address: u64, size: u64) {
    if let Some((&start, &len)) = segments.range(..=address).next_back()
        && address < start.saturating_add(len)
    {
        if address == start {
            segments.remove(&start);
        } else {
            segments.insert(start, address - start);
        }
        let rest = start
            .saturating_add(len)
            .saturating_sub(address.saturating_add(size));
        if rest > 0 {
            segments.insert(address.saturating_add(size), rest);
        }
    }
}

fn largest_gap(segments: &BTreeMap<u64, u64>, blocks: &BTreeMap<u64, u64>) -> u64 {
    let mut largest = 0;
    for (&start, &len) in segments {
        let end = start.saturating_add(len);
        let mut free_from = start;
        for (&at, &size) in blocks.range(start..end) {
            largest = largest.max(at.saturating_sub(free_from));
            free_from = free_from.max(at.saturating_add(size));
        }
        largest = largest.max(end.saturating_sub(free_from));
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(segments: &[(u64, u64)], blocks: &[(u64, u64)], expected: u64) {
        let segments = segments.iter().copied().collect();
        let blocks = blocks.iter().copied().collect();
        assert_eq!(largest_gap(&segments, &blocks), expected);
    }

    #[test]
    fn holes_lie_between_blocks_of_one_segment() {
        check(&[(0, 100)], &[], 100);
        check(&[(0, 100)], &[(0, 30), (50, 10)], 40);
        check(&[(0, 100)], &[(0, 100)], 0);
        check(&[(0, 10), (10, 10)], &[], 10);
        check(&[], &[(0, 5)], 0);
    }

    #[test]
    fn growth_is_taken_off() {
        let check = |address, size, expected: &[(u64, u64)]| {
            let mut segments: BTreeMap<u64, u64> = [(0, 100)].into();
            unmap(&mut segments, address, size);
            assert_eq!(segments.into_iter().collect::<Vec<_>>(), expected);
        };
        check(0, 100, &[]);
        check(60, 40, &[(0, 60)]);
        check(20, 40, &[(0, 20), (60, 40)]);
        check(200, 10, &[(0, 100)]);
    }
}
