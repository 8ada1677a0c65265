//! Who uses a device: this process once it has a context, the others of the run, and one more that stands for the rest.
//!
//! Memory that the settings reserve for others belongs to some process, or the figures would not add up. It is shown
//! under the id 1, which exists on every system and is not this process unless that is the first one itself.

use super::NvmlStatus;
use super::device::device_of;
use crate::session::Session;
use crate::status::put;

/// `nvmlProcessInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProcessInfoV1 {
    pid: u32,
    used: u64,
}

/// `nvmlProcessInfo_v2_t`, the same in version 3.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ProcessInfo {
    pid: u32,
    used: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// The instances of a device that is not divided.
const UNDIVIDED: u32 = u32::MAX;

/// Ids and bytes of the processes on a device.
fn processes(session: &Session, machine: u32) -> Vec<(u32, u64)> {
    let others = session
        .settings
        .reserved_by_others_bytes
        .min(session.settings.device.total_bytes);
    let (used, neighbors) = {
        let memory = session.memory();
        (
            memory.used(machine as usize),
            memory.neighbors(machine as usize),
        )
    };
    let own = std::process::id();
    let mut processes = Vec::new();
    if others > 0 {
        processes.push((if own == 1 { 2 } else { 1 }, others));
    }
    if session.has_context(machine as usize) {
        processes.push((own, used - others));
    }
    processes.extend(neighbors);
    processes
}

/// # Safety
/// `count` must be null or valid, `infos` null or valid for writing as many elements as `count` says.
unsafe fn list<T>(
    device: u64,
    count: *mut u32,
    infos: *mut T,
    info: impl Fn((u32, u64)) -> T,
) -> NvmlStatus {
    if count.is_null() {
        return NvmlStatus::INVALID_ARGUMENT;
    }
    // SAFETY: not null, and the caller has set it to the room in `infos`.
    let room = unsafe { count.read_unaligned() } as usize;
    let found = device_of(device).map(|(session, machine)| processes(session, machine));
    let processes = found.as_deref().unwrap_or_default();
    // SAFETY: not null.
    unsafe { put(count, processes.len() as u32) };
    match found {
        Err(error) => return error,
        Ok(_) if room < processes.len() => return NvmlStatus::INSUFFICIENT_SIZE,
        Ok(_) if infos.is_null() && !processes.is_empty() => return NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => {}
    }
    for (index, process) in processes.iter().enumerate() {
        // SAFETY: there is room for all of them.
        unsafe { put(infos.add(index), info(*process)) };
    }
    NvmlStatus::SUCCESS
}

/// The processes on a device, in the first form.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfoV1,
) -> NvmlStatus {
    // SAFETY: the caller passes a count and that much room.
    unsafe {
        list(device, count, infos, |(pid, used)| ProcessInfoV1 {
            pid,
            used,
        })
    }
}

fn with_instances((pid, used): (u32, u64)) -> ProcessInfo {
    ProcessInfo {
        pid,
        used,
        gpu_instance: UNDIVIDED,
        compute_instance: UNDIVIDED,
    }
}

/// The processes on a device, in the second form.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> NvmlStatus {
    // SAFETY: the caller passes a count and that much room.
    unsafe { list(device, count, infos, with_instances) }
}

/// The processes on a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> NvmlStatus {
    // SAFETY: the caller passes a count and that much room.
    unsafe { list(device, count, infos, with_instances) }
}

/// The processes that draw on a device: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: u64,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> NvmlStatus {
    let _ = infos;
    // SAFETY: the caller passes a place for a count or null.
    unsafe { put(count, 0) };
    device_of(device).err().unwrap_or(NvmlStatus::SUCCESS)
}
