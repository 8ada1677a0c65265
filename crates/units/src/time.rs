//! Times: nanoseconds since a run began, microseconds since the epoch of Unix.

use serde::{Deserialize, Serialize};

/// Nanoseconds since the run began.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// `count` nanoseconds after the start.
    pub const fn since_start(count: u64) -> Self {
        Self(count)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time in seconds, for figures that people read.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Microseconds since the epoch of Unix, as PyTorch stamps what it records.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Micros(u64);

impl Micros {
    /// `count` microseconds after the epoch.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
