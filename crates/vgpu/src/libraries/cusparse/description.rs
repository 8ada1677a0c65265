//! Descriptions of matrices and vectors: what is set is what is asked for.

use super::CusparseStatus;
use crate::session::session;
use crate::status::put;

/// A sparse matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sparse {
    pub(super) rows: i64,
    pub(super) columns: i64,
    pub(super) elements: i64,
    /// Row offsets in compressed form, row numbers otherwise.
    pub(super) row_part: u64,
    pub(super) column_numbers: u64,
    pub(super) values: u64,
    pub(super) value_type: i32,
    /// Whether row offsets are compressed, with 32-bit numbers that count from 0.
    pub(super) plain_rows: bool,
}

/// A dense matrix or, with one column, a vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dense {
    pub(super) columns: i64,
    pub(super) values: u64,
    pub(super) value_type: i32,
}

/// How the older functions take a matrix, and what they learn of one; nothing depends on either.
#[derive(Clone, Copy, Debug, Default)]
struct Opaque;

/// Bytes of an element of a `cudaDataType`.
pub(super) fn element_bytes(data_type: i32) -> u64 {
    match data_type {
        5 => 16,
        1 | 4 => 8,
        2 | 14 => 2,
        3 | 8 | 28 | 29 => 1,
        _ => 4,
    }
}

/// Makes an object; `out` is null or a place for its handle, which is 0 on failure.
///
/// # Safety
/// `out` must be null or valid for writing.
pub(super) unsafe fn create<T: Send + 'static>(out: *mut u64, new: T) -> CusparseStatus {
    let session = session().filter(|_| !out.is_null());
    let handle = session.map_or(0, |session| session.handles().add(new));
    // SAFETY: promised by the caller.
    unsafe { put(out, handle) };
    if handle == 0 {
        CusparseStatus::INVALID_VALUE
    } else {
        CusparseStatus::SUCCESS
    }
}

pub(super) fn destroy<T: Send + 'static>(handle: u64) -> CusparseStatus {
    match session().and_then(|session| session.handles::<T>().remove(handle)) {
        Some(_) => CusparseStatus::SUCCESS,
        None => CusparseStatus::INVALID_VALUE,
    }
}

/// Looks at or changes an object.
pub(super) fn look<T: Send + 'static, R>(
    handle: u64,
    look: impl FnOnce(&mut T) -> R,
) -> Result<R, CusparseStatus> {
    session()
        .and_then(|session| session.handles().with(handle, look))
        .ok_or(CusparseStatus::INVALID_VALUE)
}

macro_rules! opaque {
    ($($create:ident, $destroy:ident;)+) => { $(
        #[doc = concat!("`", stringify!($create), "`: makes a description.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(out: *mut u64) -> CusparseStatus {
            // SAFETY: the caller passes a place for a handle or null.
            unsafe { create(out, Opaque) }
        }

        #[doc = concat!("`", stringify!($destroy), "`: ends a description.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(description: u64) -> CusparseStatus {
            destroy::<Opaque>(description)
        }
    )+ };
}

opaque! {
    cusparseCreateMatDescr, cusparseDestroyMatDescr;
    cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info;
    cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info;
    cusparseSpSV_createDescr, cusparseSpSV_destroyDescr;
    cusparseSpSM_createDescr, cusparseSpSM_destroyDescr;
}

macro_rules! properties {
    ($($set:ident;)+) => { $(
        #[doc = concat!("`", stringify!($set), "`: accepted for a description that exists.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $set(description: u64, value: i32) -> CusparseStatus {
            let _ = value;
            look(description, |_: &mut Opaque| ()).map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
        }
    )+ };
}

properties! {
    cusparseSetMatDiagType;
    cusparseSetMatFillMode;
    cusparseSetMatIndexBase;
    cusparseSetMatType;
}

/// Describes a sparse matrix with compressed rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseCreateCsr(
    out: *mut u64,
    rows: i64,
    columns: i64,
    elements: i64,
    row_offsets: u64,
    column_numbers: u64,
    values: u64,
    offset_type: i32,
    column_type: i32,
    base: i32,
    value_type: i32,
) -> CusparseStatus {
    const INDEX_32I: i32 = 2;
    let sparse = Sparse {
        rows,
        columns,
        elements,
        row_part: row_offsets,
        column_numbers,
        values,
        value_type,
        plain_rows: base == 0 && offset_type == INDEX_32I && column_type == INDEX_32I,
    };
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(out, sparse) }
}

/// Describes a sparse matrix by row and column of each element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseCreateCoo(
    out: *mut u64,
    rows: i64,
    columns: i64,
    elements: i64,
    row_numbers: u64,
    column_numbers: u64,
    values: u64,
    index_type: i32,
    base: i32,
    value_type: i32,
) -> CusparseStatus {
    let _ = (index_type, base);
    let sparse = Sparse {
        rows,
        columns,
        elements,
        row_part: row_numbers,
        column_numbers,
        values,
        value_type,
        plain_rows: false,
    };
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(out, sparse) }
}

/// Ends the description of a sparse matrix.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseDestroySpMat(sparse: u64) -> CusparseStatus {
    destroy::<Sparse>(sparse)
}

/// Gives a described matrix its memory.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseCsrSetPointers(
    sparse: u64,
    row_offsets: u64,
    column_numbers: u64,
    values: u64,
) -> CusparseStatus {
    let set = look(sparse, |kept: &mut Sparse| {
        kept.row_part = row_offsets;
        kept.column_numbers = column_numbers;
        kept.values = values;
    });
    set.map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

/// The rows, columns and elements of a matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseSpMatGetSize(
    sparse: u64,
    rows: *mut i64,
    columns: *mut i64,
    elements: *mut i64,
) -> CusparseStatus {
    let kept = look(sparse, |kept: &mut Sparse| *kept);
    let found = kept.unwrap_or_default();
    // SAFETY: the caller passes places for sizes or null.
    unsafe {
        put(rows, found.rows);
        put(columns, found.columns);
        put(elements, found.elements);
    }
    kept.map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
}

/// How a sparse matrix is to be read: which triangle, and whether its diagonal is there.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSpMatSetAttribute(
    sparse: u64,
    attribute: i32,
    data: u64,
    size: usize,
) -> CusparseStatus {
    let _ = (attribute, data, size);
    look(sparse, |_: &mut Sparse| ()).map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

/// A described matrix is the first of a batch.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseCsrSetStridedBatch(
    sparse: u64,
    count: i32,
    offset_stride: i64,
    element_stride: i64,
) -> CusparseStatus {
    let _ = (count, offset_stride, element_stride);
    look(sparse, |_: &mut Sparse| ()).map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

/// Describes a dense matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseCreateDnMat(
    out: *mut u64,
    rows: i64,
    columns: i64,
    leading: i64,
    values: u64,
    value_type: i32,
    order: i32,
) -> CusparseStatus {
    let _ = (rows, leading, order);
    let dense = Dense {
        columns,
        values,
        value_type,
    };
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(out, dense) }
}

/// Ends the description of a dense matrix.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseDestroyDnMat(dense: u64) -> CusparseStatus {
    destroy::<Dense>(dense)
}

/// A described dense matrix is the first of a batch.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseDnMatSetStridedBatch(
    dense: u64,
    count: i32,
    stride: i64,
) -> CusparseStatus {
    let _ = (count, stride);
    look(dense, |_: &mut Dense| ()).map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

/// Describes a dense vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseCreateDnVec(
    out: *mut u64,
    size: i64,
    values: u64,
    value_type: i32,
) -> CusparseStatus {
    let _ = size;
    let dense = Dense {
        columns: 1,
        values,
        value_type,
    };
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(out, dense) }
}

/// Ends the description of a dense vector.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseDestroyDnVec(dense: u64) -> CusparseStatus {
    destroy::<Dense>(dense)
}
