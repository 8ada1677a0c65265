//! Pooling, which PyTorch asks cuDNN for only with quantized tensors.

use super::CudnnStatus;
use super::object::change;

/// Window, padding and stride of pooling in two dimensions.
#[derive(Debug, Default)]
struct Pooling {
    mode: i32,
    nan: i32,
    window: [i32; 2],
    padding: [i32; 2],
    stride: [i32; 2],
}

object!(Pooling, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor);

/// Sets how to pool.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetPooling2dDescriptor(
    pooling: u64,
    mode: i32,
    nan: i32,
    window_height: i32,
    window_width: i32,
    vertical_padding: i32,
    horizontal_padding: i32,
    vertical_stride: i32,
    horizontal_stride: i32,
) -> CudnnStatus {
    change(pooling, |kept: &mut Pooling| {
        *kept = Pooling {
            mode,
            nan,
            window: [window_height, window_width],
            padding: [vertical_padding, horizontal_padding],
            stride: [vertical_stride, horizontal_stride],
        };
    })
}

operations! {
    cudnnPoolingForward(pooling: u64, alpha: u64, x_layout: u64, x: u64, beta: u64, y_layout: u64, y: u64)
        writes [y] scratch [];
}
