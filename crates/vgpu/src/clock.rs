//! How long work would take on the device: an estimate, by which events, autotuners and the time of a step go.
//!
//! Nothing takes time here, but programs measure: autotuners compare, loops repeat until they measured long enough. So
//! each stream has a clock that work moves on by a floor for every launch and by what takes longer, moving its bytes
//! or doing its arithmetic. The device is idle and the host infinitely fast, so the times are the same in every run.
//! Work that is captured moves no clock; it takes its time with it and moves the clock of the stream where its graph
//! is launched.

use std::sync::atomic::{AtomicU64, Ordering};

use oomproof_profile::{DeviceSettings, MeasuredRates};

use crate::deferred::put_off;
use crate::session::Session;

/// Nanoseconds that the shortest kernel takes from start to end.
const FLOOR: u64 = 2_000;
/// Nanoseconds between two events without work between them.
const EVENT: u64 = 500;
/// Bytes that a thread of a kernel is taken to move: a few elements in, as many out.
const PER_THREAD: u64 = 64;
/// Bytes per second between host and device.
const HOST_LINK: u64 = 25_000_000_000;
/// Percent of the highest rates that work is taken to reach.
///
/// Whole steps of training reach from 35 to 72 % of the arithmetic that data sheets state: the papers of Megatron-LM
/// and of Llama 3 report 38 to 52 %, that of `FlashAttention` 2 reports 72 %, and large products alone reach 70 to 80 %.
/// Simple kernels reach 80 to 90 % of the bandwidth of memory.
const REACHED: u64 = 70;

/// Clocks by stream; streams that share one only wait for each other.
static CLOCKS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The stream of the latest launch, for libraries whose calls do not name theirs.
static LATEST: AtomicU64 = AtomicU64::new(0);

fn clock(stream: u64) -> &'static AtomicU64 {
    &CLOCKS[(stream >> 4) as usize % CLOCKS.len()]
}

/// In which numbers factors are multiplied, which decides how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Double,
    Single,
    /// Single precision, rounded by tensor cores.
    Rounded,
    Half,
    Brain,
    Eighth,
}

/// What some work asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes of memory that are read or written.
    pub(crate) bytes: u64,
    /// Floating-point operations; a multiply-add counts as two.
    pub(crate) operations: u64,
    pub(crate) format: Format,
}

/// What is known of the time that work of a library takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// The stream it works on; that of the latest launch where it is not known.
    pub(crate) stream: Option<u64>,
    /// What it asks of the device; that of writing its outputs where it is not known.
    pub(crate) cost: Option<Cost>,
}

/// What the device does in a nanosecond, as far as work reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speeds {
    bytes: u64,
    /// Operations by [`Format`]; 0 where the settings do not say.
    operations: [u64; 6],
    /// Bytes in a microsecond from the host, and to it.
    from_host: u64,
    to_host: u64,
    /// Nanoseconds of the shortest kernel.
    floor: u64,
}

impl Speeds {
    pub(crate) fn of(device: &DeviceSettings) -> Self {
        let bytes_per_cycle = u64::from(device.memory_bus_bits) / 8 * 2;
        let bytes = u64::from(device.memory_clock_khz) * bytes_per_cycle;
        let rates = device.arithmetic;
        let operations = [
            rates.fp64, rates.fp32, rates.tf32, rates.fp16, rates.bf16, rates.fp8,
        ];
        let link = HOST_LINK / 1_000_000;
        let stated = Self {
            bytes: (bytes * REACHED / 100 / 1_000_000).max(1),
            operations: operations.map(|rate| rate / 100 * REACHED / 1_000_000_000),
            from_host: link,
            to_host: link,
            floor: FLOOR,
        };
        device
            .measured
            .map_or(stated, |measured| stated.measured(measured))
    }

    /// What was measured is what work reaches.
    fn measured(self, rates: MeasuredRates) -> Self {
        let [fp64, .., fp8] = self.operations;
        let each = |rate: u64| rate / 1_000_000_000;
        let [fp32, tf32, fp16, bf16] = [rates.fp32, rates.tf32, rates.fp16, rates.bf16].map(each);
        Self {
            bytes: each(rates.memory_bytes).max(1),
            operations: [fp64, fp32, tf32, fp16, bf16, fp8],
            from_host: (rates.from_host_bytes / 1_000_000).max(1),
            to_host: (rates.to_host_bytes / 1_000_000).max(1),
            floor: rates.launch_nanos,
        }
    }

    fn moving(&self, bytes: u64) -> u64 {
        bytes / self.bytes
    }

    /// Nanoseconds that work takes behind the floor.
    fn nanos(&self, cost: Cost) -> u64 {
        let arithmetic = cost
            .operations
            .checked_div(self.operations[cost.format as usize]);
        self.moving(cost.bytes).max(arithmetic.unwrap_or(0))
    }
}

fn pass(stream: u64, nanos: u64) {
    if !put_off(nanos) {
        clock(stream).fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A kernel of so many threads runs; where its cost is not known, that goes by the threads.
pub(crate) fn kernel(session: &Session, stream: u64, threads: u64, cost: Option<Cost>) {
    LATEST.store(stream, Ordering::Relaxed);
    let speeds = &session.speeds;
    let nanos = match cost {
        Some(cost) => speeds.nanos(cost),
        None => speeds.moving(threads.saturating_mul(PER_THREAD)),
    };
    pass(stream, speeds.floor + nanos);
}

/// Work that moves so many bytes of device memory runs.
pub(crate) fn moves(session: &Session, stream: u64, bytes: u64) {
    let speeds = &session.speeds;
    pass(stream, speeds.floor + speeds.moving(bytes));
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    FromHost,
    ToHost,
}

/// Bytes go to the host or come from it.
pub(crate) fn host_copy(session: &Session, stream: u64, bytes: u64, way: Way) {
    let speeds = &session.speeds;
    let each_microsecond = match way {
        Way::FromHost => speeds.from_host,
        Way::ToHost => speeds.to_host,
    };
    let nanos = bytes.saturating_mul(1000) / each_microsecond;
    pass(stream, speeds.floor + nanos);
}

/// Work of a library runs, which writes so many bytes at least.
pub(crate) fn library(session: &Session, timing: Timing, written: u64) {
    let stream = timing
        .stream
        .unwrap_or_else(|| LATEST.load(Ordering::Relaxed));
    let speeds = &session.speeds;
    let nanos = match timing.cost {
        Some(cost) => speeds.nanos(cost),
        None => speeds.moving(written),
    };
    pass(stream, speeds.floor + nanos);
}

/// Work of a graph takes as long as it was found to take when it was captured.
pub(crate) fn again(stream: u64, nanos: u64) {
    clock(stream).fetch_add(nanos, Ordering::Relaxed);
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
    seen(latest());
}

/// When all work would be done that was submitted so far.
pub(crate) fn latest() -> u64 {
    let clocks = CLOCKS.iter().map(|clock| clock.load(Ordering::Relaxed));
    clocks.max().unwrap_or(0)
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
        pass(FIRST, FLOOR + 1_000_000);
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
        assert!(latest() > busy);
    }

    #[test]
    fn work_takes_as_long_as_the_slower_of_its_bytes_and_its_arithmetic() {
        // 2 TB/s and 1, 10, 20, 40, 50 and 100 TFLOPS, of which 70 % are reached.
        let tera = 1_000_000_000_000;
        let device = DeviceSettings {
            memory_clock_khz: 1_000_000,
            memory_bus_bits: 8000,
            arithmetic: oomproof_profile::ArithmeticRates {
                fp64: tera,
                fp32: 10 * tera,
                tf32: 20 * tera,
                fp16: 40 * tera,
                bf16: 50 * tera,
                fp8: 100 * tera,
            },
            ..crate::libraries::testing::device()
        };
        let speeds = Speeds::of(&device);
        let check = |bytes, operations, format, nanos| {
            let cost = Cost {
                bytes,
                operations,
                format,
            };
            assert_eq!(speeds.nanos(cost), nanos, "{cost:?}");
        };
        check(1_400_000, 0, Format::Single, 1_000);
        check(1_400_000, 7_000_000, Format::Single, 1_000);
        check(1_400_000, 14_000_000, Format::Single, 2_000);
        check(1_400_000, 14_000_000, Format::Rounded, 1_000);
        check(0, 28_000_000, Format::Half, 1_000);
        check(0, 35_000_000, Format::Brain, 1_000);
        check(0, 70_000_000, Format::Eighth, 1_000);
        check(0, 700_000, Format::Double, 1_000);
        // What was measured is reached as it is; 64-bit numbers were not.
        let known = Speeds::of(&DeviceSettings {
            measured: Some(MeasuredRates {
                fp32: tera,
                tf32: 2 * tera,
                fp16: 4 * tera,
                bf16: 5 * tera,
                memory_bytes: tera,
                from_host_bytes: 12_500_000_000,
                to_host_bytes: 10_000_000_000,
                launch_nanos: 5_000,
            }),
            ..device.clone()
        });
        assert_eq!((known.bytes, known.floor), (1_000, 5_000));
        assert_eq!((known.from_host, known.to_host), (12_500, 10_000));
        assert_eq!(known.operations, [700, 1_000, 2_000, 4_000, 5_000, 70_000]);
        // Rates that the settings do not tell take no time.
        let silent = DeviceSettings {
            arithmetic: oomproof_profile::ArithmeticRates::default(),
            ..device
        };
        let cost = Cost {
            bytes: 1_400_000,
            operations: u64::MAX,
            format: Format::Half,
        };
        assert_eq!(Speeds::of(&silent).nanos(cost), 1_000);
    }
}
