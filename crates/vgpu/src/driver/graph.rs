//! Graphs through the driver: those of the runtime.

use std::ffi::c_uint;

use crate::runtime as rt;
use crate::status::DriverError;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphCreate(graph: *mut u64, flags: c_uint) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaGraphCreate(graph, flags).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: u64) -> DriverError {
    rt::cudaGraphDestroy(graph).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut u64,
    graph: u64,
    flags: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaGraphInstantiateWithFlags(executable, graph, flags).into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(executable: u64) -> DriverError {
    rt::cudaGraphExecDestroy(executable).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphUpload(executable: u64, stream: u64) -> DriverError {
    rt::cudaGraphUpload(executable, stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: u64, stream: u64) -> DriverError {
    rt::cudaGraphLaunch(executable, stream).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate_v2(
    executable: u64,
    graph: u64,
    result: *mut rt::UpdateResult,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaGraphExecUpdate(executable, graph, result).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: u64,
    nodes: *mut u64,
    n_nodes: *mut usize,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { rt::cudaGraphGetNodes(graph, nodes, n_nodes).into() }
}
