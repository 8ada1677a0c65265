//! One entry of a trace: something that the allocator did.

use oomproof_units::{Bytes, DeviceAddress, Micros};

use crate::stack_table::StackId;
use crate::text_table::TextId;

/// What the allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A block was handed out. The size is what was requested, before rounding.
    Alloc,
    /// The program gave a block back; other streams may still use it.
    FreeRequested,
    /// The block became free for reuse. The position is when that was noticed.
    FreeCompleted,
    /// The driver gave a segment. Sizes of segments are real ones.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Pages of an expandable segment were mapped.
    SegmentMap,
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap,
    /// A snapshot was taken; the size is the active bytes of the device.
    Snapshot,
    /// A request failed. The size is the rounded request, and the address column holds the device's free bytes.
    OutOfMemory,
    /// A text was attached to a live block ([`Entry::user_metadata`]).
    Annotate,
    /// A word that this version does not know.
    Unknown(TextId),
}

impl Action {
    /// All actions that have a name of their own.
    pub const KNOWN: [Self; 10] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::OutOfMemory,
        Self::Annotate,
    ];

    /// PyTorch's word for it; `None` for [`Action::Unknown`], whose word is among the snapshot's texts.
    pub const fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::OutOfMemory => "oom",
            Self::Annotate => "annotate",
            Self::Unknown(_) => return None,
        })
    }

    /// The action of a word of PyTorch.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::KNOWN
            .into_iter()
            .find(|action| action.word() == Some(word))
    }
}

/// A stream, as the handle that PyTorch writes; 0 is the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// The default stream.
    pub const DEFAULT: Self = Self(0);

    /// A handle as CUDA gives it.
    pub const fn new(handle: u64) -> Self {
        Self(handle)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A private pool, as PyTorch's pair of numbers; (0, 0) is the default pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool of everything that is in no private pool.
    pub const DEFAULT: Self = Self(0, 0);
}

/// One row of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// Where; for [`Action::OutOfMemory`] see [`Entry::device_free`].
    pub address: DeviceAddress,
    /// How large; what it counts depends on the action.
    pub size: Bytes,
    /// The stream it belongs to.
    pub stream: StreamHandle,
    /// When, since the epoch of Unix (torch 2.2 and later).
    pub time: Option<Micros>,
    /// Where in the program; empty when it was not recorded.
    pub stack: StackId,
    /// The pool (torch 2.12 and later).
    pub pool: Option<PoolId>,
    /// What was being compiled (torch 2.8 and later; written `N/A` or `A` when nothing was).
    pub compile_context: Option<TextId>,
    /// A text that the user attached (torch 2.10 and later).
    pub user_metadata: Option<TextId>,
    /// A text of the allocator's own (torch 2.15, on some entries).
    pub internal_metadata: Option<TextId>,
}

impl Entry {
    /// The free bytes of the device that an out-of-memory entry recorded.
    pub fn device_free(&self) -> Option<Bytes> {
        (self.action == Action::OutOfMemory).then(|| Bytes::new(self.address.get()))
    }
}
