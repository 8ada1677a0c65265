//! Pooling, which PyTorch asks cuDNN for only with quantized tensors.

use super::CudnnStatus;
use super::object::{change, look};
use crate::status::put;

/// Window, padding and stride of pooling in two dimensions.
#[derive(Clone, Copy, Debug, Default)]
struct Pooling {
    mode: i32,
    nan: i32,
    window: [i32; 2],
    padding: [i32; 2],
    stride: [i32; 2],
}

object!(
    Pooling,
    cudnnCreatePoolingDescriptor,
    cudnnDestroyPoolingDescriptor
);

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

/// How to pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetPooling2dDescriptor(
    pooling: u64,
    mode: *mut i32,
    nan: *mut i32,
    window_height: *mut i32,
    window_width: *mut i32,
    vertical_padding: *mut i32,
    horizontal_padding: *mut i32,
    vertical_stride: *mut i32,
    horizontal_stride: *mut i32,
) -> CudnnStatus {
    let kept = look(pooling, |kept: &mut Pooling| *kept);
    let found = kept.unwrap_or_default();
    let numbers = [
        [found.mode, found.nan],
        found.window,
        found.padding,
        found.stride,
    ];
    let places = [
        [mode, nan],
        [window_height, window_width],
        [vertical_padding, horizontal_padding],
        [vertical_stride, horizontal_stride],
    ];
    for (place, number) in places
        .into_iter()
        .flatten()
        .zip(numbers.into_iter().flatten())
    {
        // SAFETY: the caller passes places for numbers or null.
        unsafe { put(place, number) };
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

operations! {
    cudnnPoolingForward(pooling: u64, alpha: u64, x_layout: u64, x: u64, beta: u64, y_layout: u64, y: u64)
        writes [y] scratch [];
}
