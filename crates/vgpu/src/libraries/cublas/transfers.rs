//! Copies of vectors and matrices between host and device, which are CUDA's two-dimensional copies.

use super::CublasStatus;
use crate::status::CudaError;

/// A copy of columns of `rows` elements.
struct Transfer {
    rows: i32,
    columns: i32,
    element: i32,
    from: u64,
    from_leading: i32,
    to: u64,
    to_leading: i32,
    /// `cudaMemcpyKind`.
    kind: i32,
    stream: u64,
}

/// # Safety
/// As for `cudaMemcpy2DAsync`.
unsafe fn transfer(transfer: &Transfer) -> CublasStatus {
    let Transfer {
        rows,
        columns,
        element,
        from,
        from_leading,
        to,
        to_leading,
        kind,
        stream,
    } = *transfer;
    if rows < 0
        || columns < 0
        || element <= 0
        || from_leading < rows.max(1)
        || to_leading < rows.max(1)
    {
        return CublasStatus::INVALID_VALUE;
    }
    if rows == 0 || columns == 0 {
        return CublasStatus::SUCCESS;
    }
    let bytes = |elements: i32| elements as usize * element as usize;
    let (to_pitch, from_pitch) = (bytes(to_leading), bytes(from_leading));
    // SAFETY: promised by the caller.
    let copied = unsafe {
        crate::cudaMemcpy2DAsync(
            to,
            to_pitch,
            from,
            from_pitch,
            bytes(rows),
            columns as usize,
            kind,
            stream,
        )
    };
    if copied == CudaError::SUCCESS {
        CublasStatus::SUCCESS
    } else {
        CublasStatus::MAPPING_ERROR
    }
}

macro_rules! matrices {
    ($($name:ident, $kind:literal;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: copies a matrix.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            rows: i32, columns: i32, element: i32, from: u64, from_leading: i32, to: u64, to_leading: i32, stream: u64,
        ) -> CublasStatus {
            let copy =
                Transfer { rows, columns, element, from, from_leading, to, to_leading, kind: $kind, stream };
            // SAFETY: the contract is the same.
            unsafe { transfer(&copy) }
        }
    )+ };
}

macro_rules! vectors {
    ($($name:ident, $kind:literal;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: copies a vector.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            count: i32, element: i32, from: u64, from_step: i32, to: u64, to_step: i32, stream: u64,
        ) -> CublasStatus {
            // A vector with a stride is a matrix of one row.
            let copy = Transfer {
                rows: 1,
                columns: count,
                element,
                from,
                from_leading: from_step,
                to,
                to_leading: to_step,
                kind: $kind,
                stream,
            };
            // SAFETY: the contract is the same.
            unsafe { transfer(&copy) }
        }
    )+ };
}

matrices! {
    cublasSetMatrixAsync, 1;
    cublasGetMatrixAsync, 2;
}

vectors! {
    cublasSetVectorAsync, 1;
    cublasGetVectorAsync, 2;
}
