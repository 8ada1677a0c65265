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
}

impl Question {
    /// What is open and what was assumed, in a sentence without a full stop.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::StartInferred => {
                "the trace begins with memory in use; its layout was inferred backwards from the end"
            }
            Self::StartBlockSize => {
                "blocks in use at the beginning may have held an unsplit rest of up to 1 MiB; taken as none"
            }
            Self::StartOrder => {
                "which free blocks at the beginning are the oldest is not recorded, and decides between equal ones"
            }
            Self::UnknownBlock => {
                "blocks were freed whose allocation is not in the trace and whose segment is not known; left out"
            }
            Self::MissingFree => {
                "blocks were handed out twice without a free between; the free was put in"
            }
            Self::EndDiffers => {
                "the trace does not lead to the segments of the snapshot; some entries are missing"
            }
            Self::WhoReleased => {
                "memory was given back without a stack; taken as the allocator's doing, not as `empty_cache`"
            }
            Self::FailedRequestSize => {
                "of a failed request only the size rounded up to 512 bytes is recorded"
            }
            Self::PendingFrees => {
                "other streams used blocks; which ones is not recorded, and when they were done is taken as recorded"
            }
            Self::PoolUnknown => {
                "the private pool of blocks in segments that are gone is not recorded; taken as the default pool"
            }
            Self::PoolExtent => {
                "when private pools began and ended is not recorded; taken from their requests"
            }
            Self::ExpandableReserve => {
                "the address space of expandable segments made before the trace is not recorded; taken as large enough"
            }
            Self::NoSegments => "the input has no segments: nothing to compare the replay with",
            Self::SizesAreOfBlocks => {
                "sizes are those of blocks and not of requests: other settings can look worse than they are"
            }
            Self::NoStreams => "streams are not recorded; taken as one",
            Self::UnknownEntries => "entries of kinds that are not known were left out",
            Self::SettingsUnknown => {
                "the settings of the recorded run are not recorded in full; the rest is taken as PyTorch's defaults"
            }
            Self::ReleaseUnsure => {
                "several releases of torch write such a snapshot; the oldest that replays it best was taken"
            }
            Self::CapacityUnknown => {
                "how much memory PyTorch had is not recorded; taken as all that it asks for"
            }
            Self::CapacityIsRange => {
                "how much memory PyTorch had is known only as a range; its lower end was taken"
            }
            Self::DriverAddresses => {
                "which addresses the driver would have given is not known; they decide between equal free blocks"
            }
        }
    }

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

    /// Takes a question back that something else answers.
    pub(crate) fn answer(&mut self, question: Question) {
        self.0.remove(&question);
    }

    /// Takes over what another part left open.
    pub fn extend(&mut self, other: &Self) {
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
