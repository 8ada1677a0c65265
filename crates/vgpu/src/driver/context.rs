//! Contexts: each device has its primary one, and its handle tells which device it belongs to.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

use super::answer::{answer, current, give, of_argument, started};
use crate::runtime::{Current, set_current};
use crate::status::{DriverError, put};

const FIRST: u64 = 0x7500_0000_1000;
const STEP: u64 = 0x100;

thread_local! {
    /// Contexts below the current one; `cuCtxPushCurrent` keeps the one it covers here.
    static STACK: RefCell<Vec<Option<usize>>> = const { RefCell::new(Vec::new()) };
    /// The thread was explicitly left without a context.
    static NONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn handle(ordinal: usize) -> u64 {
    FIRST + ordinal as u64 * STEP
}

fn ordinal(context: u64) -> Result<usize, DriverError> {
    let n_devices = started()?.visible().len();
    let index = context
        .checked_sub(FIRST)
        .filter(|offset| offset % STEP == 0)
        .ok_or(DriverError::INVALID_CONTEXT)?
        / STEP;
    if (index as usize) < n_devices {
        Ok(index as usize)
    } else {
        Err(DriverError::INVALID_CONTEXT)
    }
}

/// The number of the device whose context is current, if any is.
fn current_ordinal() -> Result<Option<usize>, DriverError> {
    let Current {
        session,
        ordinal,
        machine,
    } = current()?;
    Ok((!NONE.get() && session.has_context(machine)).then_some(ordinal))
}

fn make_current(context: Option<usize>) -> Result<(), DriverError> {
    NONE.set(context.is_none());
    if let Some(ordinal) = context {
        let Current {
            session, machine, ..
        } = set_current(ordinal)?;
        session.ensure_context(machine);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> DriverError {
    let retained = of_argument(device).map(|current| {
        current.session.ensure_context(current.machine);
        handle(current.ordinal)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(context, retained) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> DriverError {
    answer(|| of_argument(device).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) -> DriverError {
    answer(|| of_argument(device).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> DriverError {
    let found = of_argument(device).map(|current| current.session.has_context(current.machine));
    // SAFETY: as for the CUDA function.
    unsafe {
        put(flags, 0);
        give(active, found.map(c_int::from))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            context,
            current_ordinal().map(|ordinal| ordinal.map_or(0, handle)),
        )
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: u64) -> DriverError {
    answer(|| {
        make_current(if context == 0 {
            None
        } else {
            Some(ordinal(context)?)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: u64) -> DriverError {
    answer(|| {
        let next = ordinal(context)?;
        let covered = current_ordinal()?;
        STACK.with_borrow_mut(|stack| stack.push(covered));
        make_current(Some(next))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut u64) -> DriverError {
    answer(|| {
        let top = current_ordinal()?;
        // SAFETY: as for the CUDA function.
        unsafe { put(context, top.map_or(0, handle)) };
        top.ok_or(DriverError::INVALID_CONTEXT)?;
        make_current(STACK.with_borrow_mut(Vec::pop).flatten())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> DriverError {
    let found = current_ordinal().and_then(|ordinal| ordinal.ok_or(DriverError::INVALID_CONTEXT));
    // SAFETY: as for the CUDA function.
    unsafe { give(device, found.map(|ordinal| ordinal as c_int)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> DriverError {
    crate::runtime::cudaDeviceSynchronize().into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { crate::runtime::cudaDeviceGetStreamPriorityRange(least, greatest).into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetApiVersion(_context: u64, version: *mut c_uint) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe {
        give(
            version,
            started().map(|session| session.settings.cuda_version),
        )
    }
}
