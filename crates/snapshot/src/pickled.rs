//! A pickle to a snapshot, without a tree in between.
//!
//! The pickle's dictionaries reach a sink as they close, from the inside outwards, so by the time an entry closes, its
//! frames are a stack with a number. Each becomes a row in a column, and its container is forgotten but for eight bytes,
//! because the pickle may refer to it again.

mod assemble;
mod fields;
mod grouping;
mod misfit;
mod settings;
mod sink;
mod slots;
mod words_table;

pub(crate) use assemble::Flaw;
pub use misfit::Misfit;

use oomproof_pickle::Limits;

use crate::origin::Container;
use crate::read::ReadError;
use crate::snapshot::Snapshot;

/// Reads the pickle at the start of `bytes`.
pub(crate) fn read_pickle(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut rows = sink::Rows::new();
    let limits = Limits::for_length(bytes.len());
    let pickle = oomproof_pickle::read(bytes, &limits, &mut rows)?;
    let container = Container::Pickle {
        protocol: pickle.protocol,
    };
    Ok(assemble::assemble(rows, pickle.value, container)?)
}
