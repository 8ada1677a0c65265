//! Why segments are not a state that an allocator can be in.

use oomproof_units::DeviceAddress;
use thiserror::Error;

/// Why segments are not a state that an allocator can be in.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum StateError {
    /// Two segments share addresses.
    #[error("the segment at {0} begins inside another one")]
    Overlap(DeviceAddress),
    /// The blocks leave gaps, are empty, or do not end where the segment does.
    #[error("the blocks of the segment at {0} do not fill it")]
    Blocks(DeviceAddress),
    /// The pages do not lie in the address space.
    #[error(
        "the expandable segment at {0} is not a whole number of pages inside its address space"
    )]
    Pages(DeviceAddress),
}
