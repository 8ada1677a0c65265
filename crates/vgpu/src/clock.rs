//! How long work would take on the device, as far as events can tell.
//!
//! Nothing takes time here, but programs measure: autotuners compare, loops repeat until they measured long enough. So
//! each stream has a clock that work moves on by a floor for every launch and by the bytes it moves at the speed of
//! the card. These are estimates of an idle device behind an infinitely fast host, the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

use oomproof_profile::DeviceSettings;

use crate::session::Session;

/// Nanoseconds that the shortest kernel takes from start to end.
const FLOOR: u64 = 2_000;
/// Nanoseconds between two events without work between them.
const EVENT: u64 = 500;
/// Bytes that a thread of a kernel is taken to move: a few elements in, as many out.
const PER_THREAD: u64 = 64;
/// Bytes per nanosecond between host and device.
const HOST_LINK: u64 = 25;

/// Clocks by stream; streams that share one only wait for each other.
static CLOCKS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The stream of the latest launch, for libraries whose calls do not name theirs.
static LATEST: AtomicU64 = AtomicU64::new(0);

fn clock(stream: u64) -> &'static AtomicU64 {
    &CLOCKS[(stream >> 4) as usize % CLOCKS.len()]
}

/// Bytes per nanosecond of a device's memory.
pub(crate) fn speed_of(device: &DeviceSettings) -> u64 {
    let bytes_per_cycle = u64::from(device.memory_bus_bits) / 8 * 2;
    (u64::from(device.memory_clock_khz) * bytes_per_cycle / 1_000_000).max(1)
}

fn pass(stream: u64, nanos: u64) {
    clock(stream).fetch_add(FLOOR + nanos, Ordering::Relaxed);
}

/// A kernel of so many threads runs.
pub(crate) fn kernel(session: &Session, stream: u64, threads: u64) {
    LATEST.store(stream, Ordering::Relaxed);
    pass(
        stream,
        threads.saturating_mul(PER_THREAD) / session.bytes_per_nano,
    );
}

/// Work that moves so many bytes of device memory runs.
pub(crate) fn moves(session: &Session, stream: u64, bytes: u64) {
    pass(stream, bytes / session.bytes_per_nano);
}

/// Bytes go to the host or come from it.
pub(crate) fn host_copy(stream: u64, bytes: u64) {
    pass(stream, bytes / HOST_LINK);
}

/// A library writes so many bytes.
pub(crate) fn library(session: &Session, bytes: u64) {
    moves(session, LATEST.load(Ordering::Relaxed), bytes);
}

/// The time of an event that is recorded on a stream.
pub(crate) fn record(stream: u64) -> u64 {
    LATEST.store(stream, Ordering::Relaxed);
    clock(stream).fetch_add(EVENT, Ordering::Relaxed) + EVENT
}

/// Work on a stream waits until then.
pub(crate) fn wait(stream: u64, until: u64) {
    clock(stream).fetch_max(until, Ordering::Relaxed);
}

/// The host has waited until then: what it submits now cannot begin earlier, on any stream.
pub(crate) fn seen(until: u64) {
    for clock in &CLOCKS {
        clock.fetch_max(until, Ordering::Relaxed);
    }
}

/// The host has waited for a stream.
pub(crate) fn seen_stream(stream: u64) {
    seen(clock(stream).load(Ordering::Relaxed));
}

/// The host has waited for all streams.
pub(crate) fn seen_all() {
    let clocks = CLOCKS.iter().map(|clock| clock.load(Ordering::Relaxed));
    seen(clocks.max().unwrap_or(0));
}

/// Milliseconds from one event to another: never none.
pub(crate) fn millis_between(start: u64, end: u64) -> f32 {
    end.saturating_sub(start).max(EVENT) as f32 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams that no other test uses.
    const FIRST: u64 = 60 << 4;
    const SECOND: u64 = 61 << 4;

    #[test]
    fn time_passes_with_work_and_with_nothing_else() {
        let before = record(FIRST);
        let idle = record(FIRST);
        pass(FIRST, 1_000_000);
        let busy = record(FIRST);
        assert_eq!(idle - before, EVENT);
        assert_eq!(busy - idle, 1_000_000 + FLOOR + EVENT);
        assert!((millis_between(idle, busy) - 1.0025).abs() < 1e-6);
        assert!(millis_between(busy, before) > 0.0);
        wait(SECOND, busy);
        assert!(
            record(SECOND) > busy,
            "streams wait for each other's events"
        );
    }
}
