//! Batches named by an array of pointers that lies on the device.
//!
//! The array is read when its content is known. When it is not, the call may have written anywhere, and then nothing
//! is known any more: less is claimed, never something wrong.

use crate::clock::{self, Timing};
use crate::session::Session;

/// An array of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    /// Where it lies on the device.
    pub(super) at: u64,
    pub(super) count: usize,
}

/// A library function called `name` would have written through each of the addresses in `array`.
pub(super) fn wrote_through(session: &Session, name: &str, array: Array, timing: Timing) {
    if let Some(addresses) = addresses(session, array) {
        session.library_worked(name, &addresses, timing);
    } else {
        session.memory().contents.forget(0, u64::MAX);
        clock::library(session, timing, 0);
    }
}

fn addresses(session: &Session, array: Array) -> Option<Vec<u64>> {
    let mut bytes = vec![0; array.count.checked_mul(8)?];
    let unknown = session.memory().contents.read(array.at, &mut bytes);
    let addresses = bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()));
    (unknown == 0).then(|| addresses.collect())
}
