//! Which bytes are in use at which time: all that is left of a trace when the allocator is taken away.
//!
//! Time is the index of an event, because a trace may carry no clock and placement depends on order alone.

use oomproof_units::Bytes;

/// One block from its allocation to the event that made it free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// What was asked for.
    pub size: Bytes,
    /// Index of the event from which on it is in use.
    pub begins: u32,
    /// Index of the event from which on it is not; greater than `begins`.
    pub ends: u32,
}

/// The highest sum of sizes in use at one moment, and the first event at which it is reached.
///
/// No allocator can hold these blocks in less, whatever it does.
///
/// ```
/// use oomproof_replay::{Lifetime, peak_of_live_bytes};
/// use oomproof_units::Bytes;
///
/// let of = |size, begins, ends| Lifetime { size: Bytes::new(size), begins, ends };
/// let (peak, at) = peak_of_live_bytes(&[of(10, 0, 2), of(5, 1, 3), of(9, 2, 4)]);
/// assert_eq!((peak, at), (Bytes::new(15), 1));
/// ```
pub fn peak_of_live_bytes(lifetimes: &[Lifetime]) -> (Bytes, u32) {
    let mut changes: Vec<(u32, i64)> = lifetimes
        .iter()
        .flat_map(|one| {
            let size = one.size.get().cast_signed();
            [(one.ends, -size), (one.begins, size)]
        })
        .collect();
    // What ends at an event is free before what begins there takes its place.
    changes.sort_unstable();
    let (mut live, mut peak, mut at) = (0_i64, 0_i64, 0);
    for (event, change) in changes {
        live = live.saturating_add(change);
        if live > peak {
            (peak, at) = (live, event);
        }
    }
    (Bytes::new(peak.unsigned_abs()), at)
}
