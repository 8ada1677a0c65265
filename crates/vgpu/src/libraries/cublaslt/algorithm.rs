//! Algorithms of cuBLASLt. There is one, it fits every product and needs no scratch memory.
//!
//! Its workspace is 0 because PyTorch does not go by it: it allocates a workspace of fixed size before it asks, and
//! only compares what an algorithm needs with that.

use std::ffi::c_void;

use super::attributes::{Attributes, Layout, Preference, Product};
use super::handle::session_of;
use crate::libraries::cublas::CublasStatus;
use crate::status::put;

/// `cublasLtMatmulAlgo_t`: the id, then the configuration by attribute, which the caller owns and may copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Algorithm {
    /// 32-bit configuration values by number of attribute; the id is attribute 0.
    configuration: [u32; 16],
}

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HeuristicResult {
    algorithm: Algorithm,
    workspace_bytes: usize,
    state: CublasStatus,
    waves: f32,
    reserved: [i32; 4],
}

impl HeuristicResult {
    fn new(algorithm: Algorithm, state: CublasStatus) -> Self {
        Self {
            algorithm,
            workspace_bytes: 0,
            state,
            waves: 1.0,
            reserved: [0; 4],
        }
    }
}

/// Whether handles name a product and its four matrices, and hence an algorithm fits.
fn check_product(product: u64, matrices: [u64; 4]) -> CublasStatus {
    let known = Product::of(product).is_some()
        && matrices
            .into_iter()
            .all(|matrix| Layout::of(matrix).is_some());
    if known {
        CublasStatus::SUCCESS
    } else {
        CublasStatus::INVALID_VALUE
    }
}

/// The algorithms that fit a product: one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    handle: u64,
    product: u64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    preference: u64,
    requested: i32,
    results: *mut HeuristicResult,
    returned: *mut i32,
) -> CublasStatus {
    let status = match session_of(handle) {
        Err(error) => error,
        Ok(_) if requested < 1 || results.is_null() || returned.is_null() => {
            CublasStatus::INVALID_VALUE
        }
        Ok(_) if Preference::of(preference).is_none() => CublasStatus::INVALID_VALUE,
        Ok(_) => check_product(product, [a, b, c, d]),
    };
    let found = status == CublasStatus::SUCCESS;
    // SAFETY: the caller passes a place for a count or null.
    unsafe { put(returned, i32::from(found)) };
    if requested > 0 {
        // SAFETY: the caller passes room for `requested` results or null.
        unsafe { put(results, HeuristicResult::new(Algorithm::default(), status)) };
    }
    status
}

/// Describes the algorithm with an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoInit(
    handle: u64,
    compute_type: i32,
    scale_type: i32,
    a_type: i32,
    b_type: i32,
    c_type: i32,
    d_type: i32,
    id: i32,
    algorithm: *mut Algorithm,
) -> CublasStatus {
    let _ = (compute_type, scale_type, a_type, b_type, c_type, d_type);
    let mut new = Algorithm::default();
    new.configuration[0] = id as u32;
    // SAFETY: the caller passes a place for an algorithm or null.
    unsafe { put(algorithm, new) };
    match session_of(handle) {
        Err(error) => error,
        Ok(_) if algorithm.is_null() || id < 0 => CublasStatus::INVALID_VALUE,
        Ok(_) => CublasStatus::SUCCESS,
    }
}

/// Whether an algorithm fits a product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoCheck(
    handle: u64,
    product: u64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    algorithm: *const Algorithm,
    result: *mut HeuristicResult,
) -> CublasStatus {
    let status = match session_of(handle) {
        Err(error) => error,
        Ok(_) if algorithm.is_null() || result.is_null() => CublasStatus::INVALID_VALUE,
        Ok(_) => check_product(product, [a, b, c, d]),
    };
    let given = if algorithm.is_null() {
        Algorithm::default()
    } else {
        // SAFETY: not null, and the caller passes an algorithm.
        unsafe { algorithm.read_unaligned() }
    };
    // SAFETY: the caller passes a place for a result or null.
    unsafe { put(result, HeuristicResult::new(given, status)) };
    status
}

/// Bytes of a configuration attribute; `None` for one that does not exist.
fn width(attribute: i32) -> Option<usize> {
    match attribute {
        0..=6 => Some(4),
        7 | 8 => Some(2),
        _ => None,
    }
}

/// Sets a configuration attribute of an algorithm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoConfigSetAttribute(
    algorithm: *mut Algorithm,
    attribute: i32,
    buffer: *const c_void,
    size: usize,
) -> CublasStatus {
    let mut set = Attributes::default();
    if algorithm.is_null() || width(attribute) != Some(size) {
        return CublasStatus::INVALID_VALUE;
    }
    // SAFETY: the caller passes `size` bytes.
    let status = unsafe { super::attributes::set_in(&mut set, attribute, buffer, size) };
    if status == CublasStatus::SUCCESS {
        // SAFETY: not null, and the caller passes an algorithm.
        unsafe { (*algorithm).configuration[attribute as usize] = set.number(attribute) as u32 };
    }
    status
}

/// A configuration attribute of an algorithm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoConfigGetAttribute(
    algorithm: *const Algorithm,
    attribute: i32,
    buffer: *mut c_void,
    size: usize,
    written: *mut usize,
) -> CublasStatus {
    let mut attributes = Attributes::default();
    let known = width(attribute).filter(|_| !algorithm.is_null());
    if let Some(width) = known {
        // SAFETY: not null, and the caller passes an algorithm.
        let value = unsafe { (*algorithm).configuration[attribute as usize] };
        attributes.set(attribute, &value.to_le_bytes()[..width]);
    }
    // SAFETY: the caller passes room for `size` bytes and for their number.
    unsafe {
        super::attributes::get_from(known.map(|_| &attributes), attribute, buffer, size, written)
    }
}
