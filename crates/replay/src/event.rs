//! What a trace says of one device, reduced to what the allocator can be asked or be seen doing.

/// One entry of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) action: Action,
    /// Start of the block or segment; of an out of memory the free bytes of the device.
    pub(crate) address: u64,
    /// What was asked for, of a block; real bytes, of a segment; rounded bytes, of an out of memory.
    pub(crate) size: u64,
    /// The handle of the stream.
    pub(crate) stream: u64,
    /// The private pool, where the trace says so.
    pub(crate) pool: Option<PoolId>,
    /// Equal for equal stacks.
    pub(crate) stack: Stack,
}

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// None was recorded.
    None,
    /// Of PyTorch's `empty_cache`, called by the program.
    EmptyCache(u32),
    /// Any other.
    Other(u32),
}

/// The id of a pool as PyTorch shows it; both are zero of the default one.
pub(crate) type PoolId = (u64, u64);

/// The pool of everything that is in no private one.
pub(crate) const DEFAULT_POOL: PoolId = (0, 0);

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    OutOfMemory,
    /// Nothing that the allocator does.
    Other,
}

impl Action {
    /// Whether the driver gave or took memory.
    pub(crate) const fn is_of_driver(self) -> bool {
        matches!(
            self,
            Self::SegmentAlloc | Self::SegmentFree | Self::SegmentMap | Self::SegmentUnmap
        )
    }

    /// Whether the driver took memory.
    pub(crate) const fn gives_back(self) -> bool {
        matches!(self, Self::SegmentFree | Self::SegmentUnmap)
    }
}
