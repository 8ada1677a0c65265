//! Events. Work is done when it is submitted, so an event is complete once recorded; what it remembers is when.

use std::ffi::{c_int, c_uint};

use super::capture::{self, Lane};
use super::current::{Current, answer, current, output};
use super::graph::Work;
use super::stream::is_stream;
use crate::session::Session;
use crate::status::CudaError;

/// `cudaEventDisableTiming`.
const DISABLE_TIMING: c_uint = 2;

/// An event.
pub(crate) struct Event {
    pub(crate) timed: bool,
    pub(crate) recorded_nanos: Option<u64>,
    /// The capture it was last recorded in, and the nodes it stands for there.
    pub(crate) captured: Option<(u64, Vec<u64>)>,
}

impl Event {
    pub(crate) fn new(flags: c_uint) -> Self {
        Self {
            timed: flags & DISABLE_TIMING == 0,
            recorded_nanos: None,
            captured: None,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreate(event: *mut u64) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaEventCreateWithFlags(event, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreateWithFlags(event: *mut u64, flags: c_uint) -> CudaError {
    answer(|| {
        let event = output(event)?;
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        event.set(session.handles().add(Event::new(flags)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventDestroy(event: u64) -> CudaError {
    answer(|| {
        let removed = current()?.session.handles::<Event>().remove(event);
        removed.map(drop).ok_or(CudaError::INVALID_HANDLE)
    })
}

/// The event happens now, on `stream`.
pub(crate) fn record_now(session: &Session, event: u64, _stream: u64) {
    let now = session.nanos();
    session.handles::<Event>().with(event, |event| {
        event.recorded_nanos = Some(now);
        event.captured = None;
    });
}

fn record(event: u64, stream: u64, flags: c_uint) -> Result<(), CudaError> {
    /// `cudaEventRecordExternal`: a graph records it for those outside, at every launch.
    const EXTERNAL: c_uint = 1;
    let session = current()?.session;
    if !is_stream(session, stream) || !session.handles::<Event>().has(event) {
        return Err(CudaError::INVALID_HANDLE);
    }
    match capture::lane(session, stream)? {
        Lane::Captured(id) if flags & EXTERNAL != 0 => {
            capture::add(session, id, stream, Work::Event(event))?;
        }
        Lane::Captured(_) => {
            let captured = capture::recorded(stream);
            session.handles::<Event>().with(event, |event| {
                event.recorded_nanos = None;
                event.captured = captured;
            });
        }
        Lane::Now => record_now(session, event, stream),
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecord(event: u64, stream: u64) -> CudaError {
    answer(|| record(event, stream, 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecordWithFlags(event: u64, stream: u64, flags: c_uint) -> CudaError {
    answer(|| record(event, stream, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventQuery(event: u64) -> CudaError {
    answer(|| {
        let captured = current()?
            .session
            .handles::<Event>()
            .with(event, |event| event.captured.as_ref().map(|(id, _)| *id))
            .ok_or(CudaError::INVALID_HANDLE)?;
        if let Some(id) = captured {
            capture::invalidate(id);
            return Err(CudaError::CAPTURED_EVENT);
        }
        capture::refuse_unsafe()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(event: u64) -> CudaError {
    cudaEventQuery(event)
}

/// The time between two events is the host's own: positive, but not what a GPU would take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime(millis: *mut f32, start: u64, end: u64) -> CudaError {
    answer(|| {
        let millis = output(millis)?;
        let elapsed = elapsed_millis(start, end);
        millis.set(elapsed.unwrap_or(0.0));
        elapsed.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime_v2(
    millis: *mut f32,
    start: u64,
    end: u64,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe { cudaEventElapsedTime(millis, start, end) }
}

fn elapsed_millis(start: u64, end: u64) -> Result<f32, CudaError> {
    let events = current()?.session.handles::<Event>();
    let nanos = |event| {
        events
            .with(event, |event| {
                if event.timed {
                    event.recorded_nanos
                } else {
                    None
                }
            })
            .flatten()
            .ok_or(CudaError::INVALID_HANDLE)
    };
    let (start, end) = (nanos(start)?, nanos(end)?);
    Ok(end.saturating_sub(start).max(1) as f32 / 1e6)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventGetFlags(event: u64, flags: *mut c_int) -> CudaError {
    answer(|| {
        let flags = output(flags)?;
        let timed = current()?
            .session
            .handles::<Event>()
            .with(event, |event| event.timed);
        flags.set(if timed == Some(false) {
            DISABLE_TIMING as c_int
        } else {
            0
        });
        timed.map(drop).ok_or(CudaError::INVALID_HANDLE)
    })
}
