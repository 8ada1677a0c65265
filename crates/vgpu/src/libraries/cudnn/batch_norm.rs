//! Batch normalization. Its scratch and reserve memory are taken as 0.
//!
//! The reserve holds what a fused activation needs to remember, and PyTorch never fuses one; the persistent kernels
//! keep a few numbers per channel besides. Peaks measured for ResNet-50 on real cards leave room for 0.3 % at most.

use super::CudnnStatus;
use super::handle::session_of;
use crate::libraries::estimate::assume;
use crate::status::put;

macro_rules! sizes {
    ($($name:ident($($parameter:ident),*);)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: an estimate.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, mode: i32, operations: i32, $($parameter: u64,)* size: *mut usize,
        ) -> CudnnStatus {
            let _ = (mode, operations, $($parameter),*);
            assume("the scratch and reserve memory of cuDNN batch normalization", "it is taken as 0");
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put(size, 0) };
            match session_of(handle) {
                Err(error) => error,
                Ok(_) if size.is_null() => CudnnStatus::NULL_POINTER,
                Ok(_) => CudnnStatus::SUCCESS,
            }
        }
    )+ };
}

sizes! {
    cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(x, z, y, parameters, activation);
    cudnnGetBatchNormalizationBackwardExWorkspaceSize(x, y, dy, dz, dx, parameters, activation);
    cudnnGetBatchNormalizationTrainingExReserveSpaceSize(activation, x);
}

operations! {
    cudnnBatchNormalizationForwardInference(mode: i32, alpha: u64, beta: u64, x_layout: u64, x: u64, y_layout: u64, y: u64, parameters: u64, scale: u64, bias: u64, mean: u64, variance: u64, epsilon: f64)
        writes [y] scratch [];
    cudnnBatchNormalizationForwardTrainingEx(mode: i32, kinds: i32, alpha: u64, beta: u64, x_layout: u64, x: u64, z_layout: u64, z: u64, y_layout: u64, y: u64, parameters: u64, scale: u64, bias: u64, factor: f64, running_mean: u64, running_variance: u64, epsilon: f64, saved_mean: u64, saved_inverse: u64, activation: u64, workspace: u64, workspace_bytes: usize, reserve: u64, reserve_bytes: usize)
        writes [y, running_mean, running_variance, saved_mean, saved_inverse, reserve] scratch [workspace];
    cudnnBatchNormalizationBackwardEx(mode: i32, kinds: i32, alpha_data: u64, beta_data: u64, alpha_parameters: u64, beta_parameters: u64, x_layout: u64, x: u64, y_layout: u64, y: u64, dy_layout: u64, dy: u64, dz_layout: u64, dz: u64, dx_layout: u64, dx: u64, parameters: u64, scale: u64, bias: u64, d_scale: u64, d_bias: u64, epsilon: f64, saved_mean: u64, saved_inverse: u64, activation: u64, workspace: u64, workspace_bytes: usize, reserve: u64, reserve_bytes: usize)
        writes [dz, dx, d_scale, d_bias] scratch [workspace];
}
