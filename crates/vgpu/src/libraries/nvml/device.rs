//! Finding devices and what they are. A device handle is its number on the machine, disguised.

use std::ffi::{CStr, c_char};

use super::NvmlStatus;
use super::system::{put_text, started};
use crate::session::Session;
use crate::status::put;
use crate::visible::uuid_text;

const FIRST_HANDLE: u64 = 0x6e76_6d6c_0000;

/// The device of a handle.
pub(super) fn device_of(handle: u64) -> Result<(&'static Session, u32), NvmlStatus> {
    let session = started()?;
    let ordinal = handle
        .checked_sub(FIRST_HANDLE)
        .and_then(|ordinal| u32::try_from(ordinal).ok());
    let known = ordinal.filter(|ordinal| *ordinal < session.settings.device_count);
    known
        .map(|ordinal| (session, ordinal))
        .ok_or(NvmlStatus::INVALID_ARGUMENT)
}

/// Writes what is asked of a device, or `absent`.
///
/// # Safety
/// `out` must be null or valid for writing.
pub(super) unsafe fn put_of<T: Copy>(
    handle: u64,
    out: *mut T,
    absent: T,
    look: impl FnOnce(&Session, u32) -> Option<T>,
) -> NvmlStatus {
    let value = device_of(handle)
        .and_then(|(session, ordinal)| look(session, ordinal).ok_or(NvmlStatus::NOT_SUPPORTED));
    // SAFETY: promised by the caller.
    unsafe { put(out, value.unwrap_or(absent)) };
    match value {
        Err(error) => error,
        Ok(_) if out.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => NvmlStatus::SUCCESS,
    }
}

/// Functions that write one number of a device.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident: $type:ty),*) -> $out:ty, |$session:pat_param, $ordinal:pat_param| $value:expr;)+) => { $(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: u64, $($parameter: $type,)* out: *mut $out) -> super::NvmlStatus {
            // SAFETY: the caller passes a place for the number or null.
            unsafe { super::device::put_of(device, out, Default::default(), |$session, $ordinal| $value) }
        }
    )+ };
}
pub(super) use numbers;

/// A PCI address as NVML writes it. The devices sit alone on the buses from 1 on, in domain 0.
pub(super) fn pci_text(ordinal: u32) -> String {
    format!("00000000:{:02X}:00.0", 1 + ordinal)
}

/// The device at a PCI address, with a domain of four or eight digits or none.
pub(super) fn at_pci_address(text: &str, count: u32) -> Option<u32> {
    let address = text.trim().strip_suffix(".0").unwrap_or(text.trim());
    let mut parts = address
        .rsplit(':')
        .map(|part| u32::from_str_radix(part, 16));
    let (device, bus) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let domain = parts.next().unwrap_or(Ok(0)).ok()?;
    let ordinal = bus.checked_sub(1).filter(|ordinal| *ordinal < count)?;
    (device == 0 && domain == 0 && parts.next().is_none()).then_some(ordinal)
}

/// The number of devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> NvmlStatus {
    let count = started().map(|session| session.settings.device_count);
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(out, count.unwrap_or(0)) };
    match count {
        Err(error) => error,
        Ok(_) if out.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => NvmlStatus::SUCCESS,
    }
}

/// The number of devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount(out: *mut u32) -> NvmlStatus {
    // SAFETY: the same contract.
    unsafe { nvmlDeviceGetCount_v2(out) }
}

/// # Safety
/// `out` must be null or valid for writing.
unsafe fn put_handle(
    out: *mut u64,
    missing: NvmlStatus,
    find: impl FnOnce(&Session) -> Option<u32>,
) -> NvmlStatus {
    let ordinal = started().and_then(|session| {
        find(session)
            .filter(|ordinal| *ordinal < session.settings.device_count)
            .ok_or(missing)
    });
    // SAFETY: promised by the caller.
    unsafe {
        put(
            out,
            ordinal.map_or(0, |ordinal| FIRST_HANDLE + u64::from(ordinal)),
        );
    }
    match ordinal {
        Err(error) => error,
        Ok(_) if out.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => NvmlStatus::SUCCESS,
    }
}

/// # Safety
/// `text` must be null or a C string.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: not null where it is read; promised by the caller.
    (!text.is_null())
        .then(|| unsafe { CStr::from_ptr(text) })
        .and_then(|text| text.to_str().ok())
}

/// The device with a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut u64) -> NvmlStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put_handle(out, NvmlStatus::INVALID_ARGUMENT, |_| Some(index)) }
}

/// The device with a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, out: *mut u64) -> NvmlStatus {
    // SAFETY: the same contract.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, out) }
}

/// The device at a PCI address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    address: *const c_char,
    out: *mut u64,
) -> NvmlStatus {
    // SAFETY: the caller passes a C string or null.
    let address = unsafe { text_of(address) };
    let find = |session: &Session| at_pci_address(address?, session.settings.device_count);
    // SAFETY: the caller passes a place for a handle or null.
    unsafe {
        put_handle(
            out,
            if address.is_some() {
                NvmlStatus::NOT_FOUND
            } else {
                NvmlStatus::INVALID_ARGUMENT
            },
            find,
        )
    }
}

/// The device at a PCI address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(
    address: *const c_char,
    out: *mut u64,
) -> NvmlStatus {
    // SAFETY: the same contract.
    unsafe { nvmlDeviceGetHandleByPciBusId_v2(address, out) }
}

/// The device with a UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    out: *mut u64,
) -> NvmlStatus {
    // SAFETY: the caller passes a C string or null.
    let uuid = unsafe { text_of(uuid) };
    let find = |session: &Session| {
        let wanted = uuid?.strip_prefix("GPU-")?;
        (0..session.settings.device_count).find(|ordinal| uuid_text(*ordinal) == wanted)
    };
    // SAFETY: the caller passes a place for a handle or null.
    unsafe {
        put_handle(
            out,
            if uuid.is_some() {
                NvmlStatus::NOT_FOUND
            } else {
                NvmlStatus::INVALID_ARGUMENT
            },
            find,
        )
    }
}

/// The name of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: u64, out: *mut c_char, room: u32) -> NvmlStatus {
    let name = device_of(device).map(|(session, _)| session.settings.device.name.as_str());
    // SAFETY: the caller passes `room` characters or null.
    unsafe { put_text(out, room, name) }
}

/// The UUID of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: u64, out: *mut c_char, room: u32) -> NvmlStatus {
    let uuid = device_of(device).map(|(_, ordinal)| format!("GPU-{}", uuid_text(ordinal)));
    // SAFETY: the caller passes `room` characters or null.
    unsafe { put_text(out, room, uuid.as_deref().map_err(|error| *error)) }
}

/// `NVML_DEVICE_ARCH_*` of a compute capability.
fn architecture(capability: (u32, u32)) -> u32 {
    match capability {
        (..=3, _) => 2,
        (4 | 5, _) => 3,
        (6, _) => 4,
        (7, 0..=4) => 5,
        (7, _) => 6,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10.., _) => 10,
    }
}

numbers! {
    /// The number of a device.
    nvmlDeviceGetIndex() -> u32, |_, ordinal| Some(ordinal);
    /// The number in the device's file name.
    nvmlDeviceGetMinorNumber() -> u32, |_, ordinal| Some(ordinal);
    /// The architecture.
    nvmlDeviceGetArchitecture() -> u32, |session, _| Some(architecture(session.settings.device.compute_capability));
    /// The brand: unknown.
    nvmlDeviceGetBrand() -> u32, |_, _| Some(0);
    /// The compute mode: the default one.
    nvmlDeviceGetComputeMode() -> u32, |_, _| Some(0);
    /// Whether the driver stays loaded: it does.
    nvmlDeviceGetPersistenceMode() -> u32, |_, _| Some(1);
    /// Whether the board has several devices: it has not.
    nvmlDeviceGetMultiGpuBoard() -> u32, |_, _| Some(0);
    /// Whether the device belongs to a virtual machine: it does not.
    nvmlDeviceGetVirtualizationMode() -> u32, |_, _| Some(0);
    /// The node of the device's memory: none.
    nvmlDeviceGetNumaNodeId() -> u32, |_, _| None;
}

/// The compute capability.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: u64,
    major: *mut i32,
    minor: *mut i32,
) -> NvmlStatus {
    let capability =
        device_of(device).map(|(session, _)| session.settings.device.compute_capability);
    let (of_major, of_minor) = capability.unwrap_or_default();
    // SAFETY: the caller passes places for numbers or null.
    unsafe {
        put(major, of_major as i32);
        put(minor, of_minor as i32);
    }
    match capability {
        Err(error) => error,
        Ok(_) if major.is_null() || minor.is_null() => NvmlStatus::INVALID_ARGUMENT,
        Ok(_) => NvmlStatus::SUCCESS,
    }
}

/// # Safety
/// `first` and `second` must be null or valid for writing.
unsafe fn put_modes(device: u64, first: *mut u32, second: *mut u32) -> NvmlStatus {
    // SAFETY: promised by the caller.
    unsafe {
        put(first, 0);
        put(second, 0);
    }
    device_of(device).err().unwrap_or(NvmlStatus::NOT_SUPPORTED)
}

/// Multi-instance mode: not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: u64,
    current: *mut u32,
    pending: *mut u32,
) -> NvmlStatus {
    // SAFETY: the caller passes places for modes or null.
    unsafe { put_modes(device, current, pending) }
}

/// Error correction: the total memory of the settings is what is left with it, and nothing else is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEccMode(
    device: u64,
    current: *mut u32,
    pending: *mut u32,
) -> NvmlStatus {
    // SAFETY: the caller passes places for modes or null.
    unsafe { put_modes(device, current, pending) }
}

/// `nvmlPciInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PciInfo {
    legacy_address: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    address: [u8; 32],
}

impl PciInfo {
    pub(super) const NONE: Self = Self {
        legacy_address: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        device_id: 0,
        subsystem_id: 0,
        address: [0; 32],
    };

    fn of(ordinal: u32) -> Self {
        let text = pci_text(ordinal);
        let mut info = Self {
            bus: 1 + ordinal,
            ..Self::NONE
        };
        info.address[..text.len()].copy_from_slice(text.as_bytes());
        // The older form has a domain of four digits.
        let legacy = &text.as_bytes()[4..];
        info.legacy_address[..legacy.len()].copy_from_slice(legacy);
        info
    }
}

/// Where a device sits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: u64, out: *mut PciInfo) -> NvmlStatus {
    // SAFETY: the caller passes a place for the information or null.
    unsafe {
        put_of(device, out, PciInfo::NONE, |_, ordinal| {
            Some(PciInfo::of(ordinal))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_read_in_every_spelling() {
        let check =
            |text: &str, expected| assert_eq!(at_pci_address(text, 20), expected, "{text:?}");
        check("00000000:01:00.0", Some(0));
        check("0000:01:00.0", Some(0));
        check("0000:0a:00.0", Some(9));
        check("0000:0A:00.0", Some(9));
        check("02:00", Some(1));
        check(&pci_text(17), Some(17));
        check("0000:00:00.0", None);
        check("0000:15:00.0", None);
        check("0001:01:00.0", None);
        check("0000:01:01.0", None);
        check("", None);
        check("GPU", None);
    }

    #[test]
    fn the_older_form_of_an_address_is_shorter() {
        let info = PciInfo::of(1);
        assert_eq!(&info.legacy_address[..13], b"0000:02:00.0\0");
        assert_eq!(&info.address[..17], b"00000000:02:00.0\0");
    }

    #[test]
    fn architectures_follow_compute_capabilities() {
        let check =
            |capability, expected| assert_eq!(architecture(capability), expected, "{capability:?}");
        check((7, 0), 5);
        check((7, 5), 6);
        check((8, 6), 7);
        check((8, 9), 8);
        check((9, 0), 9);
        check((12, 0), 10);
    }
}
