//! Events. Work is done when it is submitted, so an event is complete once recorded; what it remembers is when.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

use super::capture::{self, Lane};
use super::current::{Current, answer, current, output};
use super::graph::Work;
use super::stream::is_stream;
use crate::clock;
use crate::driver::calling_library;
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
pub(crate) fn record_now(session: &Session, event: u64, stream: u64) {
    let now = clock::record(stream);
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
        note_allocator();
        capture::refuse_unsafe()
    })
}

/// PyTorch's allocator asks whether another stream still uses memory that it wants to hand out again: here it never
/// does, and that decides how much the program needs.
fn note_allocator() {
    /// Looking at who asks costs more than the answer.
    static LEFT: AtomicU32 = AtomicU32::new(1000);
    let looks = LEFT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok();
    if looks
        && let Some(session) = crate::session::session()
        && calling_library().is_some_and(|library| library.contains("libc10_cuda"))
    {
        LEFT.store(0, Ordering::Relaxed);
        session.note_once(
            r#"{"kind":"assumption","assumption":"streams_at_rest","text":"memory that another stream used last (record_stream) is taken to be free as soon as the script lets go of it; a card that lags behind reserves more","where":null}"#,
        );
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(event: u64) -> CudaError {
    answer(|| {
        let events = current()?.session.handles::<Event>();
        let (time, captured) = events
            .with(event, |event| {
                (event.recorded_nanos, event.captured.clone())
            })
            .ok_or(CudaError::INVALID_HANDLE)?;
        if let Some((id, _)) = captured {
            capture::invalidate(id);
            return Err(CudaError::CAPTURED_EVENT);
        }
        clock::seen(time.unwrap_or(0));
        capture::refuse_unsafe()
    })
}

/// The time between two events is an estimate of what the work between them would take.
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
    Ok(clock::millis_between(start, end))
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
