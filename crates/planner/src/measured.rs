//! What a run on the virtual GPU came to, as the search takes it.

use oomproof_units::{Bytes, Nanos};

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The peak of allocated memory.
    pub allocated: Bytes,
    /// The peak of reserved memory.
    pub reserved: Bytes,
    /// The process's peak, at the upper end of its range.
    pub process_high: Bytes,
    /// A training step on the device's clock.
    pub step_ns: Nanos,
    /// Whether it fits the card.
    pub fits: bool,
}
