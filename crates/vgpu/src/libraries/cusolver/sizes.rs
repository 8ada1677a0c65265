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

macro_rules! counted_in_elements {
    ($($name:ident($($before:ident: $before_type:ty),*; $($after:ident: $after_type:ty),*)
        of $element:literal => $work:ident { $($fields:tt)* };)+) => { $(
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
    )+ };
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
    cusolverDnCgeqrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 8 => Geqrf { m: m.into(), n: n.into() };
    cusolverDnCgesvd_bufferSize(m: i32, n: i32; ) of 8 => Gesvd { m: m.into(), n: n.into() };
    cusolverDnCgesvdaStridedBatched_bufferSize(jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64; batch: i32) of 8 => Gesvda { m: m.into(), n: n.into(), rank: rank.into(), batch: batch.into() };
    cusolverDnCgesvdjBatched_bufferSize(jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64, batch: i32) of 8 => GesvdjBatched { m: m.into(), n: n.into(), batch: batch.into() };
    cusolverDnCgesvdj_bufferSize(jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64) of 8 => Gesvdj { m: m.into(), n: n.into() };
    cusolverDnCgetrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 8 => Getrf { m: m.into(), n: n.into() };
    cusolverDnCheevd_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; ) of 8 => Syevd { n: n.into(), vectors: jobz != 0 };
    cusolverDnCheevjBatched_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64, batch: i32) of 8 => Syevj { n: n.into(), batch: batch.into() };
    cusolverDnCheevj_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64) of 8 => Syevj { n: n.into(), batch: 1 };
    cusolverDnCpotrf_bufferSize(uplo: i32, n: i32, a: u64, lda: i32; ) of 8 => Potrf { n: n.into() };
    cusolverDnCsytrf_bufferSize(n: i32, a: u64, lda: i32; ) of 8 => Sytrf { n: n.into() };
    cusolverDnCungqr_bufferSize(m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64; ) of 8 => Orgqr { m: m.into(), n: n.into() };
    cusolverDnCunmqr_bufferSize(side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32; ) of 8 => Ormqr { m: m.into(), n: n.into() };
    cusolverDnDgeqrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 8 => Geqrf { m: m.into(), n: n.into() };
    cusolverDnDgesvd_bufferSize(m: i32, n: i32; ) of 8 => Gesvd { m: m.into(), n: n.into() };
    cusolverDnDgesvdaStridedBatched_bufferSize(jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64; batch: i32) of 8 => Gesvda { m: m.into(), n: n.into(), rank: rank.into(), batch: batch.into() };
    cusolverDnDgesvdjBatched_bufferSize(jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64, batch: i32) of 8 => GesvdjBatched { m: m.into(), n: n.into(), batch: batch.into() };
    cusolverDnDgesvdj_bufferSize(jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64) of 8 => Gesvdj { m: m.into(), n: n.into() };
    cusolverDnDgetrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 8 => Getrf { m: m.into(), n: n.into() };
    cusolverDnDorgqr_bufferSize(m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64; ) of 8 => Orgqr { m: m.into(), n: n.into() };
    cusolverDnDormqr_bufferSize(side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32; ) of 8 => Ormqr { m: m.into(), n: n.into() };
    cusolverDnDpotrf_bufferSize(uplo: i32, n: i32, a: u64, lda: i32; ) of 8 => Potrf { n: n.into() };
    cusolverDnDsyevd_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; ) of 8 => Syevd { n: n.into(), vectors: jobz != 0 };
    cusolverDnDsyevjBatched_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64, batch: i32) of 8 => Syevj { n: n.into(), batch: batch.into() };
    cusolverDnDsyevj_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64) of 8 => Syevj { n: n.into(), batch: 1 };
    cusolverDnDsytrf_bufferSize(n: i32, a: u64, lda: i32; ) of 8 => Sytrf { n: n.into() };
    cusolverDnSgeqrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 4 => Geqrf { m: m.into(), n: n.into() };
    cusolverDnSgesvd_bufferSize(m: i32, n: i32; ) of 4 => Gesvd { m: m.into(), n: n.into() };
    cusolverDnSgesvdaStridedBatched_bufferSize(jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64; batch: i32) of 4 => Gesvda { m: m.into(), n: n.into(), rank: rank.into(), batch: batch.into() };
    cusolverDnSgesvdjBatched_bufferSize(jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64, batch: i32) of 4 => GesvdjBatched { m: m.into(), n: n.into(), batch: batch.into() };
    cusolverDnSgesvdj_bufferSize(jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64) of 4 => Gesvdj { m: m.into(), n: n.into() };
    cusolverDnSgetrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 4 => Getrf { m: m.into(), n: n.into() };
    cusolverDnSorgqr_bufferSize(m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64; ) of 4 => Orgqr { m: m.into(), n: n.into() };
    cusolverDnSormqr_bufferSize(side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32; ) of 4 => Ormqr { m: m.into(), n: n.into() };
    cusolverDnSpotrf_bufferSize(uplo: i32, n: i32, a: u64, lda: i32; ) of 4 => Potrf { n: n.into() };
    cusolverDnSsyevd_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; ) of 4 => Syevd { n: n.into(), vectors: jobz != 0 };
    cusolverDnSsyevjBatched_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64, batch: i32) of 4 => Syevj { n: n.into(), batch: batch.into() };
    cusolverDnSsyevj_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64) of 4 => Syevj { n: n.into(), batch: 1 };
    cusolverDnSsytrf_bufferSize(n: i32, a: u64, lda: i32; ) of 4 => Sytrf { n: n.into() };
    cusolverDnZgeqrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 16 => Geqrf { m: m.into(), n: n.into() };
    cusolverDnZgesvd_bufferSize(m: i32, n: i32; ) of 16 => Gesvd { m: m.into(), n: n.into() };
    cusolverDnZgesvdaStridedBatched_bufferSize(jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64; batch: i32) of 16 => Gesvda { m: m.into(), n: n.into(), rank: rank.into(), batch: batch.into() };
    cusolverDnZgesvdjBatched_bufferSize(jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64, batch: i32) of 16 => GesvdjBatched { m: m.into(), n: n.into(), batch: batch.into() };
    cusolverDnZgesvdj_bufferSize(jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32; params: u64) of 16 => Gesvdj { m: m.into(), n: n.into() };
    cusolverDnZgetrf_bufferSize(m: i32, n: i32, a: u64, lda: i32; ) of 16 => Getrf { m: m.into(), n: n.into() };
    cusolverDnZheevd_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; ) of 16 => Syevd { n: n.into(), vectors: jobz != 0 };
    cusolverDnZheevjBatched_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64, batch: i32) of 16 => Syevj { n: n.into(), batch: batch.into() };
    cusolverDnZheevj_bufferSize(jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64; params: u64) of 16 => Syevj { n: n.into(), batch: 1 };
    cusolverDnZpotrf_bufferSize(uplo: i32, n: i32, a: u64, lda: i32; ) of 16 => Potrf { n: n.into() };
    cusolverDnZsytrf_bufferSize(n: i32, a: u64, lda: i32; ) of 16 => Sytrf { n: n.into() };
    cusolverDnZungqr_bufferSize(m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64; ) of 16 => Orgqr { m: m.into(), n: n.into() };
    cusolverDnZunmqr_bufferSize(side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32; ) of 16 => Ormqr { m: m.into(), n: n.into() };
}

counted_in_bytes! {
    cusolverDnXgeev_bufferSize(params: u64, jobvl: i32, jobvr: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, vl_type: i32, vl: u64, ldvl: i64, vr_type: i32, vr: u64, ldvr: i64, compute_type: i32; ) of element_bytes(compute_type) => Geev { n };
    cusolverDnXgeqrf_bufferSize(params: u64, m: i64, n: i64, a_type: i32, a: u64, lda: i64, tau_type: i32, tau: u64, compute_type: i32; ) of element_bytes(compute_type) => Geqrf { m, n };
    cusolverDnXpotrf_bufferSize(params: u64, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, compute_type: i32; ) of element_bytes(compute_type) => Potrf { n };
    cusolverDnXsyevBatched_bufferSize(params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32; batch: i64) of element_bytes(compute_type) => Syevj { n, batch };
    cusolverDnXsyevd_bufferSize(params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32; ) of element_bytes(compute_type) => Syevd { n, vectors: jobz != 0 };
    cusolverDnXsytrs_bufferSize(uplo: i32, n: i64, nrhs: i64, a_type: i32, a: u64, lda: i64, pivots: u64, b_type: i32, b: u64, ldb: i64; ) of element_bytes(a_type) => Sytrs { n, right_sides: nrhs };
}
