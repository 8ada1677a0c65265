//! Memory pools through the driver: those of the runtime.

use std::ffi::{c_int, c_void};

use crate::runtime as rt;
use crate::status::DriverError;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaDeviceGetDefaultMemPool(pool, device).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut u64, device: c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaDeviceGetMemPool(pool, device).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceSetMemPool(device: c_int, pool: u64) -> DriverError {
    rt::cudaDeviceSetMemPool(device, pool).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolCreate(
    pool: *mut u64,
    props: *const rt::PoolProps,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaMemPoolCreate(pool, props).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolDestroy(pool: u64) -> DriverError {
    rt::cudaMemPoolDestroy(pool).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolGetAttribute(
    pool: u64,
    attribute: c_int,
    value: *mut c_void,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaMemPoolGetAttribute(pool, attribute, value).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolSetAttribute(
    pool: u64,
    attribute: c_int,
    value: *const c_void,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaMemPoolSetAttribute(pool, attribute, value).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(pool: u64, keep: usize) -> DriverError {
    rt::cudaMemPoolTrimTo(pool, keep).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolSetAccess(
    pool: u64,
    accesses: *const c_void,
    count: usize,
) -> DriverError {
    rt::cudaMemPoolSetAccess(pool, accesses, count).into()
}
