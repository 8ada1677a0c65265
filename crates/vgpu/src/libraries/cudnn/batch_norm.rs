//! Batch normalization. Its scratch memory is taken as 0 and at most as large as its input; its reserve is 0.
//!
//! The reserve holds what a fused activation needs to remember, and PyTorch never fuses one; the persistent kernels
//! keep a few numbers per channel besides. Peaks measured for ResNet-50 on real cards leave room for 0.3 % at most, of
//! which the size of the input is a generous bound.

use super::CudnnStatus;
use super::handle::session_of;
use super::tensor::operand;
use crate::libraries::estimate::{Scratch, assume, foresee};
use crate::status::put;

macro_rules! sizes {
    ($($name:ident($($parameter:ident),*) at most [$($input:ident)?];)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: an estimate.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, mode: i32, operations: i32, $($parameter: u64,)* size: *mut usize,
        ) -> CudnnStatus {
            let _ = (mode, operations, $($parameter),*);
            assume(
                "the scratch memory of cuDNN batch normalization",
                "it is taken as 0, and at most as large as the input",
            );
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put(size, 0) };
            let session = session_of(handle);
            $(if let Ok(session) = session {
                let high = operand($input).bytes();
                foresee(session, Scratch { low: 0, likely: 0, high });
            })?
            match session {
                Err(error) => error,
                Ok(_) if size.is_null() => CudnnStatus::NULL_POINTER,
                Ok(_) => CudnnStatus::SUCCESS,
            }
        }
    )+ };
}

sizes! {
    cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(x, z, y, parameters, activation) at most [x];
    cudnnGetBatchNormalizationBackwardExWorkspaceSize(x, y, dy, dz, dx, parameters, activation) at most [x];
    cudnnGetBatchNormalizationTrainingExReserveSpaceSize(activation, x) at most [];
}

operations! {
    cudnnBatchNormalizationForwardInference(mode: i32, alpha: u64, beta: u64, x_layout: u64, x: u64, y_layout: u64, y: u64, parameters: u64, scale: u64, bias: u64, mean: u64, variance: u64, epsilon: f64)
        writes [y] scratch [];
    cudnnBatchNormalizationForwardTrainingEx(mode: i32, kinds: i32, alpha: u64, beta: u64, x_layout: u64, x: u64, z_layout: u64, z: u64, y_layout: u64, y: u64, parameters: u64, scale: u64, bias: u64, factor: f64, running_mean: u64, running_variance: u64, epsilon: f64, saved_mean: u64, saved_inverse: u64, activation: u64, workspace: u64, workspace_bytes: usize, reserve: u64, reserve_bytes: usize)
        writes [y, running_mean, running_variance, saved_mean, saved_inverse, reserve] scratch [workspace];
    cudnnBatchNormalizationBackwardEx(mode: i32, kinds: i32, alpha_data: u64, beta_data: u64, alpha_parameters: u64, beta_parameters: u64, x_layout: u64, x: u64, y_layout: u64, y: u64, dy_layout: u64, dy: u64, dz_layout: u64, dz: u64, dx_layout: u64, dx: u64, parameters: u64, scale: u64, bias: u64, d_scale: u64, d_bias: u64, epsilon: f64, saved_mean: u64, saved_inverse: u64, activation: u64, workspace: u64, workspace_bytes: usize, reserve: u64, reserve_bytes: usize)
        writes [dz, dx, d_scale, d_bias] scratch [workspace];
}
