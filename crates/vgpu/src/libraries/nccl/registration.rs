//! Memory that NCCL makes or is told of. Telling it of a buffer takes no memory: the devices only learn where it is.

use std::ffi::c_int;

use super::communicator::communicator;
use super::status::{NcclResult, refuse, result};
use crate::memory::{GRANULARITY, Kind};
use crate::runtime::{allocate, current, release};
use crate::status::put;

/// A buffer that was registered, as a buffer or as a window.
struct Registered {
    address: u64,
}

/// New memory that other ranks can be given access to, in whole pieces of the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclMemAlloc(out: *mut u64, size: usize) -> NcclResult {
    // SAFETY: the caller passes a place for an address or null.
    unsafe { put(out, 0) };
    result(|| {
        let current = current().map_err(|_| NcclResult::UNHANDLED_CUDA_ERROR)?;
        let whole = size.next_multiple_of(GRANULARITY as usize);
        let address = allocate(current, whole, Kind::Malloc).map_err(|_| {
            let text = format!("Failed to CUDA malloc {size} bytes");
            refuse(NcclResult::UNHANDLED_CUDA_ERROR, &text)
        })?;
        // SAFETY: as above.
        unsafe { put(out, address) };
        Ok(())
    })
}

/// Takes such memory back.
#[unsafe(no_mangle)]
pub extern "C" fn ncclMemFree(address: u64) -> NcclResult {
    result(|| {
        let current = current().map_err(|_| NcclResult::UNHANDLED_CUDA_ERROR)?;
        release(current.session, address).map_err(|_| NcclResult::UNHANDLED_CUDA_ERROR)
    })
}

/// # Safety
/// `out` must be null or valid for writing.
unsafe fn register(handle: u64, address: u64, out: *mut u64) -> NcclResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, 0) };
    result(|| {
        let (session, _) = communicator(handle)?;
        if out.is_null() || address == 0 {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        // SAFETY: not null.
        unsafe { put(out, session.handles().add(Registered { address })) };
        Ok(())
    })
}

fn forget(handle: u64, registered: u64) -> NcclResult {
    result(|| {
        let (session, _) = communicator(handle)?;
        session
            .handles::<Registered>()
            .remove(registered)
            .map(drop)
            .ok_or(NcclResult::INVALID_ARGUMENT)
    })
}

/// Tells the ranks of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommRegister(
    communicator: u64,
    address: u64,
    _size: usize,
    out: *mut u64,
) -> NcclResult {
    // SAFETY: as for the NCCL function.
    unsafe { register(communicator, address, out) }
}

/// Forgets a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDeregister(communicator: u64, registered: u64) -> NcclResult {
    forget(communicator, registered)
}

/// Tells the ranks of a buffer that they may write into.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommWindowRegister(
    communicator: u64,
    address: u64,
    _size: usize,
    out: *mut u64,
    _flags: c_int,
) -> NcclResult {
    // SAFETY: as for the NCCL function.
    unsafe { register(communicator, address, out) }
}

/// Forgets such a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommWindowDeregister(communicator: u64, window: u64) -> NcclResult {
    forget(communicator, window)
}

/// The buffer of a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclWinGetUserPtr(handle: u64, window: u64, out: *mut u64) -> NcclResult {
    let found = communicator(handle).and_then(|(session, _)| {
        session
            .handles::<Registered>()
            .with(window, |registered| registered.address)
            .ok_or(NcclResult::INVALID_ARGUMENT)
    });
    // SAFETY: the caller passes a place for an address or null.
    unsafe { put(out, found.unwrap_or(0)) };
    match found {
        Err(error) => error,
        Ok(_) if out.is_null() => NcclResult::INVALID_ARGUMENT,
        Ok(_) => NcclResult::SUCCESS,
    }
}
