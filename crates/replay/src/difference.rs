//! What is in use in one snapshot and was not in another, by the stack that allocated it.
//!
//! Two snapshots of one process name their blocks by the same addresses, so a block that stayed is recognized. Those of
//! two processes have nothing in common but their stacks, so there the sums are compared.

use std::collections::BTreeMap;

use oomproof_snapshot::{Action, BlockState, Snapshot, StackId};
use oomproof_units::{Bytes, Micros};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::place::{Place, places};

/// How blocks of the two snapshots were told to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Same address, size and stack: the snapshots are of one process.
    Blocks,
    /// Only sums by stack: the snapshots have no segment in common.
    Sums,
}

/// What changed, from one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferenceRow {
    /// Where it was allocated, innermost first; empty when that was not recorded.
    pub stack: Vec<Place>,
    /// In use in the second and not in the first, as requested.
    pub new_bytes: Bytes,
    /// Number of such blocks.
    pub new_blocks: u64,
    /// In use in the first and not in the second, as requested.
    pub gone_bytes: Bytes,
    /// Number of such blocks.
    pub gone_blocks: u64,
}

/// What changed between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How it was found out.
    pub basis: Basis,
    /// In use in the first, as requested.
    pub before_bytes: Bytes,
    /// In use in the second, as requested.
    pub after_bytes: Bytes,
    /// By stack: the largest rise first.
    pub rows: Vec<DifferenceRow>,
}

impl Difference {
    /// The sum of what is new.
    pub fn new_bytes(&self) -> Bytes {
        self.rows.iter().map(|row| row.new_bytes).sum()
    }

    /// The sum of what is gone.
    pub fn gone_bytes(&self) -> Bytes {
        self.rows.iter().map(|row| row.gone_bytes).sum()
    }
}

/// A block in use.
struct Live {
    device: u32,
    address: u64,
    size: u64,
    stack: StackId,
    /// Known to have been allocated after the first snapshot.
    is_later: bool,
}

/// Compares what is in use at the end of two snapshots.
pub fn difference(before: &Snapshot, after: &Snapshot) -> Difference {
    let basis = basis(before, after);
    let old = live(before, None);
    let new = live(after, last_time(before));
    let mut stacks = Stacks::default();
    let mut old_names = stacks.names_of(before);
    let old: Vec<(usize, Live)> = old
        .into_iter()
        .map(|block| (old_names.name(block.stack, &mut stacks), block))
        .collect();
    let mut new_names = stacks.names_of(after);
    let new: Vec<(usize, Live)> = new
        .into_iter()
        .map(|block| (new_names.name(block.stack, &mut stacks), block))
        .collect();
    let rows = match basis {
        Basis::Blocks => by_block(&old, &new),
        Basis::Sums => by_sum(&old, &new),
    };
    let mut rows: Vec<DifferenceRow> = rows
        .into_iter()
        .map(|(stack, change)| DifferenceRow {
            stack: stacks.all[stack].clone(),
            new_bytes: Bytes::new(change.new_bytes),
            new_blocks: change.new_blocks,
            gone_bytes: Bytes::new(change.gone_bytes),
            gone_blocks: change.gone_blocks,
        })
        .filter(|row| row.new_blocks > 0 || row.gone_blocks > 0)
        .collect();
    rows.sort_by(|a, b| {
        let rise = |row: &DifferenceRow| row.new_bytes.signed_difference(row.gone_bytes);
        (rise(b), &a.stack).cmp(&(rise(a), &b.stack))
    });
    let sum = |blocks: &[(usize, Live)]| blocks.iter().map(|(_, block)| block.size).sum();
    Difference {
        basis,
        before_bytes: Bytes::new(sum(&old)),
        after_bytes: Bytes::new(sum(&new)),
        rows,
    }
}

#[derive(Clone, Copy, Default)]
struct Change {
    new_bytes: u64,
    new_blocks: u64,
    gone_bytes: u64,
    gone_blocks: u64,
}

fn by_block(old: &[(usize, Live)], new: &[(usize, Live)]) -> BTreeMap<usize, Change> {
    type Key = (u32, u64, u64, usize);
    let key =
        |stack: usize, block: &Live| -> Key { (block.device, block.address, block.size, stack) };
    let mut rows: BTreeMap<usize, Change> = BTreeMap::new();
    let mut gone: FxHashSet<Key> = old
        .iter()
        .map(|(stack, block)| key(*stack, block))
        .collect();
    for (stack, block) in new {
        if !block.is_later && gone.remove(&key(*stack, block)) {
            continue;
        }
        let row = rows.entry(*stack).or_default();
        row.new_bytes += block.size;
        row.new_blocks += 1;
    }
    for (stack, block) in old {
        if gone.contains(&key(*stack, block)) {
            let row = rows.entry(*stack).or_default();
            row.gone_bytes += block.size;
            row.gone_blocks += 1;
        }
    }
    rows
}

/// Blocks of one stack and size are exchangeable here.
fn by_sum(old: &[(usize, Live)], new: &[(usize, Live)]) -> BTreeMap<usize, Change> {
    let mut counts: BTreeMap<(usize, u64), i64> = BTreeMap::new();
    for (stack, block) in new {
        *counts.entry((*stack, block.size)).or_default() += 1;
    }
    for (stack, block) in old {
        *counts.entry((*stack, block.size)).or_default() -= 1;
    }
    let mut rows: BTreeMap<usize, Change> = BTreeMap::new();
    for ((stack, size), count) in counts {
        let row = rows.entry(stack).or_default();
        if count > 0 {
            row.new_blocks += count.unsigned_abs();
            row.new_bytes += count.unsigned_abs() * size;
        } else {
            row.gone_blocks += count.unsigned_abs();
            row.gone_bytes += count.unsigned_abs() * size;
        }
    }
    rows
}

/// Snapshots of one process share segments, unless everything was given back in between.
fn basis(before: &Snapshot, after: &Snapshot) -> Basis {
    let ends_of = |snapshot: &Snapshot| -> Vec<(u32, u64, bool)> {
        let segments = snapshot.segments();
        let ends = segments.iter();
        ends.map(|segment| (segment.device, segment.address.get(), segment.is_expandable))
            .collect()
    };
    let mut first = ends_of(before);
    first.sort_unstable();
    let shares = ends_of(after)
        .iter()
        .any(|end| first.binary_search(end).is_ok());
    if shares { Basis::Blocks } else { Basis::Sums }
}

fn last_time(snapshot: &Snapshot) -> Option<Micros> {
    let traces = snapshot.traces().iter();
    traces
        .filter_map(|trace| trace.entries().next_back()?.time)
        .max()
}

fn live(snapshot: &Snapshot, since: Option<Micros>) -> Vec<Live> {
    let mut later: FxHashMap<(u32, u64), bool> = FxHashMap::default();
    if let Some(since) = since {
        for (device, trace) in (0..).zip(snapshot.traces()) {
            for entry in trace.entries() {
                if entry.action == Action::Alloc {
                    let is_later = entry.time.is_some_and(|time| time > since);
                    later.insert((device, entry.address.get()), is_later);
                }
            }
        }
    }
    let mut found = Vec::new();
    for segment in snapshot.segments().iter() {
        for block in segment.blocks() {
            if block.state != BlockState::Inactive {
                let place = (segment.device, block.address.get());
                found.push(Live {
                    device: segment.device,
                    address: block.address.get(),
                    size: block.requested_size.get(),
                    stack: block.stack,
                    is_later: later.get(&place).copied().unwrap_or(false),
                });
            }
        }
    }
    found
}

/// Stacks of both snapshots under common numbers.
#[derive(Default)]
struct Stacks {
    all: Vec<Vec<Place>>,
    numbers: BTreeMap<Vec<Place>, usize>,
}

struct Names<'a> {
    snapshot: &'a Snapshot,
    found: Vec<Option<usize>>,
}

impl Stacks {
    #[expect(
        clippy::unused_self,
        reason = "names belong to the stacks that they are looked up in"
    )]
    fn names_of<'a>(&self, snapshot: &'a Snapshot) -> Names<'a> {
        Names {
            snapshot,
            found: vec![None; snapshot.stacks().len()],
        }
    }

    fn number(&mut self, stack: Vec<Place>) -> usize {
        if let Some(&number) = self.numbers.get(&stack) {
            return number;
        }
        self.all.push(stack.clone());
        self.numbers.insert(stack, self.all.len() - 1);
        self.all.len() - 1
    }
}

impl Names<'_> {
    fn name(&mut self, stack: StackId, stacks: &mut Stacks) -> usize {
        let snapshot = self.snapshot;
        *self.found[stack.index()].get_or_insert_with(|| stacks.number(places(snapshot, stack)))
    }
}
