//! Vectors in, vectors out. Scalars and addresses are not looked at, so their types are those of the ABI.

launches! {
    cublasAxpyEx(n: i32, alpha: u64, alpha_type: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32, executiontype: i32) writes [y];
    cublasCaxpy_v2(n: i32, alpha: u64, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasCcopy_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasCopyEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32) writes [y];
    cublasCrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasCscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasCsrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasCsscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasCswap_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [x, y];
    cublasDaxpy_v2(n: i32, alpha: u64, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasDcopy_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasDrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasDrotm_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, param: u64) writes [x, y];
    cublasDscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasDswap_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [x, y];
    cublasRotEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32, c: u64, s: u64, cs_type: i32, executiontype: i32) writes [x, y];
    cublasRotmEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32, param: u64, param_type: i32, executiontype: i32) writes [x, y];
    cublasSaxpy_v2(n: i32, alpha: u64, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasScalEx(n: i32, alpha: u64, alpha_type: i32, x: u64, x_type: i32, incx: i32, execution_type: i32) writes [x];
    cublasScopy_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasSrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasSrotm_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, param: u64) writes [x, y];
    cublasSscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasSswap_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [x, y];
    cublasSwapEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32) writes [x, y];
    cublasZaxpy_v2(n: i32, alpha: u64, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasZcopy_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [y];
    cublasZdrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasZdscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasZrot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, c: u64, s: u64) writes [x, y];
    cublasZscal_v2(n: i32, alpha: u64, x: u64, incx: i32) writes [x];
    cublasZswap_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32) writes [x, y];
}
