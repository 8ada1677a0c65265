//! Streams through the driver: those of the runtime.

use std::ffi::{c_int, c_uint, c_void};

use crate::runtime as rt;
use crate::status::DriverError;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut u64, flags: c_uint) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamCreateWithFlags(stream, flags).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamCreateWithPriority(stream, flags, priority).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: u64) -> DriverError {
    rt::cudaStreamDestroy(stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: u64) -> DriverError {
    rt::cudaStreamQuery(stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> DriverError {
    rt::cudaStreamSynchronize(stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint) -> DriverError {
    rt::cudaStreamWaitEvent(stream, event, flags).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: u64, status: *mut c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamIsCapturing(stream, status).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    n_dependencies: *mut usize,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        rt::cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, n_dependencies)
            .into()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(stream: u64, priority: *mut c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamGetPriority(stream, priority).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: u64, flags: *mut c_uint) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamGetFlags(stream, flags).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(_stream: u64, context: *mut u64) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { super::cuCtxGetCurrent(context) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    edges: *mut *const c_void,
    n_dependencies: *mut usize,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        rt::cudaStreamGetCaptureInfo_v3(
            stream,
            status,
            id,
            graph,
            dependencies,
            edges,
            n_dependencies,
        )
        .into()
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: u64, mode: c_int) -> DriverError {
    rt::cudaStreamBeginCapture(stream, mode).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaStreamEndCapture(stream, graph).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaThreadExchangeStreamCaptureMode(mode).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: u64,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaLaunchHostFunc(stream, function, data).into() }
}
