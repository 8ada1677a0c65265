//! What follows from the architecture alone: compute capability and the limits of a multiprocessor.
//!
//! The limits are the table "Technical Specifications per Compute Capability" of the CUDA programming guide.
//! Programs such as Triton refuse to run when they are wrong, so a GPU can only be entered with an architecture
//! that has a row here.

const KIB: u32 = 1024;

/// A generation of GPUs, one for each compute capability, from the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// The later Maxwell chips, capability 5.2.
    Maxwell,
    /// GP100, capability 6.0.
    Pascal60,
    /// The other Pascal chips, capability 6.1.
    Pascal61,
    /// Capability 7.0.
    Volta,
    /// Capability 7.5.
    Turing,
    /// GA100, capability 8.0.
    Ampere80,
    /// The other Ampere chips, capability 8.6.
    Ampere86,
    /// Capability 8.9.
    Ada,
    /// Capability 9.0.
    Hopper,
    /// The data-center chips, capability 10.0.
    Blackwell100,
    /// The later data-center chips, capability 10.3.
    Blackwell103,
    /// The `GeForce` and workstation chips, capability 12.0.
    Blackwell120,
}

/// Limits of one multiprocessor and of one block on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads_per_multiprocessor: u32,
    pub(crate) blocks_per_multiprocessor: u32,
    pub(crate) registers_per_multiprocessor: u32,
    pub(crate) shared_memory_per_multiprocessor: u32,
    pub(crate) shared_memory_per_block_optin: u32,
}

impl Architecture {
    /// The name NVIDIA gives it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Maxwell => "Maxwell",
            Self::Pascal60 | Self::Pascal61 => "Pascal",
            Self::Volta => "Volta",
            Self::Turing => "Turing",
            Self::Ampere80 | Self::Ampere86 => "Ampere",
            Self::Ada => "Ada Lovelace",
            Self::Hopper => "Hopper",
            Self::Blackwell100 | Self::Blackwell103 | Self::Blackwell120 => "Blackwell",
        }
    }

    /// Compute capability, major and minor.
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Self::Maxwell => (5, 2),
            Self::Pascal60 => (6, 0),
            Self::Pascal61 => (6, 1),
            Self::Volta => (7, 0),
            Self::Turing => (7, 5),
            Self::Ampere80 => (8, 0),
            Self::Ampere86 => (8, 6),
            Self::Ada => (8, 9),
            Self::Hopper => (9, 0),
            Self::Blackwell100 => (10, 0),
            Self::Blackwell103 => (10, 3),
            Self::Blackwell120 => (12, 0),
        }
    }

    pub(crate) const fn limits(self) -> Limits {
        let (threads, blocks, shared_kib, optin_kib) = match self {
            Self::Pascal60 => (2048, 32, 64, 48),
            Self::Maxwell | Self::Pascal61 => (2048, 32, 96, 48),
            Self::Volta => (2048, 32, 96, 96),
            Self::Turing => (1024, 16, 64, 64),
            Self::Ampere80 => (2048, 32, 164, 163),
            Self::Ampere86 => (1536, 16, 100, 99),
            Self::Ada | Self::Blackwell120 => (1536, 24, 100, 99),
            Self::Hopper | Self::Blackwell100 | Self::Blackwell103 => (2048, 32, 228, 227),
        };
        Limits {
            threads_per_multiprocessor: threads,
            blocks_per_multiprocessor: blocks,
            registers_per_multiprocessor: 65_536,
            shared_memory_per_multiprocessor: shared_kib * KIB,
            shared_memory_per_block_optin: optin_kib * KIB,
        }
    }
}
