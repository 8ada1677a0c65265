//! Memory and events of other processes through the driver, and physical memory that travels as a file descriptor.

use std::ffi::{c_int, c_uint, c_void};

use super::answer::{current, give};
use crate::runtime as rt;
use crate::status::DriverError;
use crate::unsupported::unsupported;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcGetMemHandle(
    handle: *mut rt::IpcHandle,
    address: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaIpcGetMemHandle(handle, address).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcOpenMemHandle_v2(
    address: *mut u64,
    handle: rt::IpcHandle,
    flags: c_uint,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaIpcOpenMemHandle(address, handle, flags).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcCloseMemHandle(address: u64) -> DriverError {
    rt::cudaIpcCloseMemHandle(address).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcGetEventHandle(
    handle: *mut rt::IpcHandle,
    event: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaIpcGetEventHandle(handle, event).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcOpenEventHandle(
    event: *mut u64,
    handle: rt::IpcHandle,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaIpcOpenEventHandle(event, handle).into() }
}

/// What the descriptor of physical memory holds: a mark, the device and the length.
type Parcel = [u64; 3];
const MARK: u64 = 0x6f6f_6d70_726f_6f66;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: c_int = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemExportToShareableHandle(
    exported: *mut c_void,
    handle: u64,
    kind: c_int,
    _flags: u64,
) -> DriverError {
    if exported.is_null() {
        return DriverError::INVALID_VALUE;
    }
    if kind != FILE_DESCRIPTOR {
        unsupported("cuMemExportToShareableHandle of this kind", "libcuda.so");
        return DriverError::NOT_SUPPORTED;
    }
    let made = current().and_then(|current| {
        let physical = current
            .session
            .memory()
            .physical(handle)
            .ok_or(DriverError::INVALID_VALUE)?;
        let parcel: Parcel = [MARK, physical.device as u64, physical.len];
        // SAFETY: a fresh anonymous file, into which a plain array is written.
        unsafe {
            let file = libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC);
            let len = size_of::<Parcel>();
            if file < 0 || libc::pwrite(file, parcel.as_ptr().cast(), len, 0) != len as isize {
                return Err(DriverError::UNKNOWN);
            }
            Ok(file)
        }
    });
    // SAFETY: for this kind the caller gives a place for a descriptor.
    unsafe { give(exported.cast::<c_int>(), made) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut u64,
    exported: *mut c_void,
    kind: c_int,
) -> DriverError {
    if kind != FILE_DESCRIPTOR {
        unsupported("cuMemImportFromShareableHandle of this kind", "libcuda.so");
        // SAFETY: as for the CUDA function.
        return unsafe { give(handle, Err(DriverError::NOT_SUPPORTED)) };
    }
    let imported = current().and_then(|current| {
        let mut parcel: Parcel = [0; 3];
        let len = size_of::<Parcel>();
        // SAFETY: for this kind the pointer is the descriptor itself; the array has the room.
        let read = unsafe { libc::pread(exported as c_int, parcel.as_mut_ptr().cast(), len, 0) };
        let [mark, device, bytes] = parcel;
        let known = read == len as isize
            && mark == MARK
            && device < u64::from(current.session.settings.device_count);
        if !known {
            return Err(DriverError::INVALID_VALUE);
        }
        current.session.ensure_context(current.machine);
        Ok(current
            .session
            .memory()
            .create_foreign(device as usize, bytes))
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(handle, imported) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(
    address: *mut u64,
    size: usize,
    flags: c_uint,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaMallocManaged(address, size, flags).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPrefetchAsync(address: u64, len: usize) -> DriverError {
    rt::cudaMemPrefetchAsync(address, len).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPrefetchAsync_v2(address: u64, len: usize) -> DriverError {
    cuMemPrefetchAsync(address, len)
}
