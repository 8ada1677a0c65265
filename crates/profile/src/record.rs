//! One record of the file. Addresses and sizes are in bytes, times in nanoseconds since the run began.

use crate::names::{Basis, DriverAction, Phase, Role, Touch};

/// A block that PyTorch's allocator handed out or took back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorEvent {
    /// When.
    pub nanos: u64,
    /// Start of the block.
    pub address: u64,
    /// Size of the block, which is at least what was requested.
    pub size: u64,
    /// `allocated_bytes.all.current` after the event, as PyTorch counts it.
    pub allocated: u64,
    /// `reserved_bytes.all.current` after the event, as PyTorch counts it.
    pub reserved: u64,
    /// Index of the device.
    pub device: u8,
    /// The phase it happened in.
    pub phase: Phase,
    /// The training step it happened in; 0 before the first.
    pub step: u32,
    /// Id of the source line, 0 when unknown.
    pub site: u32,
    /// Id of the innermost module whose `forward` was running, 0 for none.
    pub module: u32,
}

/// PyTorch's allocator ran out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// When.
    pub nanos: u64,
    /// What the failing line asked for, rounded up to 512 bytes.
    pub requested: u64,
    /// `allocated_bytes.all.current` at that moment.
    pub allocated: u64,
    /// `reserved_bytes.all.current` at that moment.
    pub reserved: u64,
    /// Free bytes of the device.
    pub free: u64,
    /// Total bytes of the device.
    pub total: u64,
    /// Index of the device.
    pub device: u8,
    /// The phase it happened in.
    pub phase: Phase,
    /// The training step it happened in.
    pub step: u32,
    /// Id of the source line, 0 when unknown.
    pub site: u32,
    /// Id of the innermost module, 0 for none.
    pub module: u32,
}

/// The host read device bytes whose value the virtual device does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRead {
    /// When.
    pub nanos: u64,
    /// First byte read.
    pub address: u64,
    /// Number of bytes read.
    pub size: u64,
    /// The first (up to eight) bytes that were given instead, little-endian.
    pub given: u64,
    /// Id of a text naming what last wrote there (a kernel's name), 0 when unknown.
    pub origin: u32,
    /// Why that was given.
    pub basis: Basis,
    /// Id of a text that says what it hangs on, 0 when nothing was assumed before the read.
    pub assumption: u32,
    /// Id of the source line where that was assumed, 0 when unknown.
    pub assumed_at: u32,
    /// The phase it happened in.
    pub phase: Phase,
    /// The training step it happened in.
    pub step: u32,
    /// Id of the source line, 0 when unknown.
    pub site: u32,
    /// Id of the innermost module, 0 for none.
    pub module: u32,
}

/// One record. Ids of texts, sites and modules count from 1 in the order of their records; 0 means none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text, once.
    Text(String),
    /// A source line: ids of the texts of its file and function.
    Site {
        /// Id of the file's name.
        file: u32,
        /// Line, from 1.
        line: u32,
        /// Id of the function's name.
        function: u32,
    },
    /// A module: ids of the texts of its dotted path and its class.
    Module {
        /// Id of the path, such as `transformer.h.3.mlp`.
        path: u32,
        /// Id of the class's name.
        class: u32,
    },
    /// PyTorch's allocator handed out a block.
    Alloc(AllocatorEvent),
    /// PyTorch's allocator took a block back.
    Free(AllocatorEvent),
    /// The driver gave or took memory.
    Driver {
        /// When.
        nanos: u64,
        /// What was done.
        action: DriverAction,
        /// Index of the device.
        device: u8,
        /// Start of the memory.
        address: u64,
        /// Its size at the driver's granularity.
        size: u64,
        /// Bytes of the device in use afterwards, with context and other processes.
        used: u64,
    },
    /// A phase began.
    Phase {
        /// When.
        nanos: u64,
        /// The phase.
        phase: Phase,
        /// The training step.
        step: u32,
    },
    /// The block that holds `address` now has this role.
    Label {
        /// When.
        nanos: u64,
        /// Any address in the block.
        address: u64,
        /// The role.
        role: Role,
        /// Id of a text naming the tensor, such as `lm_head.weight`; 0 for none.
        name: u32,
    },
    /// The device saw the block that holds `address` being used so for the first time.
    Touch {
        /// When.
        nanos: u64,
        /// Address used.
        address: u64,
        /// How.
        touch: Touch,
    },
    /// The host read unknown memory.
    UnknownRead(UnknownRead),
    /// A function that is not modelled was called.
    Unsupported {
        /// When.
        nanos: u64,
        /// Id of the function's name.
        function: u32,
        /// Id of the library's SONAME.
        library: u32,
        /// Id of the source line.
        site: u32,
    },
    /// PyTorch's allocator gave up.
    OutOfMemory(OutOfMemory),
    /// A training step ended.
    Step {
        /// When.
        nanos: u64,
        /// The step that ended, from 1.
        step: u32,
        /// Highest `allocated` since the previous step ended.
        peak_allocated: u64,
        /// Highest `reserved` since the previous step ended.
        peak_reserved: u64,
        /// Nanoseconds by which the device's clock moved on since the previous step ended: an estimate; 0 when it is
        /// not known.
        device_nanos: u64,
    },
    /// A JSON object from the agent; its `"kind"` says what it is (docs/profile.md lists them).
    Note {
        /// When.
        nanos: u64,
        /// The object.
        json: String,
    },
}

impl Record {
    /// When it happened, in nanoseconds since the run began; 0 for what has no time.
    pub fn nanos(&self) -> u64 {
        match self {
            Self::Text(_) | Self::Site { .. } | Self::Module { .. } => 0,
            Self::Alloc(event) | Self::Free(event) => event.nanos,
            Self::UnknownRead(read) => read.nanos,
            Self::OutOfMemory(oom) => oom.nanos,
            Self::Driver { nanos, .. }
            | Self::Phase { nanos, .. }
            | Self::Label { nanos, .. }
            | Self::Touch { nanos, .. }
            | Self::Unsupported { nanos, .. }
            | Self::Step { nanos, .. }
            | Self::Note { nanos, .. } => *nanos,
        }
    }
}
