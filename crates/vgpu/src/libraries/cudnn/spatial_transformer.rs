//! Spatial transformers: grids and samplers, which need no scratch memory.

use super::CudnnStatus;
use super::object::{change, integers};

/// What is sampled and how, which nothing here depends on and nobody can ask for.
#[derive(Debug, Default)]
struct SpatialTransformer;

object!(
    SpatialTransformer,
    cudnnCreateSpatialTransformerDescriptor,
    cudnnDestroySpatialTransformerDescriptor
);

/// Sets what is sampled and how.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetSpatialTransformerNdDescriptor(
    transformer: u64,
    sampler: i32,
    data_type: i32,
    count: i32,
    dimensions: *const i32,
) -> CudnnStatus {
    // SAFETY: the caller passes `count` integers or null.
    if unsafe { integers(dimensions, count) }.is_none() {
        return CudnnStatus::BAD_PARAM;
    }
    let _ = (sampler, data_type);
    change(transformer, |_: &mut SpatialTransformer| ())
}

operations! {
    cudnnSpatialTfGridGeneratorForward(transformer: u64, theta: u64, grid: u64) writes [grid] scratch [];
    cudnnSpatialTfGridGeneratorBackward(transformer: u64, d_grid: u64, d_theta: u64) writes [d_theta] scratch [];
    cudnnSpatialTfSamplerForward(transformer: u64, alpha: u64, x_layout: u64, x: u64, grid: u64, beta: u64, y_layout: u64, y: u64)
        writes [y] scratch [];
    cudnnSpatialTfSamplerBackward(transformer: u64, alpha: u64, x_layout: u64, x: u64, beta: u64, dx_layout: u64, dx: u64, alpha_grid: u64, dy_layout: u64, dy: u64, grid: u64, beta_grid: u64, d_grid: u64)
        writes [dx, d_grid] scratch [];
}
