//! Batches named by an array of pointers that lies on the device.
//!
//! The array is read when its content is known. When it is not, the call may have written anywhere, and then nothing
//! is known any more: less is claimed, never something wrong.

use crate::session::Session;

/// A library function called `name` would have written through each of the `count` addresses in `array`.
pub(super) fn wrote_through(session: &Session, name: &str, array: u64, count: usize) {
    match addresses(session, array, count) {
        Some(addresses) => session.library_wrote(name, &addresses),
        None => session.memory().contents.forget(0, u64::MAX),
    }
}

fn addresses(session: &Session, array: u64, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count.checked_mul(8)?];
    let unknown = session.memory().contents.read(array, &mut bytes);
    let addresses = bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()));
    (unknown == 0).then(|| addresses.collect())
}
