//! Plans of cuFFT. A plan is a small integer, not a pointer, so it has a table of its own.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::libraries::estimate::assume;
use crate::session::session;
use crate::status::put;

/// `cufftResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CufftStatus(pub i32);

impl CufftStatus {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// The plan does not exist.
    pub const INVALID_PLAN: Self = Self(1);
    /// A pointer or parameter is wrong.
    pub const INVALID_VALUE: Self = Self(4);
    /// There is no device.
    pub const SETUP_FAILED: Self = Self(7);
    /// A size is not positive.
    pub const INVALID_SIZE: Self = Self(8);
}

/// What a plan remembers.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    made: bool,
}

static PLANS: Mutex<BTreeMap<i32, Plan>> = Mutex::new(BTreeMap::new());

fn plans() -> MutexGuard<'static, BTreeMap<i32, Plan>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(plan: i32) -> CufftStatus {
    if plans().contains_key(&plan) {
        CufftStatus::SUCCESS
    } else {
        CufftStatus::INVALID_PLAN
    }
}

/// Makes an empty plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cufftCreate(plan: *mut i32) -> CufftStatus {
    if session().is_none() || plan.is_null() {
        // SAFETY: the caller passes a place for a plan or null.
        unsafe { put(plan, 0) };
        return if plan.is_null() {
            CufftStatus::INVALID_VALUE
        } else {
            CufftStatus::SETUP_FAILED
        };
    }
    let mut plans = plans();
    let new = plans.last_key_value().map_or(1, |(last, _)| last + 1);
    plans.insert(new, Plan::default());
    // SAFETY: not null.
    unsafe { put(plan, new) };
    CufftStatus::SUCCESS
}

/// Ends a plan.
#[unsafe(no_mangle)]
pub extern "C" fn cufftDestroy(plan: i32) -> CufftStatus {
    if plans().remove(&plan).is_some() {
        CufftStatus::SUCCESS
    } else {
        CufftStatus::INVALID_PLAN
    }
}

/// Whether the plan allocates its work area: it never does here, and PyTorch always brings its own.
#[unsafe(no_mangle)]
pub extern "C" fn cufftSetAutoAllocation(plan: i32, allocate: i32) -> CufftStatus {
    let _ = allocate;
    check(plan)
}

/// Chooses the stream.
#[unsafe(no_mangle)]
pub extern "C" fn cufftSetStream(plan: i32, stream: u64) -> CufftStatus {
    let _ = stream;
    check(plan)
}

/// Gives a plan its work area.
#[unsafe(no_mangle)]
pub extern "C" fn cufftSetWorkArea(plan: i32, area: u64) -> CufftStatus {
    if let Some(session) = session() {
        session.workspace(area);
    }
    check(plan)
}

/// Bytes of a complex element of a `cudaDataType`.
fn complex_bytes(data_type: i32) -> u64 {
    match data_type {
        1 | 5 => 16,
        2 | 6 => 4,
        _ => 8,
    }
}

/// The work area of a plan: an estimate, one copy of the transformed data in complex form.
///
/// cuFFT needs none for small powers of two and up to a few copies for lengths with large prime factors.
fn work_bytes(lengths: &[i64], batch: i64, data_type: i32) -> Option<u64> {
    lengths
        .iter()
        .chain([&batch])
        .try_fold(complex_bytes(data_type), |bytes, length| {
            bytes.checked_mul(u64::try_from(*length).ok().filter(|length| *length > 0)?)
        })
}

/// Makes a plan for a batch of transforms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cufftXtMakePlanMany(
    plan: i32,
    rank: i32,
    lengths: *const i64,
    input_embedding: *const i64,
    input_stride: i64,
    input_distance: i64,
    input_type: i32,
    output_embedding: *const i64,
    output_stride: i64,
    output_distance: i64,
    output_type: i32,
    batch: i64,
    work_size: *mut usize,
    execution_type: i32,
) -> CufftStatus {
    let _ = (input_embedding, input_stride, input_distance, input_type);
    let _ = (
        output_embedding,
        output_stride,
        output_distance,
        output_type,
    );
    let rank = usize::try_from(rank)
        .ok()
        .filter(|rank| (1..=3).contains(rank) && !lengths.is_null());
    let lengths = rank.map(|rank| {
        (0..rank)
            // SAFETY: not null, and the caller passes `rank` lengths.
            .map(|index| unsafe { lengths.add(index).read_unaligned() })
            .collect::<Vec<_>>()
    });
    let bytes = lengths
        .as_deref()
        .and_then(|lengths| work_bytes(lengths, batch, execution_type));
    let known = plans()
        .get_mut(&plan)
        .map(|plan| plan.made = bytes.is_some())
        .is_some();
    assume(
        "the work area of Fourier transforms",
        "one complex copy of the data, between none and a few copies",
    );
    // SAFETY: the caller passes a place for a size or null.
    unsafe {
        put(
            work_size,
            if known {
                bytes.unwrap_or(0) as usize
            } else {
                0
            },
        );
    }
    match bytes {
        _ if !known => CufftStatus::INVALID_PLAN,
        _ if work_size.is_null() || lengths.is_none() => CufftStatus::INVALID_VALUE,
        None => CufftStatus::INVALID_SIZE,
        Some(_) => CufftStatus::SUCCESS,
    }
}

/// A transform, accepted and not carried out.
#[unsafe(no_mangle)]
pub extern "C" fn cufftXtExec(plan: i32, input: u64, output: u64, direction: i32) -> CufftStatus {
    let _ = direction;
    let Some(session) = session() else {
        return CufftStatus::SETUP_FAILED;
    };
    if !plans().get(&plan).is_some_and(|plan| plan.made) {
        return CufftStatus::INVALID_PLAN;
    }
    // A transform of complex data to real data may use its input as scratch.
    session.library_wrote("cufftXtExec", &[output, input]);
    CufftStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_area_is_one_complex_copy() {
        let check = |lengths: &[i64], batch, data_type, expected| {
            assert_eq!(
                work_bytes(lengths, batch, data_type),
                expected,
                "{lengths:?}"
            );
        };
        check(&[64], 2, 4, Some(1024));
        check(&[64, 64], 1, 5, Some(65_536));
        check(&[0], 1, 4, None);
        check(&[64], -1, 4, None);
        check(&[i64::MAX, i64::MAX], 1, 4, None);
    }
}
