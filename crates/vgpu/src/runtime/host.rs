//! Pinned host memory: ordinary lazily committed memory that CUDA knows of.

use std::ffi::{c_uint, c_void};

use super::capture::refuse_unsafe;
use super::current::{answer, current, output};
use crate::memory::{HostRange, HostUse};
use crate::session::Session;
use crate::status::CudaError;

const PAGE: usize = 4096;

/// New host memory of at least `size` bytes.
pub(crate) fn map_host(session: &Session, size: usize, usage: HostUse) -> Result<u64, CudaError> {
    let len = size
        .max(1)
        .checked_next_multiple_of(PAGE)
        .ok_or(CudaError::OUT_OF_MEMORY)?;
    // SAFETY: a fresh anonymous mapping.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(CudaError::OUT_OF_MEMORY);
    }
    let len = len as u64;
    session
        .memory()
        .add_host(base as u64, HostRange { len, usage });
    Ok(base as u64)
}

/// New pinned memory.
pub(crate) fn allocate_host(session: &Session, size: usize) -> Result<u64, CudaError> {
    map_host(session, size, HostUse::Allocated)
}

/// Frees what `map_host` made for this use.
pub(crate) fn unmap_host(session: &Session, address: u64, usage: HostUse) -> Result<(), CudaError> {
    let range = session
        .memory()
        .remove_host(address, usage)
        .ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the range was mapped by `map_host` and is forgotten, so it is unmapped once.
    unsafe { libc::munmap(address as *mut c_void, range.len as usize) };
    Ok(())
}

/// Frees what `allocate_host` made.
pub(crate) fn free_host(session: &Session, address: u64) -> Result<(), CudaError> {
    unmap_host(session, address, HostUse::Allocated)
}

/// CUDA learns of memory that the program owns.
pub(crate) fn register_host(session: &Session, address: u64, size: usize) -> Result<(), CudaError> {
    if address == 0 || size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut memory = session.memory();
    if memory.host_of(address).is_some() {
        return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
    }
    memory.add_host(
        address,
        HostRange {
            len: size as u64,
            usage: HostUse::Registered,
        },
    );
    Ok(())
}

/// CUDA forgets memory that the program owns.
pub(crate) fn unregister_host(session: &Session, address: u64) -> Result<(), CudaError> {
    let removed = session.memory().remove_host(address, HostUse::Registered);
    removed
        .map(drop)
        .ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostAlloc(
    address: *mut u64,
    size: usize,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| {
            refuse_unsafe()?;
            allocate_host(current.session, size)
        });
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocHost(address: *mut u64, size: usize) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaHostAlloc(address, size, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeHost(address: u64) -> CudaError {
    answer(|| {
        if address == 0 {
            Ok(())
        } else {
            refuse_unsafe()?;
            free_host(current()?.session, address)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostRegister(address: u64, size: usize, _flags: c_uint) -> CudaError {
    answer(|| register_host(current()?.session, address, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostUnregister(address: u64) -> CudaError {
    answer(|| unregister_host(current()?.session, address))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostGetDevicePointer(
    device: *mut u64,
    host: u64,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let device = output(device)?;
        let known = current()?.session.memory().host_of(host).is_some();
        device.set(if known { host } else { 0 });
        if known {
            Ok(())
        } else {
            Err(CudaError::INVALID_VALUE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostGetFlags(flags: *mut c_uint, host: u64) -> CudaError {
    answer(|| {
        output(flags)?.set(0);
        let known = current()?.session.memory().host_of(host).is_some();
        if known {
            Ok(())
        } else {
            Err(CudaError::INVALID_VALUE)
        }
    })
}
