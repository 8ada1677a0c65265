//! Links between devices: there are none but the bus.

use std::ffi::c_void;

use super::NvmlStatus;
use super::device::{PciInfo, device_of};
use crate::status::put;

/// Whether a link is up: links are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: u64,
    link: u32,
    active: *mut u32,
) -> NvmlStatus {
    let _ = link;
    // SAFETY: the caller passes a place for a state or null.
    unsafe { put(active, 0) };
    device_of(device).err().unwrap_or(NvmlStatus::NOT_SUPPORTED)
}

/// What is at the other end of a link: links are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: u64,
    link: u32,
    kind: *mut u32,
) -> NvmlStatus {
    /// `NVML_NVLINK_DEVICE_TYPE_UNKNOWN`.
    const UNKNOWN: u32 = 255;
    let _ = link;
    // SAFETY: the caller passes a place for a type or null.
    unsafe { put(kind, UNKNOWN) };
    device_of(device).err().unwrap_or(NvmlStatus::NOT_SUPPORTED)
}

/// Where the other end of a link is: links are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: u64,
    link: u32,
    out: *mut PciInfo,
) -> NvmlStatus {
    let _ = link;
    // SAFETY: the caller passes a place for the information or null.
    unsafe { put(out, PciInfo::NONE) };
    device_of(device).err().unwrap_or(NvmlStatus::NOT_SUPPORTED)
}

/// The fabric of a device: it belongs to none. Devices before Hopper do not know the question.
///
/// The caller's version of the structure holds its size; everything behind the version is 0, among it the state, which
/// means that there is no fabric.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(device: u64, out: *mut c_void) -> NvmlStatus {
    /// Of the structure in its second and third version.
    const SIZES: std::ops::RangeInclusive<usize> = 36..=64;
    const VERSION: usize = size_of::<u32>();
    if out.is_null() {
        return NvmlStatus::INVALID_ARGUMENT;
    }
    // SAFETY: not null, and the caller has set the version.
    let version = unsafe { out.cast::<u32>().read_unaligned() };
    let size = version as usize & 0xff_ffff;
    if !SIZES.contains(&size) {
        return NvmlStatus::INVALID_ARGUMENT;
    }
    // SAFETY: not null, and the version says how large the structure is.
    unsafe {
        out.cast::<u8>().add(VERSION).write_bytes(0, size - VERSION);
    }
    match device_of(device) {
        Err(error) => error,
        Ok((session, _)) if session.settings.device.compute_capability < (9, 0) => {
            NvmlStatus::NOT_SUPPORTED
        }
        Ok(_) => NvmlStatus::SUCCESS,
    }
}

/// Whether two devices reach each other's memory: they do, over the bus; special capabilities are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    first: u64,
    second: u64,
    capability: u32,
    out: *mut u32,
) -> NvmlStatus {
    /// `NVML_P2P_STATUS_OK`, `NVML_P2P_STATUS_NOT_SUPPORTED`, `NVML_P2P_STATUS_UNKNOWN`.
    const STATUS: [u32; 3] = [0, 5, 6];
    /// Reading and writing are the first two capabilities.
    const READ_AND_WRITE: std::ops::RangeInclusive<u32> = 0..=1;
    let known = device_of(first).and_then(|_| device_of(second));
    let status = match known {
        Err(_) => STATUS[2],
        Ok(_) if READ_AND_WRITE.contains(&capability) => STATUS[0],
        Ok(_) => STATUS[1],
    };
    // SAFETY: the caller passes a place for a status or null.
    unsafe { put(out, status) };
    match known {
        Err(error) => error,
        Ok(_) if out.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => NvmlStatus::SUCCESS,
    }
}
