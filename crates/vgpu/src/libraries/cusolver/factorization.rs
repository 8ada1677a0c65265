//! Factorizations and what is solved with them: the outputs are no longer known, the `info` is 0.

use super::CusolverStatus;
use super::handle::session_of;
use crate::clock::Timing;
use crate::libraries::pointers::{self, Array};
use crate::status::put;

/// What a call writes.
struct Outputs<'a> {
    /// Addresses on the device.
    direct: &'a [u64],
    /// Arrays on the device of the addresses that are written.
    arrays: &'a [u64],
    /// Number of addresses in each array.
    array_len: i64,
    scratch: &'a [u64],
    /// Where the device is told of success, once for each matrix of the batch.
    info: u64,
    info_len: i64,
    /// Arrays on the host that are told, for each matrix, how far the result is from converged.
    residuals: &'a [u64],
}

/// # Safety
/// Each of `outputs.residuals` must be null or the address of `info_len` C doubles.
unsafe fn factorize(handle: u64, name: &str, outputs: &Outputs) -> CusolverStatus {
    let batch = usize::try_from(outputs.info_len).unwrap_or(0);
    for &residuals in outputs.residuals {
        for index in 0..if residuals == 0 { 0 } else { batch } {
            // SAFETY: promised by the caller.
            unsafe { put((residuals as *mut f64).add(index), 0.0) };
        }
    }
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    if outputs.info_len < 0 || outputs.array_len < 0 {
        return CusolverStatus::INVALID_VALUE;
    }
    for &scratch in outputs.scratch {
        session.workspace(scratch);
    }
    session.library_wrote(name, outputs.direct);
    for &at in outputs.arrays {
        let array = Array {
            at,
            count: outputs.array_len as usize,
        };
        pointers::wrote_through(session, name, array, Timing::default());
    }
    if outputs.info != 0 {
        let mut memory = session.memory();
        memory.contents.write(outputs.info, &vec![0; batch * 4]);
    }
    CusolverStatus::SUCCESS
}

// One entry for the functions that differ only in the type of an element.
macro_rules! factorizations {
    ($([$($name:ident),+]$parameters:tt
        writes $outputs:tt through $arrays:tt of $array_len:tt
        scratch $scratch:tt info $info:tt residuals $residuals:tt;)+) => {
        $($(factorizations!(
            @function $name $parameters writes $outputs through $arrays of $array_len
            scratch $scratch info $info residuals $residuals
        );)+)+
    };
    (@function $name:ident($($parameter:ident: $type:ty),*)
        writes [$($output:ident),*] through [$($array:ident),*] of $array_len:tt
        scratch [$($scratch:ident),*] info [$info:ident; $batch:tt] residuals [$($residuals:ident),*]) => {
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: u64, $($parameter: $type),*) -> CusolverStatus {
            let _ = ($($parameter,)*);
            let outputs = Outputs {
                direct: &[$($output),*],
                arrays: &[$($array),*],
                array_len: ($array_len).into(),
                scratch: &[$($scratch),*],
                info: $info,
                info_len: ($batch).into(),
                residuals: &[$($residuals),*],
            };
            // SAFETY: where the function has residuals, they are on the host, one for each matrix.
            unsafe { factorize(handle, stringify!($name), &outputs) }
        }
    };
}

factorizations! {
    [cusolverDnSgeqrf, cusolverDnDgeqrf, cusolverDnCgeqrf, cusolverDnZgeqrf](m: i32, n: i32, a: u64, lda: i32, tau: u64, work: u64, lwork: i32, info: u64)
        writes [a, tau] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSgesvd, cusolverDnDgesvd, cusolverDnCgesvd, cusolverDnZgesvd](jobu: i8, jobvt: i8, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32, work: u64, lwork: i32, rwork: u64, info: u64)
        writes [a, s, u, v, rwork] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSgesvdaStridedBatched, cusolverDnDgesvdaStridedBatched, cusolverDnCgesvdaStridedBatched, cusolverDnZgesvdaStridedBatched](jobz: i32, rank: i32, m: i32, n: i32, a: u64, lda: i32, stride_a: i64, s: u64, stride_s: i64, u: u64, ldu: i32, stride_u: i64, v: u64, ldv: i32, stride_v: i64, work: u64, lwork: i32, info: u64, residuals: u64, batch: i32)
        writes [s, u, v] through [] of batch scratch [work] info [info; batch] residuals [residuals];
    [cusolverDnSgesvdj, cusolverDnDgesvdj, cusolverDnCgesvdj, cusolverDnZgesvdj](jobz: i32, economy: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32, work: u64, lwork: i32, info: u64, params: u64)
        writes [a, s, u, v] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSgesvdjBatched, cusolverDnDgesvdjBatched, cusolverDnCgesvdjBatched, cusolverDnZgesvdjBatched](jobz: i32, m: i32, n: i32, a: u64, lda: i32, s: u64, u: u64, ldu: i32, v: u64, ldv: i32, work: u64, lwork: i32, info: u64, params: u64, batch: i32)
        writes [a, s, u, v] through [] of batch scratch [work] info [info; batch] residuals [];
    [cusolverDnSgetrf, cusolverDnDgetrf, cusolverDnCgetrf, cusolverDnZgetrf](m: i32, n: i32, a: u64, lda: i32, work: u64, pivots: u64, info: u64)
        writes [a, pivots] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSgetrs, cusolverDnDgetrs, cusolverDnCgetrs, cusolverDnZgetrs](trans: i32, n: i32, nrhs: i32, a: u64, lda: i32, pivots: u64, b: u64, ldb: i32, info: u64)
        writes [b] through [] of 0 scratch [] info [info; 1] residuals [];
    [cusolverDnSsyevd, cusolverDnDsyevd, cusolverDnCheevd, cusolverDnZheevd](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64, work: u64, lwork: i32, info: u64)
        writes [a, w] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSsyevj, cusolverDnDsyevj, cusolverDnCheevj, cusolverDnZheevj](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64, work: u64, lwork: i32, info: u64, params: u64)
        writes [a, w] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSsyevjBatched, cusolverDnDsyevjBatched, cusolverDnCheevjBatched, cusolverDnZheevjBatched](jobz: i32, uplo: i32, n: i32, a: u64, lda: i32, w: u64, work: u64, lwork: i32, info: u64, params: u64, batch: i32)
        writes [a, w] through [] of batch scratch [work] info [info; batch] residuals [];
    [cusolverDnSpotrf, cusolverDnDpotrf, cusolverDnCpotrf, cusolverDnZpotrf](uplo: i32, n: i32, a: u64, lda: i32, work: u64, lwork: i32, info: u64)
        writes [a] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSpotrfBatched, cusolverDnDpotrfBatched, cusolverDnCpotrfBatched, cusolverDnZpotrfBatched](uplo: i32, n: i32, a: u64, lda: i32, info: u64, batch: i32)
        writes [] through [a] of batch scratch [] info [info; batch] residuals [];
    [cusolverDnSpotrs, cusolverDnDpotrs, cusolverDnCpotrs, cusolverDnZpotrs](uplo: i32, n: i32, nrhs: i32, a: u64, lda: i32, b: u64, ldb: i32, info: u64)
        writes [b] through [] of 0 scratch [] info [info; 1] residuals [];
    [cusolverDnSpotrsBatched, cusolverDnDpotrsBatched, cusolverDnCpotrsBatched, cusolverDnZpotrsBatched](uplo: i32, n: i32, nrhs: i32, a: u64, lda: i32, b: u64, ldb: i32, info: u64, batch: i32)
        writes [] through [b] of batch scratch [] info [info; 1] residuals [];
    [cusolverDnSsytrf, cusolverDnDsytrf, cusolverDnCsytrf, cusolverDnZsytrf](uplo: i32, n: i32, a: u64, lda: i32, pivots: u64, work: u64, lwork: i32, info: u64)
        writes [a, pivots] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSorgqr, cusolverDnDorgqr, cusolverDnCungqr, cusolverDnZungqr](m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, work: u64, lwork: i32, info: u64)
        writes [a] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnSormqr, cusolverDnDormqr, cusolverDnCunmqr, cusolverDnZunmqr](side: i32, trans: i32, m: i32, n: i32, k: i32, a: u64, lda: i32, tau: u64, c: u64, ldc: i32, work: u64, lwork: i32, info: u64)
        writes [c] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnXgeev](params: u64, jobvl: i32, jobvr: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, vl_type: i32, vl: u64, ldvl: i64, vr_type: i32, vr: u64, ldvr: i64, compute_type: i32, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64)
        writes [a, w, vl, vr] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnXgeqrf](params: u64, m: i64, n: i64, a_type: i32, a: u64, lda: i64, tau_type: i32, tau: u64, compute_type: i32, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64)
        writes [a, tau] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnXpotrf](params: u64, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, compute_type: i32, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64)
        writes [a] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnXpotrs](params: u64, uplo: i32, n: i64, nrhs: i64, a_type: i32, a: u64, lda: i64, b_type: i32, b: u64, ldb: i64, info: u64)
        writes [b] through [] of 0 scratch [] info [info; 1] residuals [];
    [cusolverDnXsyevBatched](params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64, batch: i64)
        writes [a, w] through [] of batch scratch [work] info [info; batch] residuals [];
    [cusolverDnXsyevd](params: u64, jobz: i32, uplo: i32, n: i64, a_type: i32, a: u64, lda: i64, w_type: i32, w: u64, compute_type: i32, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64)
        writes [a, w] through [] of 0 scratch [work] info [info; 1] residuals [];
    [cusolverDnXsytrs](uplo: i32, n: i64, nrhs: i64, a_type: i32, a: u64, lda: i64, pivots: u64, b_type: i32, b: u64, ldb: i64, work: u64, work_bytes: usize, host_work: u64, host_bytes: usize, info: u64)
        writes [b] through [] of 0 scratch [work] info [info; 1] residuals [];
}
