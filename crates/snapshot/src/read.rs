//! Bytes to a snapshot, whatever they are wrapped in.

use std::borrow::Cow;

use thiserror::Error;

use crate::chrome_trace::read_chrome_trace;
use crate::container::{
    Wrapping, embedded_pickle, gunzip, last_pickle, pickle_of_archive, recognize, unzstd,
};
use crate::from_profile::read_profile;
use crate::limits::Limits;
use crate::origin::Container;
use crate::pickled::{Flaw, Misfit, read_pickle};
use crate::snapshot::Snapshot;

/// Wrappings inside wrappings beyond this are a trick.
const MOST_LAYERS: usize = 4;

/// Why bytes are not a snapshot that can be read. Offsets are those of the layer that is named: behind a compression,
/// offsets in what it unfolds to.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// There is nothing.
    #[error("the file is empty")]
    Empty,
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
    /// The wrapping is damaged.
    #[error("the {what} is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Which layer.
        what: &'static str,
        /// Where in it.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
    /// A compressed file unfolds to more than is reasonable.
    #[error(
        "the {what} unfolds to more than {limit} bytes by byte {offset}, too many for its length"
    )]
    TooLarge {
        /// Which layer.
        what: &'static str,
        /// The bound.
        limit: u64,
        /// How far it was read.
        offset: usize,
    },
    /// The wrapping is fine, and has no snapshot in it.
    #[error("the {0} holds no snapshot")]
    NothingInside(&'static str),
    /// Wrappings in wrappings without end.
    #[error("the file is wrapped more than {MOST_LAYERS} times")]
    TooManyLayers,
    /// It is not the JSON of a profiler's trace.
    #[error("the trace is not the JSON of a profiler at line {line}, column {column}: {reason}")]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the parser says.
        reason: String,
    },
    /// It is no profile that can be read.
    #[error(transparent)]
    Profile(#[from] oomproof_profile::ReadError),
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
    pub fn read_within(file: &[u8], limits: &Limits) -> Result<Self, ReadError> {
        if file.is_empty() {
            return Err(ReadError::Empty);
        }
        let mut layers = Vec::new();
        let mut content = Cow::Borrowed(file);
        let mut snapshot = loop {
            if layers.len() >= MOST_LAYERS {
                return Err(ReadError::TooManyLayers);
            }
            let (layer, inside) = match recognize(&content) {
                Wrapping::Gzip => (Container::Gzip, Cow::Owned(gunzip(&content, limits)?)),
                Wrapping::Zstd => (Container::Zstd, Cow::Owned(unzstd(&content, limits)?)),
                Wrapping::Html => (Container::Html, Cow::Owned(embedded_pickle(&content)?)),
                Wrapping::Zip => (Container::Zip, pickle_inside(content, limits)?),
                Wrapping::TorchLegacy => {
                    layers.push(Container::TorchLegacy);
                    let start = last_pickle(&content)?;
                    break read_pickle(&content[start..])?;
                }
                Wrapping::Pickle => break read_pickle(&content)?,
                Wrapping::Profile => break read_profile(&content)?,
                Wrapping::Json => break read_chrome_trace(&content)?,
                Wrapping::Unknown => return Err(ReadError::Unrecognized),
            };
            layers.push(layer);
            content = inside;
        };
        snapshot.origin.containers.splice(0..0, layers);
        Ok(snapshot)
    }
}

/// The pickle in an archive, which is not copied when the archive is the file itself.
fn pickle_inside<'a>(archive: Cow<'a, [u8]>, limits: &Limits) -> Result<Cow<'a, [u8]>, ReadError> {
    match archive {
        Cow::Borrowed(file) => pickle_of_archive(file, limits),
        Cow::Owned(file) => Ok(Cow::Owned(pickle_of_archive(&file, limits)?.into_owned())),
    }
}
