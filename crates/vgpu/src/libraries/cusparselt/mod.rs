//! cuSPARSELt: products with matrices of which two in four elements are zero.
//!
//! Handles and descriptions are structures that the caller owns, of 512 bytes and more, so what is known of them is
//! kept inside them, behind a mark by which one that was never made is told from one that was.

use std::ffi::c_void;

use super::CusparseStatus;
use super::estimate::{Scratch, assume, foresee, in_use};
use crate::session::{Session, session};
use crate::status::put;

/// The begin of every structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Kept {
    mark: u64,
    rows: i64,
    columns: i64,
    data_type: i64,
}

const LIBRARY: u64 = 0x6f6f_6d70_7273_0001;
const MATRIX: u64 = 0x6f6f_6d70_7273_0002;
const PRODUCT: u64 = 0x6f6f_6d70_7273_0003;
const ALGORITHM: u64 = 0x6f6f_6d70_7273_0004;
const PLAN: u64 = 0x6f6f_6d70_7273_0005;

impl Kept {
    const fn marked(mark: u64) -> Self {
        Self {
            mark,
            rows: 0,
            columns: 0,
            data_type: 0,
        }
    }

    /// # Safety
    /// `at` must be null or valid for reading a structure of cuSPARSELt.
    unsafe fn read(at: *const c_void, mark: u64) -> Result<Self, CusparseStatus> {
        if at.is_null() {
            return Err(CusparseStatus::INVALID_VALUE);
        }
        // SAFETY: not null, and the structures of the library are longer than this.
        let kept = unsafe { at.cast::<Self>().read_unaligned() };
        if kept.mark == mark {
            Ok(kept)
        } else {
            Err(CusparseStatus::INVALID_VALUE)
        }
    }

    /// # Safety
    /// `at` must be null or valid for writing a structure of cuSPARSELt.
    unsafe fn write(self, at: *mut c_void) -> CusparseStatus {
        if at.is_null() {
            return CusparseStatus::INVALID_VALUE;
        }
        // SAFETY: promised by the caller.
        unsafe { put(at.cast(), self) };
        CusparseStatus::SUCCESS
    }
}

/// The session, if `handle` was made.
///
/// # Safety
/// `handle` must be null or valid for reading a structure of cuSPARSELt.
unsafe fn session_of(handle: *const c_void) -> Result<&'static Session, CusparseStatus> {
    let session = session().ok_or(CusparseStatus::NOT_INITIALIZED)?;
    // SAFETY: promised by the caller.
    unsafe { Kept::read(handle, LIBRARY) }.map_err(|_| CusparseStatus::NOT_INITIALIZED)?;
    Ok(session)
}

fn element_bytes(data_type: i64) -> u64 {
    match data_type {
        0 => 4,
        2 | 14 => 2,
        _ => 1,
    }
}

/// Bytes of a matrix after compression: half of the elements, and for each of four where it was, in two bits.
///
/// PyTorch computes the shape of a compressed matrix back from its size, with 9 sixteenths for elements of two bytes
/// and 10 for those of one, so this is exact.
fn compressed_bytes(kept: Kept) -> Option<u64> {
    let size = |size: i64| u64::try_from(size).ok();
    let elements = size(kept.rows)?.checked_mul(size(kept.columns)?)?;
    let element = element_bytes(kept.data_type);
    let sixteenths = if element == 1 { 10 } else { 9 };
    Some(elements.checked_mul(element * sixteenths)?.div_ceil(16))
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtInit(handle: *mut c_void) -> CusparseStatus {
    if session().is_none() {
        return CusparseStatus::NOT_INITIALIZED;
    }
    // SAFETY: the caller passes a structure of the library or null.
    unsafe { Kept::marked(LIBRARY).write(handle) }
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtDestroy(handle: *mut c_void) -> CusparseStatus {
    // SAFETY: the caller passes a structure of the library or null.
    match unsafe { session_of(handle) } {
        Err(error) => error,
        // SAFETY: as above.
        Ok(_) => unsafe { Kept::marked(0).write(handle) },
    }
}

/// # Safety
/// Both must be null or structures of cuSPARSELt.
unsafe fn describe(handle: *const c_void, matrix: *mut c_void, kept: Kept) -> CusparseStatus {
    // SAFETY: promised by the caller.
    match unsafe { session_of(handle) } {
        Err(error) => error,
        Ok(_) if kept.rows < 0 || kept.columns < 0 => CusparseStatus::INVALID_VALUE,
        // SAFETY: promised by the caller.
        Ok(_) => unsafe { kept.write(matrix) },
    }
}

/// Describes a dense matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtDenseDescriptorInit(
    handle: *const c_void,
    matrix: *mut c_void,
    rows: i64,
    columns: i64,
    leading: i64,
    alignment: u32,
    data_type: i32,
    order: i32,
) -> CusparseStatus {
    let _ = (leading, alignment, order);
    let kept = Kept {
        mark: MATRIX,
        rows,
        columns,
        data_type: data_type.into(),
    };
    // SAFETY: the caller passes structures of the library or null.
    unsafe { describe(handle, matrix, kept) }
}

/// Describes a matrix of which half is zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtStructuredDescriptorInit(
    handle: *const c_void,
    matrix: *mut c_void,
    rows: i64,
    columns: i64,
    leading: i64,
    alignment: u32,
    data_type: i32,
    order: i32,
    sparsity: i32,
) -> CusparseStatus {
    let _ = (leading, alignment, order, sparsity);
    let kept = Kept {
        mark: MATRIX,
        rows,
        columns,
        data_type: data_type.into(),
    };
    // SAFETY: the caller passes structures of the library or null.
    unsafe { describe(handle, matrix, kept) }
}

/// Ends the description of a matrix, which the caller owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatDescriptorDestroy(matrix: *const c_void) -> CusparseStatus {
    // SAFETY: the caller passes a structure of the library or null.
    unsafe { Kept::read(matrix, MATRIX) }.map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// Describes a product by its result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulDescriptorInit(
    handle: *const c_void,
    product: *mut c_void,
    op_a: i32,
    op_b: i32,
    a: *const c_void,
    b: *const c_void,
    c: *const c_void,
    d: *const c_void,
    compute_type: i32,
) -> CusparseStatus {
    let _ = (op_a, op_b, compute_type);
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe {
        session_of(handle)
            .and_then(|_| Kept::read(a, MATRIX))
            .and_then(|_| Kept::read(b, MATRIX))
            .and_then(|_| Kept::read(c, MATRIX))
            .and_then(|_| Kept::read(d, MATRIX))
    };
    match found {
        Err(error) => error,
        // SAFETY: as above.
        Ok(result) => unsafe {
            Kept {
                mark: PRODUCT,
                ..result
            }
            .write(product)
        },
    }
}

/// Sets how to multiply, which changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulDescSetAttribute(
    handle: *const c_void,
    product: *mut c_void,
    attribute: i32,
    data: *const c_void,
    size: usize,
) -> CusparseStatus {
    let _ = (attribute, data, size);
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe { session_of(handle).and_then(|_| Kept::read(product, PRODUCT)) };
    found.map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// Chooses an algorithm; there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulAlgSelectionInit(
    handle: *const c_void,
    selection: *mut c_void,
    product: *const c_void,
    algorithm: i32,
) -> CusparseStatus {
    let _ = algorithm;
    // SAFETY: the caller passes structures of the library or null.
    unsafe {
        match session_of(handle).and_then(|_| Kept::read(product, PRODUCT)) {
            Err(error) => error,
            Ok(_) => Kept::marked(ALGORITHM).write(selection),
        }
    }
}

/// Ends a choice, which the caller owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulAlgSelectionDestroy(
    selection: *const c_void,
) -> CusparseStatus {
    // SAFETY: the caller passes a structure of the library or null.
    unsafe { Kept::read(selection, ALGORITHM) }
        .map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// Sets which algorithm, which changes nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulAlgSetAttribute(
    handle: *const c_void,
    selection: *mut c_void,
    attribute: i32,
    data: *const c_void,
    size: usize,
) -> CusparseStatus {
    let _ = (attribute, data, size);
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe { session_of(handle).and_then(|_| Kept::read(selection, ALGORITHM)) };
    found.map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// Which algorithm: the first of one, without splitting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulAlgGetAttribute(
    handle: *const c_void,
    selection: *const c_void,
    attribute: i32,
    data: *mut c_void,
    size: usize,
) -> CusparseStatus {
    // In the order of the attributes: number, count, iterations of a search, split, its mode and its buffers.
    const ANSWERS: [i32; 6] = [0, 1, 1, 1, 0, 0];
    let answer = usize::try_from(attribute)
        .ok()
        .and_then(|attribute| ANSWERS.get(attribute).copied());
    if size >= 4 {
        // SAFETY: the caller passes room for `size` bytes or null.
        unsafe { put(data.cast(), answer.unwrap_or(0)) };
    }
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe { session_of(handle).and_then(|_| Kept::read(selection, ALGORITHM)) };
    match found {
        Err(error) => error,
        Ok(_) if answer.is_none() || size < 4 || data.is_null() => CusparseStatus::INVALID_VALUE,
        Ok(_) => CusparseStatus::SUCCESS,
    }
}

/// Makes a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulPlanInit(
    handle: *const c_void,
    plan: *mut c_void,
    product: *const c_void,
    selection: *const c_void,
) -> CusparseStatus {
    // SAFETY: the caller passes structures of the library or null.
    unsafe {
        let found = session_of(handle)
            .and_then(|_| Kept::read(selection, ALGORITHM))
            .and_then(|_| Kept::read(product, PRODUCT));
        match found {
            Err(error) => error,
            Ok(result) => Kept {
                mark: PLAN,
                ..result
            }
            .write(plan),
        }
    }
}

/// Ends a plan, which the caller owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulPlanDestroy(plan: *const c_void) -> CusparseStatus {
    // SAFETY: the caller passes a structure of the library or null.
    unsafe { Kept::read(plan, PLAN) }.map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// Scratch memory of a product: none, or one result in single precision for each of a few pieces that are added up.
fn scratch(plan: Kept) -> Scratch {
    const MOST_PIECES: u64 = 4;
    let size = |size: i64| u64::try_from(size).unwrap_or(0);
    assume(
        "the scratch memory of cuSPARSELt",
        "none, and at most a copy of the matrix, or the result four times when a product is split",
    );
    Scratch {
        low: 0,
        likely: 0,
        high: size(plan.rows)
            .saturating_mul(size(plan.columns))
            .saturating_mul(4 * MOST_PIECES),
    }
}

/// How much scratch memory a product needs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtMatmulGetWorkspace(
    handle: *const c_void,
    plan: *const c_void,
    size: *mut usize,
) -> CusparseStatus {
    // SAFETY: the caller passes structures of the library or null.
    let found =
        unsafe { session_of(handle).and_then(|session| Ok((session, Kept::read(plan, PLAN)?))) };
    let scratch = found.map(|(session, plan)| {
        let scratch = scratch(plan);
        foresee(session, scratch);
        scratch.likely as usize
    });
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(size, scratch.unwrap_or(0)) };
    match scratch {
        Err(error) => error,
        Ok(_) if size.is_null() => CusparseStatus::INVALID_VALUE,
        Ok(_) => CusparseStatus::SUCCESS,
    }
}

macro_rules! products {
    ($($name:ident;)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: *const c_void, plan: *const c_void, alpha: u64, a: u64, b: u64, beta: u64, c: u64, d: u64,
            work: u64, streams: u64, stream_count: i32,
        ) -> CusparseStatus {
            let _ = (alpha, a, b, beta, c, streams, stream_count);
            // SAFETY: the caller passes structures of the library or null.
            let found = unsafe {
                session_of(handle).and_then(|session| Ok((session, Kept::read(plan, PLAN)?)))
            };
            match found {
                Err(error) => error,
                Ok((session, plan)) => {
                    session.workspace(work);
                    in_use(session, scratch(plan));
                    session.library_wrote(stringify!($name), &[d]);
                    CusparseStatus::SUCCESS
                }
            }
        }
    )+ };
}

products! {
    cusparseLtMatmul;
    cusparseLtMatmulSearch;
}

/// The size of a compressed matrix, and of the scratch memory to compress it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtSpMMACompressedSize2(
    handle: *const c_void,
    matrix: *const c_void,
    size: *mut usize,
    scratch_size: *mut usize,
) -> CusparseStatus {
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe {
        session_of(handle).and_then(|session| Ok((session, Kept::read(matrix, MATRIX)?)))
    };
    let bytes = found.and_then(|(session, kept)| {
        let bytes = compressed_bytes(kept).ok_or(CusparseStatus::INVALID_VALUE)?;
        let _ = scratch(Kept::marked(PLAN));
        let high = bytes.saturating_mul(2);
        foresee(
            session,
            Scratch {
                low: 0,
                likely: 0,
                high,
            },
        );
        Ok(bytes)
    });
    // SAFETY: the caller passes places for sizes or null.
    unsafe {
        put(size, bytes.unwrap_or(0) as usize);
        put(scratch_size, 0);
    }
    match bytes {
        Err(error) => error,
        Ok(_) if size.is_null() || scratch_size.is_null() => CusparseStatus::INVALID_VALUE,
        Ok(_) => CusparseStatus::SUCCESS,
    }
}

/// Compresses a matrix: accepted and not carried out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseLtSpMMACompress2(
    handle: *const c_void,
    matrix: *const c_void,
    is_a: i32,
    op: i32,
    dense: u64,
    compressed: u64,
    work: u64,
    stream: u64,
) -> CusparseStatus {
    let _ = (is_a, op, dense, stream);
    // SAFETY: the caller passes structures of the library or null.
    let found = unsafe {
        session_of(handle).and_then(|session| Kept::read(matrix, MATRIX).map(|_| session))
    };
    match found {
        Err(error) => error,
        Ok(session) => {
            session.workspace(work);
            session.library_wrote("cusparseLtSpMMACompress2", &[compressed]);
            CusparseStatus::SUCCESS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_elements_and_their_places_are_kept() {
        let check = |rows, columns, data_type, expected| {
            let kept = Kept {
                mark: MATRIX,
                rows,
                columns,
                data_type,
            };
            assert_eq!(compressed_bytes(kept), expected, "{kept:?}");
        };
        check(64, 64, 2, Some(64 * 64 * 2 * 9 / 16));
        check(64, 64, 14, Some(64 * 64 * 2 * 9 / 16));
        check(64, 64, 3, Some(64 * 64 * 10 / 16));
        check(64, 64, 28, Some(64 * 64 * 10 / 16));
        check(64, 64, 0, Some(64 * 64 * 4 * 9 / 16));
        check(-1, 64, 0, None);
    }
}
