//! Events through the driver: those of the runtime.

use std::ffi::c_uint;

use crate::runtime as rt;
use crate::status::DriverError;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut u64, flags: c_uint) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaEventCreateWithFlags(event, flags).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: u64) -> DriverError {
    rt::cudaEventDestroy(event).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: u64, stream: u64) -> DriverError {
    rt::cudaEventRecord(event, stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: u64) -> DriverError {
    rt::cudaEventQuery(event).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: u64) -> DriverError {
    rt::cudaEventSynchronize(event).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(millis: *mut f32, start: u64, end: u64) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaEventElapsedTime(millis, start, end).into() }
}
