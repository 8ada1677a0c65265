//! Bytes to a snapshot, whatever they are wrapped in.

use thiserror::Error;

use crate::limits::Limits;
use crate::snapshot::Snapshot;

/// Why bytes are not a snapshot that can be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// It is nothing that a snapshot comes in.
    #[error("the file is none of the kinds that a snapshot comes in")]
    Unrecognized,
}

impl Snapshot {
    /// Reads the bytes of a file; what kind it is, they tell themselves.
    pub fn read(file: &[u8]) -> Result<Self, ReadError> {
        Self::read_within(file, &Limits::default())
    }

    /// The same with bounds of the caller's.
    pub fn read_within(_file: &[u8], _limits: &Limits) -> Result<Self, ReadError> {
        Err(ReadError::Unrecognized)
    }
}
