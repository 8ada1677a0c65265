//! Access of devices to each other's memory. All devices of the machine can reach each other, which takes no memory;
//! what must be right is who has been given access already, because giving it twice is an error.

use std::collections::HashSet;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};

use super::current::{Current, answer, current, of_argument};
use crate::status::CudaError;

/// Pairs of devices of which the first may reach the memory of the second.
static PAIRS: Mutex<Option<HashSet<(usize, usize)>>> = Mutex::new(None);

/// Changes the access of the current device to `device`'s memory; `change` says whether there was something to change.
fn access(
    device: c_int,
    refusal: CudaError,
    change: impl FnOnce(&mut HashSet<(usize, usize)>, (usize, usize)) -> bool,
) -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        let peer = of_argument(device)?.machine;
        if peer == machine {
            return Err(CudaError::INVALID_DEVICE);
        }
        session.ensure_context(machine);
        session.ensure_context(peer);
        let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        if change(pairs.get_or_insert_default(), (machine, peer)) {
            Ok(())
        } else {
            Err(refusal)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceEnablePeerAccess(device: c_int, _flags: c_uint) -> CudaError {
    access(
        device,
        CudaError::PEER_ACCESS_ALREADY_ENABLED,
        HashSet::insert,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceDisablePeerAccess(device: c_int) -> CudaError {
    access(device, CudaError::PEER_ACCESS_NOT_ENABLED, |pairs, pair| {
        pairs.remove(&pair)
    })
}
