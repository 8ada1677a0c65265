//! The guards every driver call begins with. The driver has its own errors but the same devices as the runtime.

use crate::runtime::Current;
use crate::session::{Session, lost_by_fork, session};
use crate::status::{CudaError, DriverError};

impl From<CudaError> for DriverError {
    fn from(error: CudaError) -> Self {
        Self(error.0)
    }
}

impl From<crate::memory::Refusal> for DriverError {
    fn from(refusal: crate::memory::Refusal) -> Self {
        CudaError::from(refusal).into()
    }
}

/// Turns the body of an exported function into its status.
pub(crate) fn answer(body: impl FnOnce() -> Result<(), DriverError>) -> DriverError {
    body().err().unwrap_or(DriverError::SUCCESS)
}

/// The session, or the error for not having one.
pub(crate) fn started() -> Result<&'static Session, DriverError> {
    match session() {
        Some(session) if session.visible().is_empty() => Err(DriverError::NO_DEVICE),
        Some(session) => Ok(session),
        None if lost_by_fork() => Err(DriverError::NOT_INITIALIZED),
        None => Err(DriverError::NO_DEVICE),
    }
}

/// The thread's current device.
pub(crate) fn current() -> Result<Current, DriverError> {
    started()?;
    Ok(crate::runtime::current()?)
}

/// The device of a `CUdevice` argument.
pub(crate) fn of_argument(device: i32) -> Result<Current, DriverError> {
    started()?;
    let ordinal = usize::try_from(device).map_err(|_| DriverError::INVALID_DEVICE)?;
    Ok(crate::runtime::with_device(ordinal)?)
}

/// Writes an output argument, whatever `value` is, or says that it is null.
///
/// # Safety
/// `out` must be null or valid for writing a `T`.
pub(crate) unsafe fn give<T: Default>(out: *mut T, value: Result<T, DriverError>) -> DriverError {
    if out.is_null() {
        return DriverError::INVALID_VALUE;
    }
    let (value, status) = match value {
        Ok(value) => (value, DriverError::SUCCESS),
        Err(error) => (T::default(), error),
    };
    // SAFETY: promised by the caller.
    unsafe { out.write_unaligned(value) };
    status
}
