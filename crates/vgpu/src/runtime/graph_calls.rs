//! Graphs, as the program makes, launches and ends them.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use super::capture::{self, Lane};
use super::current::{Current, answer, current, output};
use super::error::version;
use super::graph::{self, Executable, NodeOf, Work};
use super::stream::is_stream;
use super::stream_capture::list;
use crate::status::{CudaError, put};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphCreate(graph: *mut u64, _flags: c_uint) -> CudaError {
    answer(|| {
        let graph = output(graph)?;
        let session = current().map(|current| current.session);
        graph.set(session.map_or(0, graph::create));
        session.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphDestroy(graph: u64) -> CudaError {
    answer(|| graph::destroy(current()?.session, graph))
}

fn instantiate(executable: *mut u64, graph: u64) -> CudaError {
    answer(|| {
        let executable = output(executable)?;
        let made = current().and_then(|current| graph::instantiate(current.session, graph));
        executable.set(made.unwrap_or(0));
        made.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphInstantiate(
    executable: *mut u64,
    graph: u64,
    _flags: u64,
) -> CudaError {
    instantiate(executable, graph)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphInstantiateWithFlags(
    executable: *mut u64,
    graph: u64,
    _flags: u64,
) -> CudaError {
    instantiate(executable, graph)
}

/// `cudaGraphInstantiateParams`.
#[repr(C)]
pub struct InstantiateParams {
    flags: u64,
    upload_stream: u64,
    failed_node: u64,
    result: c_int,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphInstantiateWithParams(
    executable: *mut u64,
    graph: u64,
    params: *mut InstantiateParams,
) -> CudaError {
    if params.is_null() {
        return CudaError::INVALID_VALUE.remember();
    }
    // SAFETY: the caller passes parameters; 0 is success.
    unsafe { ((*params).failed_node, (*params).result) = (0, 0) };
    instantiate(executable, graph)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphExecDestroy(executable: u64) -> CudaError {
    answer(|| {
        let removed = current()?
            .session
            .handles::<Executable>()
            .remove(executable);
        removed.map(drop).ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphUpload(executable: u64, stream: u64) -> CudaError {
    answer(|| {
        let session = current()?.session;
        capture::refuse_waiting(session, stream)?;
        graph::work_of_executable(session, executable).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphLaunch(executable: u64, stream: u64) -> CudaError {
    answer(|| {
        let Current { session, .. } = current()?;
        if !is_stream(session, stream) {
            return Err(CudaError::INVALID_HANDLE);
        }
        let work = graph::work_of_executable(session, executable)?;
        match capture::lane(session, stream)? {
            Lane::Captured(id) => capture::add(session, id, stream, Work::Child(work)),
            Lane::Now => {
                graph::run(session, &work, stream);
                Ok(())
            }
        }
    })
}

/// `cudaGraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Default)]
pub struct UpdateResult {
    result: c_int,
    error_node: u64,
    error_from_node: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphExecUpdate(
    executable: u64,
    graph: u64,
    result: *mut UpdateResult,
) -> CudaError {
    /// `cudaGraphExecUpdateErrorTopologyChanged`.
    const TOPOLOGY_CHANGED: c_int = 2;
    answer(|| {
        let updated = current().and_then(|c| graph::update(c.session, executable, graph));
        let code = if updated == Ok(true) {
            0
        } else {
            TOPOLOGY_CHANGED
        };
        let told = UpdateResult {
            result: code,
            ..UpdateResult::default()
        };
        // SAFETY: as for the CUDA function.
        unsafe { put(result, told) };
        if updated? {
            Ok(())
        } else {
            Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE)
        }
    })
}

/// Hands out a list as CUDA does: its length when there is no place, else as much as the place holds.
///
/// # Safety
/// `place` must be null or hold `*n` handles, and `n` be null or valid.
unsafe fn hand_out(found: &[u64], place: *mut u64, n: *mut usize) -> Result<(), CudaError> {
    if n.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: promised by the caller.
    unsafe {
        if place.is_null() {
            n.write(found.len());
            return Ok(());
        }
        for index in 0..n.read() {
            place
                .add(index)
                .write(found.get(index).copied().unwrap_or(0));
        }
        n.write(found.len());
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphGetNodes(
    graph: u64,
    nodes: *mut u64,
    n_nodes: *mut usize,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    answer(|| unsafe { hand_out(&graph::nodes(current()?.session, graph)?, nodes, n_nodes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphGetRootNodes(
    graph: u64,
    nodes: *mut u64,
    n_nodes: *mut usize,
) -> CudaError {
    answer(|| {
        let session = current()?.session;
        let mut roots = graph::nodes(session, graph)?;
        roots.retain(|node| {
            graph::dependencies_of(session, graph, *node).is_ok_and(|before| before.is_empty())
        });
        // SAFETY: as for the CUDA function.
        unsafe { hand_out(&roots, nodes, n_nodes) }
    })
}

/// CUDA 13 has the data of edges in the third place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphNodeGetDependencies(
    node: u64,
    dependencies: *mut u64,
    third: *mut usize,
    fourth: *mut usize,
) -> CudaError {
    let n_dependencies = if version() >= 13_000 { fourth } else { third };
    answer(|| {
        let session = current()?.session;
        let graph = session.handles::<NodeOf>().with(node, |of| of.0);
        let graph = graph.ok_or(CudaError::INVALID_VALUE)?;
        let found = graph::dependencies_of(session, graph, node)?;
        // SAFETY: as for the CUDA function.
        unsafe { hand_out(&found, dependencies, n_dependencies) }
    })
}

/// A drawing of the graph that names its nodes only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphDebugDotPrint(
    graph: u64,
    path: *const c_char,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let session = current()?.session;
        if path.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut text = String::from("digraph dot {\n");
        for node in graph::nodes(session, graph)? {
            let _ = writeln!(text, "\"{node:x}\";");
            for before in graph::dependencies_of(session, graph, node)? {
                let _ = writeln!(text, "\"{before:x}\" -> \"{node:x}\";");
            }
        }
        text += "}\n";
        // SAFETY: the caller passes a C string.
        let path = unsafe { CStr::from_ptr(path) };
        std::fs::write(OsStr::from_bytes(path.to_bytes()), text).map_err(|_| CudaError::UNKNOWN)
    })
}

/// The handle of a condition is a number that only kernels use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphConditionalHandleCreate(
    handle: *mut u64,
    graph: u64,
    _default: c_uint,
    _flags: c_uint,
) -> CudaError {
    struct Condition;
    answer(|| {
        let handle = output(handle)?;
        let made = current().and_then(|current| {
            graph::nodes(current.session, graph)?;
            Ok(current.session.handles().add(Condition))
        });
        handle.set(made.unwrap_or(0));
        made.map(drop)
    })
}

/// `cudaGraphNodeParams` of a conditional node.
#[repr(C)]
pub struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    condition: u64,
    condition_kind: c_int,
    n_bodies: c_uint,
    bodies: *const u64,
}

/// # Safety
/// As for `cudaGraphAddNode`.
unsafe fn add_node(
    node: *mut u64,
    graph: u64,
    dependencies: Vec<u64>,
    params: *mut NodeParams,
) -> CudaError {
    /// `cudaGraphNodeTypeEmpty` and `cudaGraphNodeTypeConditional`.
    const EMPTY: c_int = 5;
    const CONDITIONAL: c_int = 13;
    answer(|| {
        let node = output(node)?;
        let made = current().and_then(|Current { session, .. }| {
            if params.is_null() {
                return Err(CudaError::INVALID_VALUE);
            }
            // SAFETY: the caller passes parameters of the kind that they tell.
            match unsafe { (*params).kind } {
                EMPTY => graph::add_node(session, graph, dependencies, Work::Nothing),
                CONDITIONAL => {
                    // SAFETY: as above.
                    let n_bodies = unsafe { (*params).n_bodies };
                    let (node, bodies) =
                        graph::add_conditional(session, graph, dependencies, n_bodies)?;
                    // SAFETY: as above; the list is CUDA's and lives as long as the program may read it.
                    unsafe { (*params).bodies = bodies.leak().as_ptr() };
                    Ok(node)
                }
                _ => {
                    crate::unsupported::unsupported("cudaGraphAddNode", "libcudart.so");
                    Err(CudaError::NOT_SUPPORTED)
                }
            }
        });
        node.set(made.unwrap_or(0));
        made.map(drop)
    })
}

/// CUDA 13 has the data of edges in the fourth place, as `_v2` has in CUDA 12.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphAddNode(
    node: *mut u64,
    graph: u64,
    dependencies: *const u64,
    fourth: usize,
    fifth: usize,
    sixth: *mut NodeParams,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe {
        if version() >= 13_000 {
            add_node(node, graph, list(dependencies, fifth), sixth)
        } else {
            add_node(
                node,
                graph,
                list(dependencies, fourth),
                fifth as *mut NodeParams,
            )
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGraphAddNode_v2(
    node: *mut u64,
    graph: u64,
    dependencies: *const u64,
    _edges: *const c_void,
    n_dependencies: usize,
    params: *mut NodeParams,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { add_node(node, graph, list(dependencies, n_dependencies), params) }
}
