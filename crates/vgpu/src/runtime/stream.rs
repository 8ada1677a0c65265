//! Streams. Work is done when it is submitted, so a stream has no queue; it has an owner, flags and a priority.

use std::ffi::{c_int, c_uint, c_void};

use super::capture::{self, Lane};
use super::current::{Current, answer, current, output};
use super::event::Event;
use super::graph::Work;
use super::pool::settle;
use crate::clock;
use crate::session::Session;
use crate::status::CudaError;

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
    answer(|| capture::refuse_waiting(checked(stream)?.session, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamSynchronize(stream: u64) -> CudaError {
    answer(|| {
        let session = checked(stream)?.session;
        capture::refuse_waiting(session, stream)?;
        clock::seen_stream(stream);
        settle(session);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamWaitEvent(stream: u64, event: u64, flags: c_uint) -> CudaError {
    /// `cudaEventWaitExternal`: the event is not one of the capture's.
    const EXTERNAL: c_uint = 1;
    answer(|| {
        let session = checked(stream)?.session;
        if !session.handles::<Event>().has(event) {
            return Err(CudaError::INVALID_HANDLE);
        }
        match capture::lane(session, stream)? {
            Lane::Captured(id) if flags & EXTERNAL != 0 => {
                capture::add(session, id, stream, Work::Nothing)
            }
            _ => {
                let time = session
                    .handles::<Event>()
                    .with(event, |event| event.recorded_nanos)
                    .flatten();
                clock::wait(stream, time.unwrap_or(0));
                capture::wait(session, stream, event)
            }
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

type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
type Callback = Option<unsafe extern "C" fn(u64, CudaError, *mut c_void)>;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchHostFunc(
    stream: u64,
    function: HostFunction,
    data: *mut c_void,
) -> CudaError {
    answer(|| {
        let session = checked(stream)?.session;
        let function = function.ok_or(CudaError::INVALID_VALUE)?;
        match capture::lane(session, stream)? {
            Lane::Captured(id) => {
                let data = data as usize;
                capture::add(session, id, stream, Work::Host { function, data })
            }
            Lane::Now => {
                // SAFETY: the caller's own function and argument; all work before it is done.
                unsafe { function(data) };
                Ok(())
            }
        }
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
        capture::refuse_waiting(checked(stream)?.session, stream)?;
        let callback = callback.ok_or(CudaError::INVALID_VALUE)?;
        // SAFETY: the caller's own function and argument; all work before it is done.
        unsafe { callback(stream, CudaError::SUCCESS, data) };
        Ok(())
    })
}
