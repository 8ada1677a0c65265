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

/// The fabric of a device: there is none. What the caller set of the versioned structure stays as it is.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuFabricInfoV(device: u64, out: *mut c_void) -> NvmlStatus {
    let _ = out;
    device_of(device).err().unwrap_or(NvmlStatus::NOT_SUPPORTED)
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
