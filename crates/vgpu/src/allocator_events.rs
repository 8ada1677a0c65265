//! Listens to PyTorch's own allocator.
//!
//! The allocator reports every block it hands out and takes back to the profiler through two exported C++ functions
//! of `libc10.so`. This library is loaded before it, so its functions of those names are found first. That sees every
//! block exactly when the allocator counts it, with the allocator's own totals, needs no recording to be switched on,
//! and cannot be switched off by the script. The originals are called after it, so that profilers work as always.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use oomproof_profile::layout::counter;
use oomproof_profile::{AllocatorEvent, OutOfMemory, Record};

use crate::agent::phase_of;
use crate::session::session;

/// `c10::Device` as it is passed: the type in the low byte, the index above it.
type Device = u16;
/// `c10::DeviceType::CUDA`.
const CUDA: u16 = 1;

type ReportUsage = unsafe extern "C" fn(*mut c_void, i64, usize, usize, Device);
type ReportOutOfMemory = unsafe extern "C" fn(i64, usize, usize, Device);

const REPORT_USAGE: &CStr = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
const REPORT_OUT_OF_MEMORY: &CStr = c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";

/// The function of `libc10.so` with this name, or null.
fn original(name: &CStr) -> *mut c_void {
    // SAFETY: only looks for a library that is already loaded.
    unsafe {
        let library = libc::dlopen(c"libc10.so".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            std::ptr::null_mut()
        } else {
            libc::dlsym(library, name.as_ptr())
        }
    }
}

/// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    address: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device: Device,
) {
    static ORIGINAL: OnceLock<Option<ReportUsage>> = OnceLock::new();
    if device & 0xff == CUDA {
        usage(
            address as u64,
            size,
            allocated as u64,
            reserved as u64,
            (device >> 8) as u8,
        );
    }
    let original = ORIGINAL.get_or_init(|| {
        let function = original(REPORT_USAGE);
        // SAFETY: the C++ function of this mangled name has this signature, and null becomes `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<ReportUsage>>(function) }
    });
    if let Some(original) = original {
        // SAFETY: called as its caller called us.
        unsafe { original(address, size, allocated, reserved, device) }
    }
}

/// The first device that PyTorch's allocator took memory of: of a rank it is its own.
static HOME: OnceLock<u8> = OnceLock::new();

/// A block of a device changed hands; its size is negative when it was taken back.
pub(crate) fn usage(address: u64, size: i64, allocated: u64, reserved: u64, device: u8) {
    let Some(session) = session() else { return };
    let header = session.header;
    // The counters follow the first device that the process used; the records tell the devices apart.
    if *HOME.get_or_init(|| device) == device {
        let raise = |now, peaks: [usize; 2], value| {
            header.counter(now).store(value, Ordering::Relaxed);
            for peak in peaks {
                header.counter(peak).fetch_max(value, Ordering::Relaxed);
            }
        };
        raise(
            counter::ALLOCATED,
            [counter::PEAK_ALLOCATED, counter::STEP_PEAK_ALLOCATED],
            allocated,
        );
        raise(
            counter::RESERVED,
            [counter::PEAK_RESERVED, counter::STEP_PEAK_RESERVED],
            reserved,
        );
    }
    header
        .counter(counter::EVENTS)
        .fetch_add(1, Ordering::Relaxed);
    let [site, module, phase, step] = header.state();
    let event = AllocatorEvent {
        nanos: session.nanos(),
        address,
        size: size.unsigned_abs(),
        allocated,
        reserved,
        device,
        phase: phase_of(phase),
        step,
        site,
        module,
    };
    // The block changes hands before the record, so that a reader of the profile never sees a label too early.
    if size >= 0 {
        session.memory().begin_block(address, event.size);
        session.record(&Record::Alloc(event));
    } else {
        session.memory().end_block(address);
        session.record(&Record::Free(event));
    }
}

/// `c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
    requested: i64,
    allocated: usize,
    reserved: usize,
    device: Device,
) {
    static ORIGINAL: OnceLock<Option<ReportOutOfMemory>> = OnceLock::new();
    if device & 0xff == CUDA {
        out_of_memory(
            requested,
            allocated as u64,
            reserved as u64,
            (device >> 8) as u8,
        );
    }
    let original = ORIGINAL.get_or_init(|| {
        let function = original(REPORT_OUT_OF_MEMORY);
        // SAFETY: the C++ function of this mangled name has this signature, and null becomes `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<ReportOutOfMemory>>(function) }
    });
    if let Some(original) = original {
        // SAFETY: called as its caller called us.
        unsafe { original(requested, allocated, reserved, device) }
    }
}

/// The allocator gave up.
pub(crate) fn out_of_memory(requested: i64, allocated: u64, reserved: u64, device: u8) {
    let Some(session) = session() else { return };
    session
        .header
        .counter(counter::OUT_OF_MEMORY)
        .fetch_add(1, Ordering::Relaxed);
    let [site, module, phase, step] = session.header.state();
    let memory = session.memory();
    let free = memory.free(usize::from(device));
    let holders = memory.neighbors(usize::from(device));
    drop(memory);
    if !holders.is_empty() {
        let held = holders.iter();
        let held: Vec<_> = held
            .map(|(pid, bytes)| serde_json::json!({"pid": pid, "bytes": bytes}))
            .collect();
        let note = serde_json::json!({"kind": "holders", "device": device, "processes": held});
        session.note(&note.to_string());
    }
    session.record(&Record::OutOfMemory(OutOfMemory {
        nanos: session.nanos(),
        requested: requested.unsigned_abs(),
        allocated,
        reserved,
        free,
        total: session.settings.device.total_bytes,
        device,
        phase: phase_of(phase),
        step,
        site,
        module,
    }));
}
