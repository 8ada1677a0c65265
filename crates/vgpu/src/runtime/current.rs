//! The current device of a thread, and the guard every call begins with.

use std::cell::Cell;

use crate::session::{Session, lost_by_fork, session};
use crate::status::CudaError;

thread_local! {
    static ORDINAL: Cell<usize> = const { Cell::new(0) };
}

/// The session and the device a thread works on.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) session: &'static Session,
    /// Number of the device as the program counts them.
    pub(crate) ordinal: usize,
    /// Number of the device as the machine counts them.
    pub(crate) machine: usize,
}

/// The session, or the error for not having one.
pub(crate) fn started() -> Result<&'static Session, CudaError> {
    match session() {
        Some(session) if session.visible().is_empty() => Err(CudaError::NO_DEVICE),
        Some(session) => Ok(session),
        None if lost_by_fork() => Err(CudaError::NOT_INITIALIZED),
        None => Err(CudaError::NO_DEVICE),
    }
}

/// The thread's current device.
pub(crate) fn current() -> Result<Current, CudaError> {
    with_device(ORDINAL.get())
}

/// The device with this number.
pub(crate) fn with_device(ordinal: usize) -> Result<Current, CudaError> {
    let session = started()?;
    let machine = *session
        .visible()
        .get(ordinal)
        .ok_or(CudaError::INVALID_DEVICE)? as usize;
    Ok(Current {
        session,
        ordinal,
        machine,
    })
}

/// Makes a device the thread's current one.
pub(crate) fn set_current(ordinal: usize) -> Result<Current, CudaError> {
    let current = with_device(ordinal)?;
    ORDINAL.set(ordinal);
    Ok(current)
}

/// The device of a call's `int device` argument.
pub(crate) fn of_argument(device: i32) -> Result<Current, CudaError> {
    with_device(usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?)
}

/// Turns the body of an exported function into its status, and remembers a failure as the runtime does.
pub(crate) fn answer(body: impl FnOnce() -> Result<(), CudaError>) -> CudaError {
    match body() {
        Ok(()) => CudaError::SUCCESS,
        Err(error) => error.remember(),
    }
}

/// An output argument, or the error for a null one.
pub(crate) fn output<T>(out: *mut T) -> Result<Output<T>, CudaError> {
    if out.is_null() {
        Err(CudaError::INVALID_VALUE)
    } else {
        Ok(Output(out))
    }
}

/// An output argument that is not null.
pub(crate) struct Output<T>(*mut T);

impl<T> Output<T> {
    /// Writes it.
    pub(crate) fn set(self, value: T) {
        // SAFETY: a caller of CUDA passes null or a place for a `T`, and null was refused.
        unsafe { self.0.write_unaligned(value) };
    }
}
