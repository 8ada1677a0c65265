//! How much was live, and when most.
//!
//! A free entry repeats the size of its allocation, so what is live is a running sum and no table of blocks is needed. What
//! was live before the first entry follows from the end: the blocks of the segments are what is live after the last.

use hashbrown::{HashMap, HashSet};
use oomproof_units::{Bytes, DeviceAddress};

use crate::entry::Action;
use crate::segment::BlockState;
use crate::snapshot::Snapshot;
use crate::stack_table::StackId;
use crate::trace::Trace;

/// A sum at the start of a trace, at its highest, and where that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// Before the first entry. Negative when the trace has more than the end: it lacks entries.
    pub(crate) start: i128,
    pub(crate) highest: i128,
    /// The first entry after which it was so high; `None` if that was before the first.
    pub(crate) at: Option<usize>,
    /// The least that it ever was.
    pub(crate) lowest: i128,
}

impl Course {
    /// From the steps, and what it is in the end. Without an end, the start is the least it can have been.
    fn new(steps: impl Iterator<Item = i128>, end: Option<i128>) -> Self {
        let mut sum = 0;
        let mut course = Self {
            start: 0,
            highest: 0,
            at: None,
            lowest: 0,
        };
        for (index, step) in steps.enumerate() {
            sum += step;
            if sum > course.highest {
                course.highest = sum;
                course.at = Some(index);
            }
            course.lowest = course.lowest.min(sum);
        }
        course.start = end.map_or(-course.lowest, |end| end - sum);
        course.highest += course.start;
        course.lowest += course.start;
        course
    }
}

/// The largest sum of live blocks of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// What was requested for all blocks that were live, before rounding.
    pub requested: Bytes,
    /// The entry after which it was so much; `None` if it was so much before the first.
    pub entry: Option<usize>,
}

/// The part of a peak that one stack asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakPart {
    /// The stack; [`StackId::EMPTY`] for blocks from before the trace whose stack is not known.
    pub stack: StackId,
    /// What it had requested.
    pub requested: Bytes,
    /// In how many blocks.
    pub n_blocks: usize,
}

/// What is live, as the program sees it: from the allocation to the request to free.
pub(crate) fn live_course(snapshot: &Snapshot, device: usize, trace: &Trace) -> Course {
    let steps = trace.actions().iter().zip(trace.sizes());
    let steps = steps.map(|(action, size)| match action {
        Action::Alloc => i128::from(size.get()),
        Action::FreeRequested => -i128::from(size.get()),
        _ => 0,
    });
    Course::new(
        steps,
        has_segments(snapshot).then(|| live_at_the_end(snapshot, device)),
    )
}

/// What the allocator holds from the driver.
pub(crate) fn reserved_course(snapshot: &Snapshot, device: usize, trace: &Trace) -> Course {
    let steps = trace.actions().iter().zip(trace.sizes());
    let steps = steps.map(|(action, size)| match action {
        Action::SegmentAlloc | Action::SegmentMap => i128::from(size.get()),
        Action::SegmentFree | Action::SegmentUnmap => -i128::from(size.get()),
        _ => 0,
    });
    let segments = snapshot.segments().iter();
    let reserved = segments
        .filter(|segment| segment.device as usize == device)
        .map(|segment| i128::from(segment.total_size.get()))
        .sum();
    Course::new(steps, has_segments(snapshot).then_some(reserved))
}

/// The source can say what there is at the end. PyTorch's own can, also when it is nothing.
pub(crate) fn has_segments(snapshot: &Snapshot) -> bool {
    !snapshot.segments().is_empty() || snapshot.origin().lacks.is_empty()
}

fn live_at_the_end(snapshot: &Snapshot, device: usize) -> i128 {
    live_blocks(snapshot, device)
        .map(|(_, size, _)| i128::from(size.get()))
        .sum()
}

fn live_blocks(
    snapshot: &Snapshot,
    device: usize,
) -> impl Iterator<Item = (DeviceAddress, Bytes, StackId)> + '_ {
    let segments = snapshot.segments().iter();
    segments
        .filter(move |segment| segment.device as usize == device)
        .flat_map(|segment| segment.blocks())
        .filter(|block| block.state == BlockState::Allocated)
        .map(|block| (block.address, block.requested_size, block.stack))
}

impl Snapshot {
    /// When most was live on a device; `None` without a trace of it.
    pub fn peak(&self, device: usize) -> Option<Peak> {
        let trace = self
            .traces()
            .get(device)
            .filter(|trace| !trace.is_empty())?;
        let course = live_course(self, device, trace);
        Some(Peak {
            requested: Bytes::new(u64::try_from(course.highest.max(0)).unwrap_or(u64::MAX)),
            entry: course.at,
        })
    }

    /// Which stacks had asked for what was live at a peak, the largest first.
    pub fn peak_parts(&self, device: usize, peak: &Peak) -> Vec<PeakPart> {
        let Some(trace) = self.traces().get(device) else {
            return Vec::new();
        };
        let end = peak.entry.map_or(0, |entry| entry + 1).min(trace.len());
        let row = |index: usize| (trace.actions()[index], trace.addresses()[index]);
        let mut live: HashMap<DeviceAddress, usize> = HashMap::new();
        for index in 0..end {
            match row(index) {
                (Action::Alloc, address) => {
                    live.insert(address, index);
                }
                (Action::FreeRequested, address) => {
                    live.remove(&address);
                }
                _ => {}
            }
        }
        let mut parts: HashMap<StackId, (u64, usize)> = HashMap::new();
        let mut add = |stack: StackId, size: Bytes| {
            let (bytes, n_blocks) = parts.entry(stack).or_default();
            *bytes = bytes.saturating_add(size.get());
            *n_blocks += 1;
        };
        let mut mentioned: HashSet<DeviceAddress> = HashSet::new();
        for (index, &action) in trace.actions().iter().enumerate().skip(end) {
            let address = trace.addresses()[index];
            let is_first = match action {
                Action::Alloc | Action::FreeRequested => mentioned.insert(address),
                _ => continue,
            };
            if is_first && action == Action::FreeRequested && !live.contains_key(&address) {
                add(StackId::EMPTY, trace.sizes()[index]);
            }
        }
        for (address, size, stack) in live_blocks(self, device) {
            if !live.contains_key(&address) && !mentioned.contains(&address) {
                add(stack, size);
            }
        }
        let mut rows: Vec<usize> = live.into_values().collect();
        rows.sort_unstable();
        for index in rows {
            add(trace.stacks()[index], trace.sizes()[index]);
        }
        let mut parts: Vec<PeakPart> = parts
            .into_iter()
            .map(|(stack, (bytes, n_blocks))| PeakPart {
                stack,
                requested: Bytes::new(bytes),
                n_blocks,
            })
            .collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.requested), part.stack));
        parts
    }
}
