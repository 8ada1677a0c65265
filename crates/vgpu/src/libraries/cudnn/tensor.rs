//! Descriptors of tensors and filters: what is set is what is asked for.

use super::CudnnStatus;
use super::object::{change, integers, look, put_integers};
use super::workspace::Operand;
use crate::status::put;

/// Layout of a tensor.
#[derive(Clone, Debug, Default)]
pub(super) struct Tensor {
    pub(super) data_type: i32,
    pub(super) dimensions: Vec<i32>,
    strides: Vec<i32>,
}

impl Tensor {
    /// A packed tensor.
    pub(super) fn packed(data_type: i32, dimensions: Vec<i32>) -> Self {
        let mut strides = vec![1i32; dimensions.len()];
        for index in (1..dimensions.len()).rev() {
            strides[index - 1] = strides[index].saturating_mul(dimensions[index]);
        }
        Self {
            data_type,
            dimensions,
            strides,
        }
    }
}

/// Layout of a filter.
#[derive(Clone, Debug, Default)]
struct Filter {
    data_type: i32,
    format: i32,
    dimensions: Vec<i32>,
}

/// The sizes of a tensor or filter, for estimates; none where there is no such descriptor.
pub(super) fn operand(layout: u64) -> Operand {
    let wide = |numbers: &[i32]| numbers.iter().copied().map(i64::from).collect::<Vec<i64>>();
    let tensor = look(layout, |tensor: &mut Tensor| {
        Operand::new(
            tensor.data_type,
            &wide(&tensor.dimensions),
            &wide(&tensor.strides),
        )
    });
    let filter = |_| {
        look(layout, |filter: &mut Filter| {
            Operand::new(filter.data_type, &wide(&filter.dimensions), &[])
        })
    };
    tensor.or_else(filter).unwrap_or_default()
}

object!(
    Tensor,
    cudnnCreateTensorDescriptor,
    cudnnDestroyTensorDescriptor
);
object!(
    Filter,
    cudnnCreateFilterDescriptor,
    cudnnDestroyFilterDescriptor
);

/// Bytes of an element of a `cudnnDataType_t`.
pub(super) fn element_bytes(data_type: i32) -> u64 {
    match data_type {
        1 | 10 => 8,               // double, 64-bit integer
        2 | 9 => 2,                // half, bfloat16
        3 | 6 | 11 | 12 | 13 => 1, // bytes, booleans, 8-bit floats
        8 => 32,                   // vector of 32 bytes
        _ => 4,
    }
}

/// Sets the layout of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    tensor: u64,
    data_type: i32,
    count: i32,
    dimensions: *const i32,
    strides: *const i32,
) -> CudnnStatus {
    // SAFETY: the caller passes `count` integers in each array or null.
    let arrays = unsafe { (integers(dimensions, count), integers(strides, count)) };
    let (Some(dimensions), Some(strides)) = arrays else {
        return CudnnStatus::BAD_PARAM;
    };
    change(tensor, |tensor: &mut Tensor| {
        *tensor = Tensor {
            data_type,
            dimensions,
            strides,
        }
    })
}

/// The layout of a tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    tensor: u64,
    requested: i32,
    data_type: *mut i32,
    count: *mut i32,
    dimensions: *mut i32,
    strides: *mut i32,
) -> CudnnStatus {
    let kept = look(tensor, |tensor: &mut Tensor| tensor.clone());
    let tensor = kept.clone().unwrap_or_default();
    // SAFETY: the caller passes places for numbers and room for `requested` integers, or null.
    unsafe {
        put(data_type, tensor.data_type);
        put(count, tensor.dimensions.len() as i32);
        put_integers(dimensions, requested, &tensor.dimensions);
        put_integers(strides, requested, &tensor.strides);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// Sets the layout of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetFilterNdDescriptor(
    filter: u64,
    data_type: i32,
    format: i32,
    count: i32,
    dimensions: *const i32,
) -> CudnnStatus {
    // SAFETY: the caller passes `count` integers or null.
    let Some(dimensions) = (unsafe { integers(dimensions, count) }) else {
        return CudnnStatus::BAD_PARAM;
    };
    change(filter, |filter: &mut Filter| {
        *filter = Filter {
            data_type,
            format,
            dimensions,
        }
    })
}

/// The layout of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetFilterNdDescriptor(
    filter: u64,
    requested: i32,
    data_type: *mut i32,
    format: *mut i32,
    count: *mut i32,
    dimensions: *mut i32,
) -> CudnnStatus {
    let kept = look(filter, |filter: &mut Filter| filter.clone());
    let filter = kept.clone().unwrap_or_default();
    // SAFETY: the caller passes places for numbers and room for `requested` integers, or null.
    unsafe {
        put(data_type, filter.data_type);
        put(format, filter.format);
        put(count, filter.dimensions.len() as i32);
        put_integers(dimensions, requested, &filter.dimensions);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}
