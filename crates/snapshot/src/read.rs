//! Bytes to a snapshot, whatever they are wrapped in.

use thiserror::Error;

use crate::limits::Limits;
use crate::pickled::{Flaw, Misfit, read_pickle};
use crate::snapshot::Snapshot;

/// Why bytes are not a snapshot that can be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// It is nothing that a snapshot comes in.
    #[error("the file is none of the kinds that a snapshot comes in")]
    Unrecognized,
    /// The pickle is damaged, wants to run code, or does not hold what it should.
    #[error(transparent)]
    Pickle(#[from] oomproof_pickle::ReadError<Misfit>),
    /// The parts of the snapshot contradict each other.
    #[error("{misfit}{}", place(*.offset))]
    Content {
        /// What is wrong.
        misfit: Misfit,
        /// Where in the pickle, if it is in one place.
        offset: Option<usize>,
    },
}

fn place(offset: Option<usize>) -> String {
    offset.map_or_else(String::new, |offset| {
        format!(", at byte {offset} of the pickle")
    })
}

impl From<Flaw> for ReadError {
    fn from(flaw: Flaw) -> Self {
        Self::Content {
            misfit: flaw.misfit,
            offset: flaw.offset,
        }
    }
}

impl Snapshot {
    /// Reads the bytes of a file; what kind it is, they tell themselves.
    pub fn read(file: &[u8]) -> Result<Self, ReadError> {
        Self::read_within(file, &Limits::default())
    }

    /// The same with bounds of the caller's.
    pub fn read_within(file: &[u8], _limits: &Limits) -> Result<Self, ReadError> {
        match file {
            [0x80, 2..=5, ..] => read_pickle(file),
            _ => Err(ReadError::Unrecognized),
        }
    }
}
