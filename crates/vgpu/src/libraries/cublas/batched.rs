//! Batches of matrices named by an array of pointers that lies on the device.

use super::CublasStatus;
use super::launch::timing;
use crate::libraries::pointers::{self, Array};
use crate::libraries::product::Product;
use crate::libraries::product::data_type::{COMPLEX, DOUBLE, DOUBLE_COMPLEX, HALF, SINGLE};
use crate::session::session;
use crate::status::put;

/// Outputs of a call on a batch.
struct Outputs<'a> {
    /// Written directly.
    direct: &'a [u64],
    /// Arrays on the device of the addresses that are written.
    arrays: &'a [u64],
    /// Number of addresses in each array.
    count: i32,
    /// Host integers that say whether the arguments were valid, which they were.
    info: &'a [u64],
    /// What is computed, where that is what takes the time.
    product: Option<Product>,
}

/// # Safety
/// Each address in `outputs.info` must be null or that of a C `int`.
unsafe fn launch_batch(handle: u64, name: &str, outputs: &Outputs) -> CublasStatus {
    for &info in outputs.info {
        // SAFETY: promised by the caller.
        unsafe { put(info as *mut i32, 0) };
    }
    let Some(session) = session() else {
        return CublasStatus::NOT_INITIALIZED;
    };
    let Some(timing) = timing(session, handle, outputs.product) else {
        return CublasStatus::NOT_INITIALIZED;
    };
    let Ok(count) = usize::try_from(outputs.count) else {
        return CublasStatus::INVALID_VALUE;
    };
    if !outputs.direct.is_empty() {
        session.library_wrote(name, outputs.direct);
    }
    for &at in outputs.arrays {
        pointers::wrote_through(session, name, Array { at, count }, timing);
    }
    CublasStatus::SUCCESS
}

macro_rules! batches {
    ($($name:ident($($parameter:ident: $type:ty),*)
        writes [$($output:ident),*] through [$($array:ident),*] of $count:ident, info [$($info:ident),*] $(product $product:expr)?;)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted and not carried out.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: u64, $($parameter: $type),*) -> CublasStatus {
            let _ = ($($parameter,)*);
            let outputs =
                Outputs { direct: &[$($output),*], arrays: &[$($array),*], count: $count, info: &[$($info),*], product: [$($product)?].into_iter().next() };
            // SAFETY: `info`, where the function has it, is a host integer or null.
            unsafe { launch_batch(handle, stringify!($name), &outputs) }
        }
    )+ };
}

batches! {
    cublasCgelsBatched(trans: i32, m: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, carray: u64, ldc: i32, info: u64, dev_info_array: u64, batch_size: i32) writes [dev_info_array] through [aarray, carray] of batch_size, info [info];
    cublasCgemm3mBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(COMPLEX, [m, n, k], batch_count);
    cublasCgemmBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(COMPLEX, [m, n, k], batch_count);
    cublasCgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasCgeqrfBatched(m: i32, n: i32, aarray: u64, lda: i32, tau_array: u64, info: u64, batch_size: i32) writes [] through [aarray, tau_array] of batch_size, info [info];
    cublasCgetrfBatched(n: i32, a: u64, lda: i32, p: u64, info: u64, batch_size: i32) writes [p, info] through [a] of batch_size, info [];
    cublasCgetriBatched(n: i32, a: u64, lda: i32, p: u64, c: u64, ldc: i32, info: u64, batch_size: i32) writes [info] through [c] of batch_size, info [];
    cublasCgetrsBatched(trans: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, dev_ipiv: u64, barray: u64, ldb: i32, info: u64, batch_size: i32) writes [] through [barray] of batch_size, info [info];
    cublasCmatinvBatched(n: i32, a: u64, lda: i32, ainv: u64, lda_inv: i32, info: u64, batch_size: i32) writes [info] through [ainv] of batch_size, info [];
    cublasCtrsmBatched(side: i32, uplo: i32, trans: i32, diag: i32, m: i32, n: i32, alpha: u64, a: u64, lda: i32, b: u64, ldb: i32, batch_count: i32) writes [] through [b] of batch_count, info [];
    cublasDgelsBatched(trans: i32, m: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, carray: u64, ldc: i32, info: u64, dev_info_array: u64, batch_size: i32) writes [dev_info_array] through [aarray, carray] of batch_size, info [info];
    cublasDgemmBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(DOUBLE, [m, n, k], batch_count);
    cublasDgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasDgeqrfBatched(m: i32, n: i32, aarray: u64, lda: i32, tau_array: u64, info: u64, batch_size: i32) writes [] through [aarray, tau_array] of batch_size, info [info];
    cublasDgetrfBatched(n: i32, a: u64, lda: i32, p: u64, info: u64, batch_size: i32) writes [p, info] through [a] of batch_size, info [];
    cublasDgetriBatched(n: i32, a: u64, lda: i32, p: u64, c: u64, ldc: i32, info: u64, batch_size: i32) writes [info] through [c] of batch_size, info [];
    cublasDgetrsBatched(trans: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, dev_ipiv: u64, barray: u64, ldb: i32, info: u64, batch_size: i32) writes [] through [barray] of batch_size, info [info];
    cublasDmatinvBatched(n: i32, a: u64, lda: i32, ainv: u64, lda_inv: i32, info: u64, batch_size: i32) writes [info] through [ainv] of batch_size, info [];
    cublasDtrsmBatched(side: i32, uplo: i32, trans: i32, diag: i32, m: i32, n: i32, alpha: u64, a: u64, lda: i32, b: u64, ldb: i32, batch_count: i32) writes [] through [b] of batch_count, info [];
    cublasGemmBatchedEx(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, atype: i32, lda: i32, barray: u64, btype: i32, ldb: i32, beta: u64, carray: u64, ctype: i32, ldc: i32, batch_count: i32, compute_type: i32, algo: i32) writes [] through [carray] of batch_count, info [] product Product { m: i64::from(m), n: i64::from(n), k: i64::from(k), batch: i64::from(batch_count), factors: [atype, btype], result: ctype, compute_type };
    cublasHSHgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasHSSgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasHgemmBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(HALF, [m, n, k], batch_count);
    cublasSgelsBatched(trans: i32, m: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, carray: u64, ldc: i32, info: u64, dev_info_array: u64, batch_size: i32) writes [dev_info_array] through [aarray, carray] of batch_size, info [info];
    cublasSgemmBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(SINGLE, [m, n, k], batch_count);
    cublasSgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasSgeqrfBatched(m: i32, n: i32, aarray: u64, lda: i32, tau_array: u64, info: u64, batch_size: i32) writes [] through [aarray, tau_array] of batch_size, info [info];
    cublasSgetrfBatched(n: i32, a: u64, lda: i32, p: u64, info: u64, batch_size: i32) writes [p, info] through [a] of batch_size, info [];
    cublasSgetriBatched(n: i32, a: u64, lda: i32, p: u64, c: u64, ldc: i32, info: u64, batch_size: i32) writes [info] through [c] of batch_size, info [];
    cublasSgetrsBatched(trans: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, dev_ipiv: u64, barray: u64, ldb: i32, info: u64, batch_size: i32) writes [] through [barray] of batch_size, info [info];
    cublasSmatinvBatched(n: i32, a: u64, lda: i32, ainv: u64, lda_inv: i32, info: u64, batch_size: i32) writes [info] through [ainv] of batch_size, info [];
    cublasStrsmBatched(side: i32, uplo: i32, trans: i32, diag: i32, m: i32, n: i32, alpha: u64, a: u64, lda: i32, b: u64, ldb: i32, batch_count: i32) writes [] through [b] of batch_count, info [];
    cublasTSSgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasTSTgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasZgelsBatched(trans: i32, m: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, carray: u64, ldc: i32, info: u64, dev_info_array: u64, batch_size: i32) writes [dev_info_array] through [aarray, carray] of batch_size, info [info];
    cublasZgemmBatched(transa: i32, transb: i32, m: i32, n: i32, k: i32, alpha: u64, aarray: u64, lda: i32, barray: u64, ldb: i32, beta: u64, carray: u64, ldc: i32, batch_count: i32) writes [] through [carray] of batch_count, info [] product Product::of(DOUBLE_COMPLEX, [m, n, k], batch_count);
    cublasZgemvBatched(trans: i32, m: i32, n: i32, alpha: u64, aarray: u64, lda: i32, xarray: u64, incx: i32, beta: u64, yarray: u64, incy: i32, batch_count: i32) writes [] through [yarray] of batch_count, info [];
    cublasZgeqrfBatched(m: i32, n: i32, aarray: u64, lda: i32, tau_array: u64, info: u64, batch_size: i32) writes [] through [aarray, tau_array] of batch_size, info [info];
    cublasZgetrfBatched(n: i32, a: u64, lda: i32, p: u64, info: u64, batch_size: i32) writes [p, info] through [a] of batch_size, info [];
    cublasZgetriBatched(n: i32, a: u64, lda: i32, p: u64, c: u64, ldc: i32, info: u64, batch_size: i32) writes [info] through [c] of batch_size, info [];
    cublasZgetrsBatched(trans: i32, n: i32, nrhs: i32, aarray: u64, lda: i32, dev_ipiv: u64, barray: u64, ldb: i32, info: u64, batch_size: i32) writes [] through [barray] of batch_size, info [info];
    cublasZmatinvBatched(n: i32, a: u64, lda: i32, ainv: u64, lda_inv: i32, info: u64, batch_size: i32) writes [info] through [ainv] of batch_size, info [];
    cublasZtrsmBatched(side: i32, uplo: i32, trans: i32, diag: i32, m: i32, n: i32, alpha: u64, a: u64, lda: i32, b: u64, ldb: i32, batch_count: i32) writes [] through [b] of batch_count, info [];
}
