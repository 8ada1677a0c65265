//! Managed memory: host memory that kernels reach, and that moves to the device when they do.
//!
//! Pages move by faults, which no call shows, and go back when the device is full. So it is host memory here that
//! takes nothing of the device, and both that and what kernels write there are assumptions.

use std::ffi::{c_int, c_uint};

use super::capture::refuse_unsafe;
use super::current::{answer, current, output};
use super::host::map_host;
use crate::memory::HostUse;
use crate::session::Session;
use crate::status::CudaError;

/// New managed memory.
pub(crate) fn allocate_managed(session: &Session, size: usize) -> Result<u64, CudaError> {
    if size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    session.note_once(
        r#"{"kind":"assumption","assumption":"managed_memory","text":"managed memory, as paged optimizers use it, is taken to stay in host memory; what kernels write there is not seen","where":null}"#,
    );
    map_host(session, size, HostUse::Managed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocManaged(
    address: *mut u64,
    size: usize,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let allocated = current().and_then(|current| {
            current.session.ensure_context(current.machine);
            refuse_unsafe()?;
            allocate_managed(current.session, size)
        });
        address.set(allocated.unwrap_or(0));
        allocated.map(drop)
    })
}

/// Advice about managed memory, or a wish where it should be: taken, and of no effect on what is counted.
fn advised(address: u64, len: usize) -> CudaError {
    answer(|| {
        let memory = current()?.session.memory();
        let end = address
            .checked_add(len as u64)
            .ok_or(CudaError::INVALID_VALUE)?;
        memory
            .host_of(address)
            .filter(|(start, range)| range.usage == HostUse::Managed && end <= start + range.len)
            .map(drop)
            .ok_or(CudaError::INVALID_VALUE)
    })
}

/// The rest of the parameters says where to, and differs between CUDA 12 and 13.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync(address: u64, len: usize) -> CudaError {
    advised(address, len)
}

/// As `cudaMemPrefetchAsync` in CUDA 13.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync_v2(address: u64, len: usize) -> CudaError {
    advised(address, len)
}

/// The rest of the parameters says what for, and differs between CUDA 12 and 13.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemAdvise(address: u64, len: usize, _advice: c_int) -> CudaError {
    advised(address, len)
}

/// As `cudaMemAdvise` in CUDA 13.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemAdvise_v2(address: u64, len: usize, _advice: c_int) -> CudaError {
    advised(address, len)
}
