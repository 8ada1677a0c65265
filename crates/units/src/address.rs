//! An address in the memory of a device.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// An address on a device. It is never dereferenced outside `vgpu`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DeviceAddress(u64);

impl DeviceAddress {
    /// The address as CUDA writes it.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The address `size` bytes further on; the end of the address space stops it.
    #[must_use]
    pub const fn offset(self, size: Bytes) -> Self {
        Self(self.0.saturating_add(size.get()))
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
