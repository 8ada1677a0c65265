//! Reductions to one number, which goes to the device or, by the pointer mode, straight to the host.
//!
//! A number on the host is a read of unknown memory: it gets a stated default (0, and 1 for an index, which counts
//! from 1) and is reported.

use oomproof_profile::Basis;

use super::CublasStatus;
use super::handle::Handle;
use crate::kernels::Read;
use crate::session::session;

/// Type of a result.
#[derive(Clone, Copy, Debug)]
enum Scalar {
    Half,
    Single,
    Double,
    ComplexSingle,
    ComplexDouble,
    Index,
}

impl Scalar {
    /// The type with this `cudaDataType`.
    fn of(data_type: i32) -> Option<Self> {
        match data_type {
            0 => Some(Self::Single),
            1 => Some(Self::Double),
            2 | 14 => Some(Self::Half),
            4 => Some(Self::ComplexSingle),
            5 => Some(Self::ComplexDouble),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single | Self::Index => 4,
            Self::Double | Self::ComplexSingle => 8,
            Self::ComplexDouble => 16,
        }
    }

    /// What the host is given.
    fn assumed(self) -> u64 {
        match self {
            Self::Index => 1,
            _ => 0,
        }
    }
}

/// # Safety
/// `result` must be null or, when the pointer mode of `handle` is the host's, valid for writing the scalar.
unsafe fn reduce(handle: u64, name: &str, result: u64, scalar: Option<Scalar>) -> CublasStatus {
    let Some(session) = session() else {
        return CublasStatus::NOT_INITIALIZED;
    };
    let Some(on_device) = session
        .handles::<Handle>()
        .with(handle, |handle| handle.device_results)
    else {
        return CublasStatus::NOT_INITIALIZED;
    };
    let Some(scalar) = scalar else {
        return CublasStatus::NOT_SUPPORTED;
    };
    if result == 0 {
        return CublasStatus::INVALID_VALUE;
    }
    if on_device {
        session.library_wrote(name, &[result]);
        return CublasStatus::SUCCESS;
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&scalar.assumed().to_ne_bytes());
    // SAFETY: in this pointer mode the caller passes a place on the host for the result.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), result as *mut u8, scalar.size()) };
    session.unknown_read(
        result,
        scalar.size() as u64,
        scalar.assumed(),
        Read::by_library(session.text(name)),
        Basis::Number,
    );
    CublasStatus::SUCCESS
}

macro_rules! reductions {
    ($($name:ident($($parameter:ident: $type:ty),*) gives [$result:ident] of $scalar:expr;)+) => { $(
        #[doc = concat!("`", stringify!($name), "` is accepted; its result is unknown.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: u64, $($parameter: $type),*) -> CublasStatus {
            let _ = ($($parameter,)*);
            // SAFETY: `result` is what cuBLAS asks for, a scalar where the pointer mode says.
            unsafe { reduce(handle, stringify!($name), $result, $scalar) }
        }
    )+ };
}

reductions! {
    cublasCdotc_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::ComplexSingle);
    cublasCdotu_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::ComplexSingle);
    cublasDasum_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Double);
    cublasDdot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::Double);
    cublasDnrm2_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Double);
    cublasDotEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32, result: u64, result_type: i32, execution_type: i32) gives [result] of Scalar::of(result_type);
    cublasDotcEx(n: i32, x: u64, x_type: i32, incx: i32, y: u64, y_type: i32, incy: i32, result: u64, result_type: i32, execution_type: i32) gives [result] of Scalar::of(result_type);
    cublasDzasum_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Double);
    cublasDznrm2_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Double);
    cublasIamaxEx(n: i32, x: u64, x_type: i32, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIaminEx(n: i32, x: u64, x_type: i32, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIcamax_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIcamin_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIdamax_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIdamin_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIsamax_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIsamin_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIzamax_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasIzamin_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Index);
    cublasSasum_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Single);
    cublasScasum_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Single);
    cublasScnrm2_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Single);
    cublasSdot_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::Single);
    cublasSnrm2_v2(n: i32, x: u64, incx: i32, result: u64) gives [result] of Some(Scalar::Single);
    cublasZdotc_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::ComplexDouble);
    cublasZdotu_v2(n: i32, x: u64, incx: i32, y: u64, incy: i32, result: u64) gives [result] of Some(Scalar::ComplexDouble);
}
