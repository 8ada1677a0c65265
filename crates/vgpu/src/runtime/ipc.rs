//! Memory and events of another process of the run.
//!
//! A handle says whose memory it is and how much; the process that opens it gets addresses of its own, which take
//! nothing of the device, because the owner has it already. Bytes do not travel: what another process wrote is unknown.

use std::ffi::c_uint;

use super::capture::refuse_unsafe;
use super::current::{Current, answer, current, output};
use super::event::Event;
use crate::session::Session;
use crate::status::CudaError;

/// `cudaIpcMemHandle_t` and `cudaIpcEventHandle_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcHandle {
    kind: u64,
    /// The run that it belongs to.
    run: u64,
    process: u64,
    machine: u64,
    start: u64,
    len: u64,
    reserved: [u64; 2],
}

const EMPTY: IpcHandle = IpcHandle {
    kind: 0,
    run: 0,
    process: 0,
    machine: 0,
    start: 0,
    len: 0,
    reserved: [0; 2],
};
const MEMORY: u64 = 0x6d65_6d6f_7279;
const EVENT: u64 = 0x6576_656e_7400;

/// A number of the run, which all its processes know.
fn run_of(session: &Session) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    session.settings.run_dir.hash(&mut hasher);
    hasher.finish()
}

fn made(session: &Session, kind: u64) -> IpcHandle {
    IpcHandle {
        kind,
        run: run_of(session),
        process: u64::from(std::process::id()),
        ..EMPTY
    }
}

/// A handle of another process of the run that still lives.
fn checked(session: &Session, handle: IpcHandle, kind: u64) -> Result<IpcHandle, CudaError> {
    if handle.kind != kind || handle.run != run_of(session) {
        return Err(CudaError::INVALID_VALUE);
    }
    if handle.process == u64::from(std::process::id()) {
        // A process has its own memory already.
        return Err(CudaError::INVALID_CONTEXT);
    }
    let is_alive = std::path::Path::new(&format!("/proc/{}", handle.process)).exists();
    is_alive.then_some(handle).ok_or(CudaError::INVALID_VALUE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcGetMemHandle(handle: *mut IpcHandle, address: u64) -> CudaError {
    answer(|| {
        let handle = output(handle)?;
        let found = current().and_then(|Current { session, .. }| {
            let (start, range) = session
                .memory()
                .range_of(address)
                .filter(|(_, range)| range.is_shareable())
                .ok_or(CudaError::INVALID_VALUE)?;
            Ok(IpcHandle {
                machine: range.device as u64,
                start,
                len: range.len,
                ..made(session, MEMORY)
            })
        });
        handle.set(found.unwrap_or(EMPTY));
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcOpenMemHandle(
    address: *mut u64,
    handle: IpcHandle,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let opened = current().and_then(
            |Current {
                 session, machine, ..
             }| {
                session.ensure_context(machine);
                refuse_unsafe()?;
                let handle = checked(session, handle, MEMORY)?;
                let device = handle.machine as usize;
                if device >= session.settings.device_count as usize {
                    return Err(CudaError::INVALID_VALUE);
                }
                Ok(session.memory().open_foreign(device, handle.len)?)
            },
        );
        address.set(opened.unwrap_or(0));
        opened.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcCloseMemHandle(address: u64) -> CudaError {
    answer(|| Ok(current()?.session.memory().close_foreign(address)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcGetEventHandle(handle: *mut IpcHandle, event: u64) -> CudaError {
    answer(|| {
        let handle = output(handle)?;
        let found = current().and_then(|Current { session, .. }| {
            if session.handles::<Event>().has(event) {
                let start = event;
                Ok(IpcHandle {
                    start,
                    ..made(session, EVENT)
                })
            } else {
                Err(CudaError::INVALID_HANDLE)
            }
        });
        handle.set(found.unwrap_or(EMPTY));
        found.map(drop)
    })
}

/// The event of another process has happened: work is done when it is submitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaIpcOpenEventHandle(event: *mut u64, handle: IpcHandle) -> CudaError {
    /// `cudaEventDisableTiming`, which such events have.
    const DISABLE_TIMING: c_uint = 2;
    answer(|| {
        let event = output(event)?;
        let opened = current().and_then(|Current { session, .. }| {
            checked(session, handle, EVENT)?;
            Ok(session.handles().add(Event::new(DISABLE_TIMING)))
        });
        event.set(opened.unwrap_or(0));
        opened.map(drop)
    })
}
