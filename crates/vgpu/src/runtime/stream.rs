//! Streams. Work is done when it is submitted, so a stream has no queue; it has an owner, flags and a priority.

use std::ffi::{c_int, c_uint, c_void};

use super::current::{Current, answer, current, output};
use super::error::version;
use super::event::Event;
use crate::session::Session;
use crate::status::{CudaError, put};
use crate::unsupported::unsupported;

/// A stream that a program made.
pub(crate) struct Stream {
    pub(crate) ordinal: usize,
    pub(crate) flags: c_uint,
    pub(crate) priority: c_int,
}

/// Whether a handle is a stream: the default ones have the numbers 0, 1 and 2.
pub(crate) fn is_stream(session: &Session, stream: u64) -> bool {
    stream <= 2 || session.handles::<Stream>().has(stream)
}

fn checked(stream: u64) -> Result<Current, CudaError> {
    let current = current()?;
    if is_stream(current.session, stream) {
        Ok(current)
    } else {
        Err(CudaError::INVALID_HANDLE)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreate(stream: *mut u64) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaStreamCreateWithPriority(stream, 0, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithFlags(stream: *mut u64, flags: c_uint) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaStreamCreateWithPriority(stream, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithPriority(
    stream: *mut u64,
    flags: c_uint,
    priority: c_int,
) -> CudaError {
    answer(|| {
        let stream = output(stream)?;
        let Current {
            session,
            ordinal,
            machine,
        } = current()?;
        session.ensure_context(machine);
        stream.set(session.handles::<Stream>().add(Stream {
            ordinal,
            flags,
            priority: priority.clamp(-5, 0),
        }));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamDestroy(stream: u64) -> CudaError {
    answer(|| {
        let removed = current()?.session.handles::<Stream>().remove(stream);
        removed.map(drop).ok_or(CudaError::INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamQuery(stream: u64) -> CudaError {
    answer(|| checked(stream).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamSynchronize(stream: u64) -> CudaError {
    answer(|| checked(stream).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> CudaError {
    answer(|| {
        let known = checked(stream)?.session.handles::<Event>().has(event);
        if known {
            Ok(())
        } else {
            Err(CudaError::INVALID_HANDLE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetPriority(stream: u64, priority: *mut c_int) -> CudaError {
    answer(|| {
        let priority = output(priority)?;
        let session = current()?.session;
        let found = session
            .handles::<Stream>()
            .with(stream, |stream| stream.priority);
        priority.set(found.unwrap_or(0));
        if is_stream(session, stream) {
            Ok(())
        } else {
            Err(CudaError::INVALID_HANDLE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetFlags(stream: u64, flags: *mut c_uint) -> CudaError {
    answer(|| {
        let flags = output(flags)?;
        let session = current()?.session;
        let found = session
            .handles::<Stream>()
            .with(stream, |stream| stream.flags);
        flags.set(found.unwrap_or(0));
        if is_stream(session, stream) {
            Ok(())
        } else {
            Err(CudaError::INVALID_HANDLE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetId(stream: u64, id: *mut u64) -> CudaError {
    answer(|| {
        output(id)?.set(stream);
        checked(stream).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetDevice(stream: u64, device: *mut c_int) -> CudaError {
    answer(|| {
        let device = output(device)?;
        let Current {
            session, ordinal, ..
        } = current()?;
        let owner = session
            .handles::<Stream>()
            .with(stream, |stream| stream.ordinal);
        device.set(owner.unwrap_or(ordinal) as c_int);
        if is_stream(session, stream) {
            Ok(())
        } else {
            Err(CudaError::INVALID_HANDLE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamIsCapturing(stream: u64, status: *mut c_int) -> CudaError {
    answer(|| {
        output(status)?.set(0);
        checked(stream).map(drop)
    })
}

/// No stream captures. CUDA 12 gives this name three parameters, CUDA 13 seven; only the common ones are written
/// under CUDA 12.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const c_void,
    edges: *mut *const c_void,
    n_dependencies: *mut usize,
) -> CudaError {
    // SAFETY: the outputs are null or valid; under CUDA 12 the last four are not parameters and are left alone.
    unsafe {
        put(id, 0);
        if version() >= 13_000 {
            no_dependencies(graph, dependencies, n_dependencies);
            put(edges, std::ptr::null());
        }
        cudaStreamIsCapturing(stream, status)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: u64,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const c_void,
    n_dependencies: *mut usize,
) -> CudaError {
    // SAFETY: the outputs are null or valid.
    unsafe {
        put(id, 0);
        no_dependencies(graph, dependencies, n_dependencies);
        cudaStreamIsCapturing(stream, status)
    }
}

/// # Safety
/// Each output must be null or valid.
unsafe fn no_dependencies(
    graph: *mut u64,
    dependencies: *mut *const c_void,
    n_dependencies: *mut usize,
) {
    // SAFETY: promised by the caller.
    unsafe {
        put(graph, 0);
        put(dependencies, std::ptr::null());
        put(n_dependencies, 0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) -> CudaError {
    thread_local! {
        static MODE: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) };
    }
    answer(|| {
        if mode.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller passes an int that is read and written.
        unsafe { mode.write(MODE.replace(mode.read())) };
        Ok(())
    })
}

/// CUDA graphs are not modelled.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamBeginCapture(_stream: u64, _mode: c_int) -> CudaError {
    unsupported("cudaStreamBeginCapture", "libcudart.so");
    CudaError::NOT_SUPPORTED.remember()
}

type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
type Callback = Option<unsafe extern "C" fn(u64, CudaError, *mut c_void)>;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc(
    stream: u64,
    function: HostFunction,
    data: *mut c_void,
) -> CudaError {
    answer(|| {
        checked(stream)?;
        let function = function.ok_or(CudaError::INVALID_VALUE)?;
        // SAFETY: the caller's own function and argument; all work before it is done.
        unsafe { function(data) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamAddCallback(
    stream: u64,
    callback: Callback,
    data: *mut c_void,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        checked(stream)?;
        let callback = callback.ok_or(CudaError::INVALID_VALUE)?;
        // SAFETY: the caller's own function and argument; all work before it is done.
        unsafe { callback(stream, CudaError::SUCCESS, data) };
        Ok(())
    })
}
