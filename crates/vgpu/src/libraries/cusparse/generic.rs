//! Products of sparse and dense matrices, products at given places, and triangular solutions.

use super::CusparseStatus;
use super::description::{Dense, Sparse, element_bytes, look};
use super::handle::session_of;
use super::scratch::{Work, scratch_bytes};
use crate::status::put;

/// What a call was given: sparse and dense matrices by handle.
struct Given {
    sparse: Sparse,
    dense: Dense,
}

fn given(sparse: u64, dense: u64) -> Result<Given, CusparseStatus> {
    Ok(Given {
        sparse: look(sparse, |kept: &mut Sparse| *kept)?,
        dense: look(dense, |kept: &mut Dense| *kept)?,
    })
}

/// # Safety
/// `size` must be null or valid for writing.
unsafe fn ask(
    handle: u64,
    [sparse, dense]: [u64; 2],
    size: *mut usize,
    work: impl FnOnce(&Given) -> Work,
) -> CusparseStatus {
    let bytes = session_of(handle).and_then(|session| {
        let given = given(sparse, dense)?;
        let value = element_bytes(given.dense.value_type);
        scratch_bytes(session, work(&given), value).ok_or(CusparseStatus::INVALID_VALUE)
    });
    // SAFETY: promised by the caller.
    unsafe { put(size, bytes.unwrap_or(0) as usize) };
    match bytes {
        Err(error) => error,
        Ok(_) if size.is_null() => CusparseStatus::INVALID_VALUE,
        Ok(_) => CusparseStatus::SUCCESS,
    }
}

fn product(given: &Given) -> Work {
    Work::Product {
        rows: given.sparse.rows.max(given.sparse.columns),
        elements: given.sparse.elements,
        right_sides: given.dense.columns,
    }
}

fn places(given: &Given) -> Work {
    Work::Product {
        rows: given.sparse.rows,
        elements: given.sparse.elements,
        right_sides: 1,
    }
}

fn solution(given: &Given) -> Work {
    Work::Solve {
        rows: given.sparse.rows,
        elements: given.sparse.elements,
        right_sides: given.dense.columns,
    }
}

macro_rules! sizes {
    ($($name:ident($($parameter:ident: $type:ty),*) of [$sparse:ident, $dense:ident] for $work:ident;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: an estimate.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $($parameter: $type,)* size: *mut usize,
        ) -> CusparseStatus {
            let _ = ($($parameter,)*);
            // SAFETY: the caller passes a place for a size or null.
            unsafe { ask(handle, [$sparse, $dense], size, $work) }
        }
    )+ };
}

sizes! {
    cusparseSpMM_bufferSize(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32) of [a, b] for product;
    cusparseSpMV_bufferSize(op_a: i32, alpha: u64, a: u64, x: u64, beta: u64, y: u64, compute_type: i32, algorithm: i32) of [a, x] for product;
    cusparseSDDMM_bufferSize(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32) of [c, a] for places;
    cusparseSpSM_bufferSize(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, c: u64, compute_type: i32, algorithm: i32, state: u64) of [a, b] for solution;
    cusparseSpSV_bufferSize(op_a: i32, alpha: u64, a: u64, x: u64, y: u64, compute_type: i32, algorithm: i32, state: u64) of [a, x] for solution;
}

/// Accepts a call of `name` that would have written the values of `sparse` and `dense`.
fn operate(
    handle: u64,
    name: &str,
    sparse: &[u64],
    dense: &[u64],
    scratch: &[u64],
) -> CusparseStatus {
    let done = session_of(handle).and_then(|session| {
        let mut outputs = Vec::new();
        for &sparse in sparse {
            outputs.push(look(sparse, |kept: &mut Sparse| kept.values)?);
        }
        for &dense in dense {
            outputs.push(look(dense, |kept: &mut Dense| kept.values)?);
        }
        for &scratch in scratch {
            session.workspace(scratch);
        }
        session.library_wrote(name, &outputs);
        Ok(())
    });
    done.map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

macro_rules! operations {
    ($($name:ident($($parameter:ident: $type:ty),*)
        writes sparse [$($sparse:ident),*] dense [$($dense:ident),*] scratch [$($scratch:ident),*];)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> CusparseStatus {
            let _ = ($($parameter,)*);
            operate(handle, stringify!($name), &[$($sparse),*], &[$($dense),*], &[$($scratch),*])
        }
    )+ };
}

operations! {
    cusparseSpMM(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32, work: u64)
        writes sparse [] dense [c] scratch [work];
    cusparseSpMM_preprocess(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32, work: u64)
        writes sparse [] dense [] scratch [work];
    cusparseSpMV(op_a: i32, alpha: u64, a: u64, x: u64, beta: u64, y: u64, compute_type: i32, algorithm: i32, work: u64)
        writes sparse [] dense [y] scratch [work];
    cusparseSDDMM_preprocess(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32, work: u64)
        writes sparse [] dense [] scratch [work];
    cusparseSDDMM(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, beta: u64, c: u64, compute_type: i32, algorithm: i32, work: u64)
        writes sparse [c] dense [] scratch [work];
    cusparseSpSM_analysis(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, c: u64, compute_type: i32, algorithm: i32, state: u64, work: u64)
        writes sparse [] dense [] scratch [work];
    cusparseSpSM_solve(op_a: i32, op_b: i32, alpha: u64, a: u64, b: u64, c: u64, compute_type: i32, algorithm: i32, state: u64)
        writes sparse [] dense [c] scratch [];
    cusparseSpSV_analysis(op_a: i32, alpha: u64, a: u64, x: u64, y: u64, compute_type: i32, algorithm: i32, state: u64, work: u64)
        writes sparse [] dense [] scratch [work];
    cusparseSpSV_solve(op_a: i32, alpha: u64, a: u64, x: u64, y: u64, compute_type: i32, algorithm: i32, state: u64)
        writes sparse [] dense [y] scratch [];
}
