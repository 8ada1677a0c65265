//! Libraries of kernels that a program loads itself: the driver's modules under the runtime's names.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver as dr;
use crate::status::{CudaError, DriverError};

fn told(error: DriverError) -> CudaError {
    CudaError::from(error).remember()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryLoadData(
    library: *mut u64,
    code: *const c_void,
    jit_options: *const c_int,
    jit_values: *const *mut c_void,
    n_jit: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
    n_options: c_uint,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    told(unsafe {
        dr::cuLibraryLoadData(
            library,
            code,
            jit_options,
            jit_values,
            n_jit,
            options,
            values,
            n_options,
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryLoadFromFile(
    library: *mut u64,
    path: *const c_char,
    jit_options: *const c_int,
    jit_values: *const *mut c_void,
    n_jit: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
    n_options: c_uint,
) -> CudaError {
    // SAFETY: as for the CUDA function; a module is not looked into, so its path stands for it.
    unsafe {
        cudaLibraryLoadData(
            library,
            path.cast(),
            jit_options,
            jit_values,
            n_jit,
            options,
            values,
            n_options,
        )
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryUnload(library: u64) -> CudaError {
    told(dr::cuLibraryUnload(library))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryGetKernel(
    kernel: *mut u64,
    library: u64,
    name: *const c_char,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    told(unsafe { dr::cuLibraryGetKernel(kernel, library, name) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryGetGlobal(
    address: *mut u64,
    size: *mut usize,
    library: u64,
    name: *const c_char,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    told(unsafe { dr::cuModuleGetGlobal_v2(address, size, library, name) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaKernelSetAttributeForDevice(
    kernel: u64,
    attribute: c_int,
    value: c_int,
    device: c_int,
) -> CudaError {
    told(dr::cuKernelSetAttribute(attribute, value, kernel, device))
}
