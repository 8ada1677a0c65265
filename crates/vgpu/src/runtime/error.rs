//! Errors and versions.

use std::ffi::{c_char, c_int};

use super::current::{answer, output};
use crate::session::session;
use crate::status::CudaError;

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> CudaError {
    CudaError::take_last()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> CudaError {
    CudaError::last()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: CudaError) -> *const c_char {
    error.name().as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: CudaError) -> *const c_char {
    error.text().as_ptr()
}

/// The version of the driver and runtime: the one the user's torch was built for.
pub(crate) fn version() -> c_int {
    session().map_or(0, |session| session.settings.cuda_version as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDriverGetVersion(version_out: *mut c_int) -> CudaError {
    answer(|| {
        let _: () = output(version_out)?.set(version());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaRuntimeGetVersion(version_out: *mut c_int) -> CudaError {
    answer(|| {
        let _: () = output(version_out)?.set(version());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaProfilerStart() -> CudaError {
    CudaError::SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaProfilerStop() -> CudaError {
    CudaError::SUCCESS
}
