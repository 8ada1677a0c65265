//! Dropout: the states of its random generators, which only recurrent networks use in PyTorch.

use super::CudnnStatus;
use super::handle::session_of;
use super::object::{change, look};
use crate::libraries::estimate::assume;
use crate::status::put;

/// Probability and states.
#[derive(Clone, Copy, Debug, Default)]
struct Dropout {
    probability: f32,
    states: u64,
    seed: u64,
}

object!(
    Dropout,
    cudnnCreateDropoutDescriptor,
    cudnnDestroyDropoutDescriptor
);

/// Bytes of generator states for each multiprocessor: an estimate, a few megabytes in all, held once for each stream.
const STATES_PER_MULTIPROCESSOR: usize = 16 << 10;

/// The size of the generator states: an estimate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnDropoutGetStatesSize(handle: u64, size: *mut usize) -> CudnnStatus {
    let session = session_of(handle);
    let multiprocessors = session.map_or(0, |session| {
        session.settings.device.multiprocessors as usize
    });
    assume(
        "the memory of cuDNN dropout's random states",
        "16 KiB for each multiprocessor",
    );
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(size, multiprocessors * STATES_PER_MULTIPROCESSOR) };
    match session {
        Err(error) => error,
        Ok(_) if size.is_null() => CudnnStatus::NULL_POINTER,
        Ok(_) => CudnnStatus::SUCCESS,
    }
}

/// Sets dropout up and initializes its states.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetDropoutDescriptor(
    dropout: u64,
    handle: u64,
    probability: f32,
    states: u64,
    size: usize,
    seed: u64,
) -> CudnnStatus {
    let outcome = cudnnRestoreDropoutDescriptor(dropout, handle, probability, states, size, seed);
    if let (CudnnStatus::SUCCESS, Ok(session)) = (outcome, session_of(handle)) {
        session.library_wrote("cudnnSetDropoutDescriptor", &[states]);
    }
    outcome
}

/// Sets dropout up with states that exist.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnRestoreDropoutDescriptor(
    dropout: u64,
    handle: u64,
    probability: f32,
    states: u64,
    size: usize,
    seed: u64,
) -> CudnnStatus {
    let _ = size;
    if let Err(error) = session_of(handle) {
        return error;
    }
    change(dropout, |kept: &mut Dropout| {
        *kept = Dropout {
            probability,
            states,
            seed,
        }
    })
}

/// What was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetDropoutDescriptor(
    dropout: u64,
    handle: u64,
    probability: *mut f32,
    states: *mut u64,
    seed: *mut u64,
) -> CudnnStatus {
    let kept = session_of(handle).and_then(|_| look(dropout, |kept: &mut Dropout| *kept));
    let found = kept.unwrap_or_default();
    // SAFETY: the caller passes places for numbers or null.
    unsafe {
        put(probability, found.probability);
        put(states, found.states);
        put(seed, found.seed);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}
