//! Plans of cuFFT. A plan is a small integer, not a pointer, so it has a table of its own.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::libraries::estimate::{Scratch, assume, foresee, in_use};
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
    scratch: Scratch,
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
    let Some(scratch) = plans().get(&plan).map(|plan| plan.scratch) else {
        return CufftStatus::INVALID_PLAN;
    };
    if let Some(session) = session() {
        session.workspace(area);
        in_use(session, scratch);
    }
    CufftStatus::SUCCESS
}

/// Bytes of a complex element of a `cudaDataType`.
fn complex_bytes(data_type: i32) -> u64 {
    match data_type {
        1 | 5 => 16,
        2 | 6 => 4,
        _ => 8,
    }
}

/// Whether a `cudaDataType` is one of real numbers.
fn is_real(data_type: i32) -> bool {
    matches!(data_type, 0..=2 | 14)
}

/// The length to which a transform of `length` elements is padded.
///
/// Lengths whose prime factors are all small are transformed as they are; others by a convolution, whose length is a
/// power of two and at least twice theirs.
fn padded(length: u64) -> Option<u64> {
    const LARGEST_FACTOR: u64 = 127;
    let mut rest = length;
    for factor in 2..=LARGEST_FACTOR {
        while rest > 1 && rest.is_multiple_of(factor) {
            rest /= factor;
        }
    }
    if rest == 1 {
        Some(length)
    } else {
        length.checked_mul(2)?.checked_next_power_of_two()
    }
}

/// What a plan is made for.
struct Transforms<'a> {
    lengths: &'a [i64],
    batch: i64,
    /// `cudaDataType` of the arithmetic.
    arithmetic: i32,
    /// One side is real, so that the other has about half as many elements.
    one_side_real: bool,
}

impl Transforms<'_> {
    /// The work area in bytes; `None` when a size is not positive.
    ///
    /// NVIDIA documents one to eight complex copies of the data, and that a plan may need none at all.
    fn work(&self) -> Option<Scratch> {
        let positive = |size: &i64| u64::try_from(*size).ok().filter(|size| *size > 0);
        let product = |mut sizes: Vec<u64>| {
            sizes.extend([positive(&self.batch)?, complex_bytes(self.arithmetic)]);
            sizes.into_iter().try_fold(1u64, u64::checked_mul)
        };
        let mut lengths: Vec<u64> = self.lengths.iter().map(positive).collect::<Option<_>>()?;
        let full = product(lengths.clone())?;
        lengths = lengths.into_iter().map(padded).collect::<Option<_>>()?;
        if let Some(last) = lengths.last_mut().filter(|_| self.one_side_real) {
            *last = *last / 2 + 1;
        }
        let likely = product(lengths)?;
        Some(Scratch {
            low: 0,
            likely,
            high: full.checked_mul(8)?.max(likely),
        })
    }
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
    let _ = (input_embedding, input_stride, input_distance);
    let _ = (output_embedding, output_stride, output_distance);
    let rank = usize::try_from(rank)
        .ok()
        .filter(|rank| (1..=3).contains(rank) && !lengths.is_null());
    let lengths = rank.map(|rank| {
        (0..rank)
            // SAFETY: not null, and the caller passes `rank` lengths.
            .map(|index| unsafe { lengths.add(index).read_unaligned() })
            .collect::<Vec<_>>()
    });
    let scratch = lengths.as_deref().and_then(|lengths| {
        let transforms = Transforms {
            lengths,
            batch,
            arithmetic: execution_type,
            one_side_real: is_real(input_type) || is_real(output_type),
        };
        transforms.work()
    });
    let known = plans()
        .get_mut(&plan)
        .map(|plan| {
            *plan = Plan {
                made: scratch.is_some(),
                scratch: scratch.unwrap_or_default(),
            };
        })
        .is_some();
    assume(
        "the work area of Fourier transforms",
        "one complex copy of the data, padded where a length has a large prime factor; NVIDIA documents up to eight",
    );
    if let (Some(session), Some(scratch)) = (session(), scratch) {
        foresee(session, scratch);
    }
    let bytes = scratch
        .filter(|_| known)
        .map_or(0, |scratch| scratch.likely);
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(work_size, bytes as usize) };
    match scratch {
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
        let check =
            |lengths: &[i64], batch, arithmetic, one_side_real, expected: Option<[u64; 2]>| {
                let transforms = Transforms {
                    lengths,
                    batch,
                    arithmetic,
                    one_side_real,
                };
                let work = transforms.work().map(|work| [work.likely, work.high]);
                assert_eq!(work, expected, "{lengths:?}");
            };
        check(&[64], 2, 4, false, Some([1024, 8192]));
        check(&[64], 2, 4, true, Some([528, 8192]));
        check(&[64, 64], 1, 5, false, Some([65_536, 524_288]));
        check(&[64], 1, 6, false, Some([256, 2048]));
        check(&[127 * 3], 1, 4, false, Some([3048, 24_384]));
        check(&[131], 1, 4, false, Some([4096, 8384]));
        check(&[0], 1, 4, false, None);
        check(&[64], -1, 4, false, None);
        check(&[i64::MAX, i64::MAX], 1, 4, false, None);
    }
}
