//! The older functions, which take matrices as pointers: blocked matrices, and sums.

use super::CusparseStatus;
use super::handle::session_of;
use super::scratch::{Work, scratch_bytes};
use crate::status::put;

// One line for the functions that differ only in the type of an element, here and below.
macro_rules! sizes {
    ($([$($name:ident of $value:literal),+]$parameters:tt in $unit:ty => $work:ident $fields:tt;)+) => {
        $($(sizes!(@function $name of $value, $parameters in $unit => $work $fields);)+)+
    };
    (@function $name:ident of $value:literal, ($($parameter:ident: $type:ty),*) in $unit:ty => $work:ident { $($fields:tt)* }) => {
        #[doc = concat!("`", stringify!($name), "`: an estimate.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $($parameter: $type,)* size: *mut $unit,
        ) -> CusparseStatus {
            let _ = ($($parameter,)*);
            let bytes = session_of(handle).and_then(|session| {
                let bytes = scratch_bytes(session, Work::$work { $($fields)* }, $value);
                bytes.and_then(|bytes| <$unit>::try_from(bytes).ok()).ok_or(CusparseStatus::INVALID_VALUE)
            });
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put(size, bytes.unwrap_or(0)) };
            match bytes {
                Err(error) => error,
                Ok(_) if size.is_null() => CusparseStatus::INVALID_VALUE,
                Ok(_) => CusparseStatus::SUCCESS,
            }
        }
    };
}

sizes! {
    [cusparseSbsrsm2_bufferSize of 4, cusparseDbsrsm2_bufferSize of 8, cusparseCbsrsm2_bufferSize of 8, cusparseZbsrsm2_bufferSize of 16](dir_a: i32, trans_a: i32, trans_xy: i32, mb: i32, n: i32, nnzb: i32, descr_a: u64, val: u64, row_ptr: u64, col_ind: u64, block_size: i32, info: u64) in i32 => Solve { rows: mb.into(), elements: nnzb.into(), right_sides: n.into() };
    [cusparseSbsrsv2_bufferSize of 4, cusparseDbsrsv2_bufferSize of 8, cusparseCbsrsv2_bufferSize of 8, cusparseZbsrsv2_bufferSize of 16](dir_a: i32, trans_a: i32, mb: i32, nnzb: i32, descr_a: u64, val_a: u64, row_ptr_a: u64, col_ind_a: u64, block_dim: i32, info: u64) in i32 => Solve { rows: mb.into(), elements: nnzb.into(), right_sides: 1 };
    [cusparseScsrgeam2_bufferSizeExt of 4, cusparseDcsrgeam2_bufferSizeExt of 8, cusparseCcsrgeam2_bufferSizeExt of 8, cusparseZcsrgeam2_bufferSizeExt of 16](m: i32, n: i32, alpha: u64, descr_a: u64, nnz_a: i32, val_a: u64, row_ptr_a: u64, col_ind_a: u64, beta: u64, descr_b: u64, nnz_b: i32, val_b: u64, row_ptr_b: u64, col_ind_b: u64, descr_c: u64, val_c: u64, row_ptr_c: u64, col_ind_c: u64) in usize => Sum { rows: m.into() };
    [cusparseXcoosort_bufferSizeExt of 4](m: i32, n: i32, nnz: i32, rows: u64, columns: u64) in usize => Sort { elements: nnz.into() };
    [cusparseXcsrsort_bufferSizeExt of 4](m: i32, n: i32, nnz: i32, row_offsets: u64, columns: u64) in usize => Sort { elements: nnz.into() };
}

/// Accepts a call of `name` that would have written from each of `outputs` on.
fn operate(handle: u64, name: &str, outputs: &[u64], scratch: &[u64]) -> CusparseStatus {
    match session_of(handle) {
        Err(error) => error,
        Ok(session) => {
            for &scratch in scratch {
                session.workspace(scratch);
            }
            session.library_wrote(name, outputs);
            CusparseStatus::SUCCESS
        }
    }
}

macro_rules! operations {
    ($([$($name:ident),+]$parameters:tt writes $outputs:tt scratch $scratch:tt;)+) => {
        $($(operations!(@function $name $parameters writes $outputs scratch $scratch);)+)+
    };
    (@function $name:ident($($parameter:ident: $type:ty),*) writes [$($output:ident),*] scratch [$($scratch:ident),*]) => {
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(handle: u64, $($parameter: $type),*) -> CusparseStatus {
            let _ = ($($parameter,)*);
            operate(handle, stringify!($name), &[$($output),*], &[$($scratch),*])
        }
    };
}

operations! {
    [cusparseSbsrmm, cusparseDbsrmm, cusparseCbsrmm, cusparseZbsrmm](dir_a: i32, trans_a: i32, trans_b: i32, mb: i32, n: i32, kb: i32, nnzb: i32, alpha: u64, descr_a: u64, val_a: u64, row_ptr_a: u64, col_ind_a: u64, block_size: i32, b: u64, ldb: i32, beta: u64, c: u64, ldc: i32) writes [c] scratch [];
    [cusparseSbsrmv, cusparseDbsrmv, cusparseCbsrmv, cusparseZbsrmv](dir_a: i32, trans_a: i32, mb: i32, nb: i32, nnzb: i32, alpha: u64, descr_a: u64, val_a: u64, row_ptr_a: u64, col_ind_a: u64, block_dim: i32, x: u64, beta: u64, y: u64) writes [y] scratch [];
    [cusparseSbsrsm2_analysis, cusparseDbsrsm2_analysis, cusparseCbsrsm2_analysis, cusparseZbsrsm2_analysis](dir_a: i32, trans_a: i32, trans_xy: i32, mb: i32, n: i32, nnzb: i32, descr_a: u64, val: u64, row_ptr: u64, col_ind: u64, block_size: i32, info: u64, policy: i32, work: u64) writes [] scratch [work];
    [cusparseSbsrsm2_solve, cusparseDbsrsm2_solve, cusparseCbsrsm2_solve, cusparseZbsrsm2_solve](dir_a: i32, trans_a: i32, trans_xy: i32, mb: i32, n: i32, nnzb: i32, alpha: u64, descr_a: u64, val: u64, row_ptr: u64, col_ind: u64, block_size: i32, info: u64, b: u64, ldb: i32, x: u64, ldx: i32, policy: i32, work: u64) writes [x] scratch [work];
    [cusparseSbsrsv2_analysis, cusparseDbsrsv2_analysis, cusparseCbsrsv2_analysis, cusparseZbsrsv2_analysis](dir_a: i32, trans_a: i32, mb: i32, nnzb: i32, descr_a: u64, val_a: u64, row_ptr_a: u64, col_ind_a: u64, block_dim: i32, info: u64, policy: i32, work: u64) writes [] scratch [work];
    [cusparseSbsrsv2_solve, cusparseDbsrsv2_solve, cusparseCbsrsv2_solve, cusparseZbsrsv2_solve](dir_a: i32, trans_a: i32, mb: i32, nnzb: i32, alpha: u64, descr_a: u64, val_a: u64, row_ptr_a: u64, col_ind_a: u64, block_dim: i32, info: u64, f: u64, x: u64, policy: i32, work: u64) writes [x] scratch [work];
    [cusparseScsrgeam2, cusparseDcsrgeam2, cusparseCcsrgeam2, cusparseZcsrgeam2](m: i32, n: i32, alpha: u64, descr_a: u64, nnz_a: i32, val_a: u64, row_ptr_a: u64, col_ind_a: u64, beta: u64, descr_b: u64, nnz_b: i32, val_b: u64, row_ptr_b: u64, col_ind_b: u64, descr_c: u64, val_c: u64, row_ptr_c: u64, col_ind_c: u64, work: u64) writes [val_c, col_ind_c] scratch [work];
}

macro_rules! pivots {
    ($($name:ident;)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: no pivot is zero, which is written as -1.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: u64, info: u64, position: *mut i32) -> CusparseStatus {
            let _ = info;
            // SAFETY: with scalars on the host, the caller passes a place for a number or null.
            unsafe { put(position, -1) };
            session_of(handle).map_or_else(|error| error, |_| CusparseStatus::SUCCESS)
        }
    )+ };
}

pivots! {
    cusparseXbsrsm2_zeroPivot;
    cusparseXbsrsv2_zeroPivot;
}
