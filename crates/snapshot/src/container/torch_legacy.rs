//! What `torch.save` wrote before it wrote archives, and still writes when asked: a magic number, a version, facts about
//! the machine, the object, the keys of its storages, each a pickle of its own.

use std::convert::Infallible;

use oomproof_pickle::{Handle, Limits, Sink, TextNumber};

use crate::read::ReadError;

/// The pickle of the magic number, whole.
pub(super) const MAGIC: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";

/// What stands before the object, as so many pickles.
const N_BEFORE: usize = 3;

/// The offset at which the pickle of the object begins.
pub(crate) fn last_pickle(file: &[u8]) -> Result<usize, ReadError> {
    let mut offset = 0;
    for _ in 0..N_BEFORE {
        let rest = &file[offset..];
        let limits = Limits::for_length(rest.len());
        let pickle = oomproof_pickle::read(rest, &limits, &mut Nothing).map_err(|error| {
            ReadError::Damaged {
                what: "file of `torch.save`",
                offset: offset + error.offset,
                reason: error.to_string(),
            }
        })?;
        offset += pickle.len;
    }
    Ok(offset)
}

/// Keeps nothing.
struct Nothing;

impl Sink for Nothing {
    type Error = Infallible;

    fn text(&mut self, _: &str) -> Result<TextNumber, Infallible> {
        Ok(TextNumber(0))
    }

    fn name(&self, _: TextNumber) -> &'static str {
        "a text"
    }

    fn dict(&mut self, _: Handle) -> Result<(), Infallible> {
        Ok(())
    }
}
