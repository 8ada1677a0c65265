//! How much scratch memory a factorization asks for.
//!
//! The older functions count elements in a C `int`, the newer ones bytes on the device and on the host.

use super::CusolverStatus;
use super::handle::session_of;
use super::scratch::{Work, scratch_bytes};
use crate::status::put;

/// The likely size, in units of `unit` bytes, or why there is none.
fn size(handle: u64, work: Work, element: u64, unit: u64) -> (CusolverStatus, u64) {
    match session_of(handle).map(|session| scratch_bytes(session, work, element)) {
        Err(error) => (error, 0),
        Ok(None) => (CusolverStatus::INVALID_VALUE, 0),
        Ok(Some(bytes)) => (CusolverStatus::SUCCESS, bytes / unit),
    }
}

/// Bytes of an element of a `cudaDataType`.
fn element_bytes(data_type: i32) -> u64 {
    match data_type {
        1 | 4 => 8, // double, complex
        5 => 16,    // double complex
        2 | 14 => 2,
        _ => 4,
    }
}

// One line for the functions that differ only in the type of an element.
macro_rules! counted_in_elements {
    ($([$($name:ident of $element:literal),+]$parameters:tt => $work:ident $fields:tt;)+) => {
        $($(counted_in_elements!(@function $name of $element, $parameters => $work $fields);)+)+
    };
    (@function $name:ident of $element:literal,
        ($($before:ident: $before_type:ty),*; $($after:ident: $after_type:ty),*)
        => $work:ident { $($fields:tt)* }) => {
        #[doc = concat!("`", stringify!($name), "`: an estimate, in elements.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $($before: $before_type,)* elements: *mut i32 $(, $after: $after_type)*
        ) -> CusolverStatus {
            let _ = ($($before,)* $($after,)*);
            let (status, count) = size(handle, Work::$work { $($fields)* }, $element, $element);
            let count = i32::try_from(count);
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put(elements, count.unwrap_or(0)) };
            match status {
                CusolverStatus::SUCCESS if elements.is_null() || count.is_err() => CusolverStatus::INVALID_VALUE,
                status => status,
            }
        }
    };
}

macro_rules! counted_in_bytes {
    ($($name:ident($($before:ident: $before_type:ty),*; $($after:ident: $after_type:ty),*)
        of $element:expr => $work:ident { $($fields:tt)* };)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: an estimate, in bytes; nothing is needed on the host.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $($before: $before_type,)* on_device: *mut usize, on_host: *mut usize
            $(, $after: $after_type)*
        ) -> CusolverStatus {
            let _ = ($($before,)* $($after,)*);
            let (status, bytes) = size(handle, Work::$work { $($fields)* }, $element, 1);
            // SAFETY: the caller passes places for sizes or null.
            unsafe {
                put(on_device, bytes as usize);
                put(on_host, 0);
            }
            match status {
                CusolverStatus::SUCCESS if on_device.is_null() || on_host.is_null() => CusolverStatus::INVALID_VALUE,
                status => status,
            }
        }
    )+ };
}

counted_in_elements! {
    [cusolverDnSgeqrf_bufferSize of 4, cusolverDnDgeqrf_bufferSize of 8, cusolverDnCgeqrf_bufferSize of 8, cusolverDnZgeqrf_bufferSize of 16](m: i32, n: i32, a: u64, lda: i32; ) => Geqrf { m: m.into(), n: n.into() };
    [cusolverDnSgesvd_bufferSize of 4, cusolverDnDgesvd_bufferSize of 8, cusolverDnCgesvd_bufferSize of 8, cusolverDnZgesvd_bufferSize of 16](m: i32, n: i32; ) => Gesvd { m: m.into(), n: n.into() };
    [cusolverDnSgesvdaStridedBatched_bufferSize of 4, cusolverDnDgesvdaStridedBatched_bufferSize of 8, cusolverDnCgesvdaStridedBatched_bufferSize of 8, cusolverDnZgesvdaStridedBatched_bufferSize of 16](jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64; batch: i32) => Gesvda { m: m.into(), n: n.into(), rank: rank.into(), batch: batch.into() };
    [cusolverDnSgesvdjBatched_bufferSize of 4, cusolverDnDgesvdjBatched_bufferSize of 8, cusolverDnCgesvdjBatched_bufferSize of 8, cusolverDnZgesvdjBatched_bufferSize of 16](jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64, batch: i32) => GesvdjBatched { m: m.into(), n: n.into(), batch: batch.into() };
    [cusolverDnSgesvdj_bufferSize of 4, cusolverDnDgesvdj_bufferSize of 8, cusolverDnCgesvdj_bufferSize of 8, cusolverDnZgesvdj_bufferSize of 16](jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64) => Gesvdj { m: m.into(), n: n.into() };
    [cusolverDnSgetrf_bufferSize of 4, cusolverDnDgetrf_bufferSize of 8, cusolverDnCgetrf_bufferSize of 8, cusolverDnZgetrf_bufferSize of 16](m: i32, n: i32, a: u64, lda: i32; ) => Getrf { m: m.into(), n: n.into() };
    [cusolverDnSsyevd_bufferSize of 4, cusolverDnDsyevd_bufferSize of 8, cusolverDnCheevd_bufferSize of 8, cusolverDnZheevd_bufferSize of 16](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; ) => Syevd { n: n.into(), vectors: jobz != 0 };
    [cusolverDnSsyevjBatched_bufferSize of 4, cusolverDnDsyevjBatched_bufferSize of 8, cusolverDnCheevjBatched_bufferSize of 8, cusolverDnZheevjBatched_bufferSize of 16](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64, batch: i32) => Syevj { n: n.into(), batch: batch.into() };
    [cusolverDnSsyevj_bufferSize of 4, cusolverDnDsyevj_bufferSize of 8, cusolverDnCheevj_bufferSize of 8, cusolverDnZheevj_bufferSize of 16](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64) => Syevj { n: n.into(), batch: 1 };
    [cusolverDnSpotrf_bufferSize of 4, cusolverDnDpotrf_bufferSize of 8, cusolverDnCpotrf_bufferSize of 8, cusolverDnZpotrf_bufferSize of 16](uplo: i32, n: i32, a: u64, lda: i32; ) => Potrf { n: n.into() };
    [cusolverDnSsytrf_bufferSize of 4, cusolverDnDsytrf_bufferSize of 8, cusolverDnCsytrf_bufferSize of 8, cusolverDnZsytrf_bufferSize of 16](n: i32, a: u64, lda: i32; ) => Sytrf { n: n.into() };
    [cusolverDnSorgqr_bufferSize of 4, cusolverDnDorgqr_bufferSize of 8, cusolverDnCungqr_bufferSize of 8, cusolverDnZungqr_bufferSize of 16](m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64; ) => Orgqr { m: m.into(), n: n.into() };
    [cusolverDnSormqr_bufferSize of 4, cusolverDnDormqr_bufferSize of 8, cusolverDnCunmqr_bufferSize of 8, cusolverDnZunmqr_bufferSize of 16](side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32; ) => Ormqr { m: m.into(), n: n.into() };
}

counted_in_bytes! {
    cusolverDnXgeev_bufferSize(params: u64, jobvl: i32, jobvr: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, vl_type: i32, vl: u64, ldvl: i64, vr_type: i32, vr: u64, ldvr: i64, compute_type: i32; ) of element_bytes(compute_type) => Geev { n };
    cusolverDnXgeqrf_bufferSize(params: u64, m: i64, n: i64, a_type: i32, a: u64, lda: i64, tau_type: i32, tau: u64, compute_type: i32; ) of element_bytes(compute_type) => Geqrf { m, n };
    cusolverDnXpotrf_bufferSize(params: u64, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, compute_type: i32; ) of element_bytes(compute_type) => Potrf { n };
    cusolverDnXsyevBatched_bufferSize(params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32; batch: i64) of element_bytes(compute_type) => Syevj { n, batch };
    cusolverDnXsyevd_bufferSize(params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32; ) of element_bytes(compute_type) => Syevd { n, vectors: jobz != 0 };
    cusolverDnXsytrs_bufferSize(uplo: i32, n: i64, nrhs: i64, a_type: i32, a: u64, lda: i64, pivots: u64, b_type: i32, b: u64, ldb: i64; ) of element_bytes(a_type) => Sytrs { n, right_sides: nrhs };
}
