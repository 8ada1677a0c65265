//! Memory, load, clocks and power. An idle device draws nothing and stays at 0.

use super::device::{numbers, put_of};
use super::system::started;
use super::{NvmlStatus, device};
use crate::session::Session;
use crate::status::put;

/// `nvmlMemory_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemoryInfoV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Utilization {
    compute_percent: u32,
    memory_percent: u32,
}

fn memory_of(session: &Session, machine: u32) -> MemoryInfo {
    let total = session.settings.device.total_bytes;
    let free = session.memory().free(machine as usize);
    MemoryInfo {
        total,
        free,
        used: total - free,
    }
}

/// The memory of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: u64, out: *mut MemoryInfo) -> NvmlStatus {
    // SAFETY: the caller passes a place for the information or null.
    unsafe {
        put_of(device, out, MemoryInfo::default(), |session, machine| {
            Some(memory_of(session, machine))
        })
    }
}

/// The memory of a device; none of it is set aside for the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: u64,
    out: *mut MemoryInfoV2,
) -> NvmlStatus {
    if out.is_null() {
        return started().err().unwrap_or(NvmlStatus::INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller has set the version.
    let version = unsafe { (&raw const (*out).version).read_unaligned() };
    let memory = device::device_of(device).map(|(session, machine)| memory_of(session, machine));
    let MemoryInfo { total, free, used } = memory.unwrap_or_default();
    // SAFETY: not null, and the caller passes a place for the information.
    unsafe {
        put(
            out,
            MemoryInfoV2 {
                version,
                total,
                reserved: 0,
                free,
                used,
            },
        );
    }
    memory.err().unwrap_or(NvmlStatus::SUCCESS)
}

/// The load of a device: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: u64,
    out: *mut Utilization,
) -> NvmlStatus {
    // SAFETY: the caller passes a place for the load or null.
    unsafe {
        put_of(device, out, Utilization::default(), |_, _| {
            Some(Utilization::default())
        })
    }
}

/// The clock of a `nvmlClockType_t` in MHz: 0 graphics, 1 multiprocessors, 2 memory; others are not known.
fn clock(session: &Session, kind: u32) -> Option<u32> {
    match kind {
        0 | 1 => Some(session.settings.device.clock_khz / 1000),
        2 => Some(session.settings.device.memory_clock_khz / 1000),
        _ => None,
    }
}

numbers! {
    /// The temperature: 0.
    nvmlDeviceGetTemperature(sensor: u32) -> u32, |_, _| { let _ = sensor; Some(0) };
    /// The power drawn: none.
    nvmlDeviceGetPowerUsage() -> u32, |_, _| Some(0);
    /// The power limit: not known.
    nvmlDeviceGetPowerManagementLimit() -> u32, |_, _| None;
    /// The default power limit: not known.
    nvmlDeviceGetPowerManagementDefaultLimit() -> u32, |_, _| None;
    /// The power limit in force: not known.
    nvmlDeviceGetEnforcedPowerLimit() -> u32, |_, _| None;
    /// A clock.
    nvmlDeviceGetClockInfo(kind: u32) -> u32, |session, _| clock(session, kind);
    /// The highest value of a clock.
    nvmlDeviceGetMaxClockInfo(kind: u32) -> u32, |session, _| clock(session, kind);
    /// The fan: there is none.
    nvmlDeviceGetFanSpeed() -> u32, |_, _| None;
}
