//! Capturing a stream, as the program asks for it.
//!
//! CUDA 12 and 13 give some of these names different parameters; the version of the user's torch decides.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};

use super::capture::{self, Info, Mode};
use super::current::{Current, answer, current, output};
use super::error::version;
use super::graph;
use super::stream::is_stream;
use crate::status::{CudaError, put};

/// Begins a capture into a graph that the program has or that is made for it.
fn begin(stream: u64, mode: c_int, into: Option<u64>, after: Vec<u64>) -> Result<(), CudaError> {
    let Current {
        session, machine, ..
    } = current()?;
    session.ensure_context(machine);
    if !is_stream(session, stream) {
        return Err(CudaError::INVALID_HANDLE);
    }
    let mode = Mode::from_code(mode)?;
    let graph = into.unwrap_or_else(|| graph::create(session));
    let begun = capture::begin(session, stream, mode, graph, after);
    if begun.is_err() && into.is_none() {
        graph::destroy(session, graph)?;
    }
    begun
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamBeginCapture(stream: u64, mode: c_int) -> CudaError {
    answer(|| begin(stream, mode, None, Vec::new()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamBeginCaptureToGraph(
    stream: u64,
    graph: u64,
    dependencies: *const u64,
    _edges: *const c_void,
    n_dependencies: usize,
    mode: c_int,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    let after = unsafe { list(dependencies, n_dependencies) };
    answer(|| begin(stream, mode, Some(graph), after))
}

/// # Safety
/// `first` must be null or point to `n` handles.
pub(super) unsafe fn list(first: *const u64, n: usize) -> Vec<u64> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: promised by the caller.
    (0..n)
        .map(|index| unsafe { first.add(index).read_unaligned() })
        .collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamEndCapture(stream: u64, graph: *mut u64) -> CudaError {
    answer(|| {
        let graph = output(graph)?;
        let session = match current() {
            Ok(current) => current.session,
            Err(error) => {
                graph.set(0);
                return Err(error);
            }
        };
        match capture::end(session, stream) {
            Ok(whole) => {
                graph.set(whole);
                Ok(())
            }
            Err((error, broken)) => {
                graph.set(0);
                if let Some(broken) = broken {
                    graph::destroy(session, broken)?;
                }
                Err(error)
            }
        }
    })
}

fn info(stream: u64) -> Result<Info, CudaError> {
    let session = current()?.session;
    if is_stream(session, stream) {
        capture::info(session, stream)
    } else {
        Err(CudaError::INVALID_HANDLE)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamIsCapturing(stream: u64, status: *mut c_int) -> CudaError {
    answer(|| {
        let status = output(status)?;
        let found = info(stream);
        status.set(found.as_ref().map_or(0, |info| info.status));
        found.map(drop)
    })
}

thread_local! {
    /// What the last answer's list of dependencies points to: it is CUDA's, and lives until the thread asks again.
    static DEPENDENCIES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// # Safety
/// Each output must be null or valid.
unsafe fn tell(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    n_dependencies: *mut usize,
) -> CudaError {
    answer(|| {
        let status = output(status)?;
        let found = info(stream);
        let told = found.as_ref().cloned().unwrap_or_default();
        status.set(told.status);
        DEPENDENCIES.with_borrow_mut(|kept| {
            *kept = told.dependencies;
            // SAFETY: promised by the caller.
            unsafe {
                put(id, told.id);
                put(graph, told.graph);
                put(dependencies, kept.as_ptr());
                put(n_dependencies, kept.len());
            }
        });
        found.map(drop)
    })
}

/// CUDA 12 gives this name three parameters, CUDA 13 seven; only the common ones are written under CUDA 12.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    edges: *mut *const c_void,
    n_dependencies: *mut usize,
) -> CudaError {
    // SAFETY: the outputs are null or valid; under CUDA 12 the last four are not parameters and are left alone.
    unsafe {
        if version() >= 13_000 {
            put(edges, std::ptr::null());
            tell(stream, status, id, graph, dependencies, n_dependencies)
        } else {
            let (none, none_listed) = (std::ptr::null_mut(), std::ptr::null_mut());
            tell(stream, status, id, none, none_listed, std::ptr::null_mut())
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    n_dependencies: *mut usize,
) -> CudaError {
    // SAFETY: the outputs are null or valid.
    unsafe { tell(stream, status, id, graph, dependencies, n_dependencies) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo_v3(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    edges: *mut *const c_void,
    n_dependencies: *mut usize,
) -> CudaError {
    // SAFETY: the outputs are null or valid; edges have no data of their own.
    unsafe {
        put(edges, std::ptr::null());
        tell(stream, status, id, graph, dependencies, n_dependencies)
    }
}

/// # Safety
/// `dependencies` must be null or point to `n` handles.
unsafe fn update(stream: u64, dependencies: *const u64, n: usize, flags: c_uint) -> CudaError {
    /// `cudaStreamSetCaptureDependencies`: replace; otherwise add.
    const SET: c_uint = 1;
    // SAFETY: promised by the caller.
    let new = unsafe { list(dependencies, n) };
    answer(|| {
        current()?;
        capture::update(stream, |ends| {
            if flags & SET != 0 {
                ends.clear();
            }
            ends.extend(new);
        })
    })
}

/// CUDA 13 has the data of edges in the third place, as `_v2` has in CUDA 12.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamUpdateCaptureDependencies(
    stream: u64,
    dependencies: *const u64,
    third: usize,
    fourth: usize,
    flags: c_uint,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe {
        if version() >= 13_000 {
            update(stream, dependencies, fourth, flags)
        } else {
            update(stream, dependencies, third, fourth as c_uint)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamUpdateCaptureDependencies_v2(
    stream: u64,
    dependencies: *const u64,
    _edges: *const c_void,
    n_dependencies: usize,
    flags: c_uint,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { update(stream, dependencies, n_dependencies, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) -> CudaError {
    answer(|| {
        if mode.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller passes an int that is read and written.
        unsafe { mode.write(capture::exchange_mode(Mode::from_code(mode.read())?) as c_int) };
        Ok(())
    })
}
