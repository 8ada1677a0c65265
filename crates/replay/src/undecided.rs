//! What a trace cannot decide, counted: a replay that assumed something says so.

use std::collections::BTreeMap;

/// A question that a trace leaves open, and how it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The trace begins with blocks in use: the layout at its beginning is inferred from the final snapshot.
    StartInferred,
    /// The size of a block that was in use at the beginning and freed later is what was asked for, rounded; whether it
    /// held an unsplit rest cannot be seen.
    StartBlockSize,
    /// Which of the free blocks at the beginning were made first is not recorded; since 2.12 it decides between free
    /// blocks of equal size.
    StartOrder,
    /// A block was freed whose allocation lies before the trace and whose place is in no known segment.
    UnknownBlock,
    /// A block was handed out while the trace still had it in use: its free is missing.
    MissingFree,
    /// Blocks are in the trace at its end and not in the snapshot, or the other way around.
    EndDiffers,
    /// Segments were given back where no stack tells whether the program called `empty_cache` or the allocator ran
    /// short of memory; taken as the latter.
    WhoReleased,
    /// What a failed request asked for is known only rounded up to 512 bytes.
    FailedRequestSize,
    /// Blocks used by other streams became free later; by which streams is not recorded, and the moment is taken as
    /// recorded.
    PendingFrees,
    /// The private pool of blocks in segments that are gone is not recorded; taken as the default pool.
    PoolUnknown,
    /// When private pools began and ended is not recorded; each lasts as long as its allocations follow each other.
    PoolExtent,
    /// The reserve of address space of expandable segments that existed before the trace is not recorded.
    ExpandableReserve,
    /// The trace records no segments: it can be tried under settings, and not compared.
    NoSegments,
    /// Requests are blocks' sizes, because the input does not record what was asked for.
    SizesAreOfBlocks,
    /// Events were recorded without the stream they happened on.
    NoStreams,
    /// Entries of a kind that is not known were left out.
    UnknownEntries,
    /// The settings that were in force are not recorded; taken as the defaults.
    SettingsUnknown,
    /// The release of torch is one of several that write these keys and behave so.
    ReleaseUnsure,
    /// The bytes that the device had for PyTorch are not recorded.
    CapacityUnknown,
    /// The bytes that the device had for PyTorch are known only as a range; the lower end was taken.
    CapacityIsRange,
    /// Addresses that the driver would have given are not known; they decide ties between free blocks of equal size.
    DriverAddresses,
    /// Entries were recorded while history was switched on late or overwritten in a ring.
    TraceStartsLate,
}

impl Question {
    /// A word for programs.
    pub const fn id(self) -> &'static str {
        match self {
            Self::StartInferred => "start_inferred",
            Self::StartBlockSize => "start_block_size",
            Self::StartOrder => "start_order",
            Self::UnknownBlock => "unknown_block",
            Self::MissingFree => "missing_free",
            Self::EndDiffers => "end_differs",
            Self::WhoReleased => "who_released",
            Self::FailedRequestSize => "failed_request_size",
            Self::PendingFrees => "pending_frees",
            Self::PoolUnknown => "pool_unknown",
            Self::PoolExtent => "pool_extent",
            Self::ExpandableReserve => "expandable_reserve",
            Self::NoSegments => "no_segments",
            Self::SizesAreOfBlocks => "sizes_are_of_blocks",
            Self::NoStreams => "no_streams",
            Self::UnknownEntries => "unknown_entries",
            Self::SettingsUnknown => "settings_unknown",
            Self::ReleaseUnsure => "release_unsure",
            Self::CapacityUnknown => "capacity_unknown",
            Self::CapacityIsRange => "capacity_is_range",
            Self::DriverAddresses => "driver_addresses",
            Self::TraceStartsLate => "trace_starts_late",
        }
    }
}

/// Open questions, each with the number of times that it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecided(BTreeMap<Question, u64>);

impl Undecided {
    /// Counts a question once more.
    pub(crate) fn ask(&mut self, question: Question) {
        *self.0.entry(question).or_default() += 1;
    }

    /// Takes over what another part left open.
    pub(crate) fn extend(&mut self, other: &Self) {
        for (question, count) in other.iter() {
            *self.0.entry(question).or_default() += count;
        }
    }

    /// Every question with its count, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Question, u64)> {
        self.0.iter().map(|(&question, &count)| (question, count))
    }

    /// Whether this one came up.
    pub fn contains(&self, question: Question) -> bool {
        self.0.contains_key(&question)
    }

    /// Whether the trace decided everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
