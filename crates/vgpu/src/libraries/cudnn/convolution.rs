//! The older interface to convolutions, which PyTorch takes when the backend's is switched off.
//!
//! One algorithm is offered for each direction, the one that the backend recommends.

use super::CudnnStatus;
use super::handle::session_of;
use super::object::{change, integers, look, put_integers};
use super::tensor::operand;
use super::workspace::{Convolution as Sizes, Engine, Result as Wanted, convolution_scratch};
use crate::clock::{Cost, Format};
use crate::libraries::estimate::{Scratch, foresee};
use crate::status::put;

/// How to convolve.
#[derive(Clone, Debug, Default)]
struct Convolution {
    pads: Vec<i32>,
    strides: Vec<i32>,
    dilations: Vec<i32>,
    mode: i32,
    compute_type: i32,
    groups: i32,
    math: i32,
}

/// What an activation is.
#[derive(Clone, Copy, Debug, Default)]
struct Activation {
    mode: i32,
    nan: i32,
    coefficient: f64,
}

object!(
    Convolution,
    cudnnCreateConvolutionDescriptor,
    cudnnDestroyConvolutionDescriptor
);
object!(
    Activation,
    cudnnCreateActivationDescriptor,
    cudnnDestroyActivationDescriptor
);

/// Sets how to convolve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnSetConvolutionNdDescriptor(
    convolution: u64,
    count: i32,
    pads: *const i32,
    strides: *const i32,
    dilations: *const i32,
    mode: i32,
    compute_type: i32,
) -> CudnnStatus {
    // SAFETY: the caller passes `count` integers in each array or null.
    let arrays = unsafe {
        (
            integers(pads, count),
            integers(strides, count),
            integers(dilations, count),
        )
    };
    let (Some(pads), Some(strides), Some(dilations)) = arrays else {
        return CudnnStatus::BAD_PARAM;
    };
    change(convolution, |kept: &mut Convolution| {
        *kept = Convolution {
            pads,
            strides,
            dilations,
            mode,
            compute_type,
            groups: 1,
            math: 0,
        };
    })
}

/// Sets the number of groups.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetConvolutionGroupCount(convolution: u64, groups: i32) -> CudnnStatus {
    change(convolution, |kept: &mut Convolution| kept.groups = groups)
}

/// Chooses the arithmetic.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetConvolutionMathType(convolution: u64, math: i32) -> CudnnStatus {
    change(convolution, |kept: &mut Convolution| kept.math = math)
}

/// Sets what an activation is.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetActivationDescriptor(
    activation: u64,
    mode: i32,
    nan: i32,
    coefficient: f64,
) -> CudnnStatus {
    change(activation, |kept: &mut Activation| {
        *kept = Activation {
            mode,
            nan,
            coefficient,
        }
    })
}

/// How to convolve, as it was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionNdDescriptor(
    convolution: u64,
    requested: i32,
    count: *mut i32,
    pads: *mut i32,
    strides: *mut i32,
    dilations: *mut i32,
    mode: *mut i32,
    compute_type: *mut i32,
) -> CudnnStatus {
    let kept = look(convolution, |kept: &mut Convolution| kept.clone());
    let found = kept.clone().unwrap_or_default();
    // SAFETY: the caller passes places for numbers and room for `requested` integers, or null.
    unsafe {
        put(count, found.pads.len() as i32);
        put_integers(pads, requested, &found.pads);
        put_integers(strides, requested, &found.strides);
        put_integers(dilations, requested, &found.dilations);
        put(mode, found.mode);
        put(compute_type, found.compute_type);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// The number of groups.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionGroupCount(
    convolution: u64,
    groups: *mut i32,
) -> CudnnStatus {
    let kept = look(convolution, |kept: &mut Convolution| kept.groups);
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(groups, kept.unwrap_or(0)) };
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// The arithmetic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetConvolutionMathType(
    convolution: u64,
    math: *mut i32,
) -> CudnnStatus {
    let kept = look(convolution, |kept: &mut Convolution| kept.math);
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(math, kept.unwrap_or(0)) };
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// What an activation is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetActivationDescriptor(
    activation: u64,
    mode: *mut i32,
    nan: *mut i32,
    coefficient: *mut f64,
) -> CudnnStatus {
    let kept = look(activation, |kept: &mut Activation| *kept);
    let found = kept.unwrap_or_default();
    // SAFETY: the caller passes places for numbers or null.
    unsafe {
        put(mode, found.mode);
        put(nan, found.nan);
        put(coefficient, found.coefficient);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// `cudnnConvolutionFwdAlgoPerf_t`, which is the same in all directions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AlgorithmPerformance {
    algorithm: i32,
    status: CudnnStatus,
    milliseconds: f32,
    workspace_bytes: usize,
    deterministic: i32,
    math: i32,
    reserved: [i32; 3],
}

const FOUND: AlgorithmPerformance = AlgorithmPerformance {
    algorithm: 1,
    status: CudnnStatus::SUCCESS,
    milliseconds: 1.0,
    workspace_bytes: 0,
    deterministic: 1,
    math: 0,
    reserved: [0; 3],
};

/// The scratch memory of a convolution by the layouts of image, filter and output.
fn scratch(layouts: [u64; 3], result: Wanted) -> Scratch {
    let [image, filter, output] = layouts.map(operand);
    let sizes = Sizes {
        image,
        filter,
        output,
        result,
    };
    convolution_scratch(&sizes, Engine::Recommended)
}

/// What a convolution asks of the device, by the layouts of image, filter and output.
fn cost(layouts: [u64; 3], convolution: u64) -> Cost {
    /// `CUDNN_FMA_MATH`.
    const NO_TENSOR_CORES: i32 = 3;
    let [image, filter, output] = layouts.map(operand);
    let math = look(convolution, |kept: &mut Convolution| kept.math);
    let singles = if math == Ok(NO_TENSOR_CORES) {
        Format::Single
    } else {
        Format::Rounded
    };
    let sizes = Sizes {
        image,
        filter,
        output,
        result: Wanted::Output,
    };
    sizes.cost(singles)
}

/// # Safety
/// `returned` must be null or valid for writing, `results` null or valid for writing `requested` results.
unsafe fn offer(
    handle: u64,
    requested: i32,
    returned: *mut i32,
    results: *mut AlgorithmPerformance,
    scratch: Scratch,
) -> CudnnStatus {
    let status = match session_of(handle) {
        Err(error) => error,
        Ok(_) if returned.is_null() || results.is_null() => CudnnStatus::NULL_POINTER,
        Ok(_) if requested < 1 => CudnnStatus::BAD_PARAM,
        Ok(_) => CudnnStatus::SUCCESS,
    };
    // SAFETY: promised by the caller.
    unsafe { put(returned, i32::from(status.is_success())) };
    if requested > 0 {
        let workspace_bytes = scratch.likely as usize;
        // SAFETY: there is room for at least one result.
        unsafe {
            put(
                results,
                AlgorithmPerformance {
                    status,
                    workspace_bytes,
                    ..FOUND
                },
            );
        }
    }
    status
}

/// Functions that list algorithms; the measuring ones also write the output.
macro_rules! searches {
    ($($name:ident($($parameter:ident),*) finds $wanted:ident of [$($layout:ident),*]
        writes [$($output:ident),*] then [$($after:ident),*];)+) => { $(
        #[doc = concat!("`", stringify!($name), "` offers one algorithm.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $($parameter: u64,)*
            requested: i32, returned: *mut i32, results: *mut AlgorithmPerformance $(, $after: u64)*
        ) -> CudnnStatus {
            let _ = ($($parameter,)* $($after,)*);
            let scratch = scratch([$($layout),*], Wanted::$wanted);
            // SAFETY: the caller passes a place for a number and room for `requested` results.
            let status = unsafe { offer(handle, requested, returned, results, scratch) };
            if let Ok(session) = session_of(handle) {
                session.library_wrote(stringify!($name), &[$($output),*]);
            }
            status
        }
    )+ };
}

searches! {
    cudnnGetConvolutionForwardAlgorithm_v7(x_layout, w_layout, convolution, y_layout) finds Output of [x_layout, w_layout, y_layout] writes [] then [];
    cudnnGetConvolutionBackwardDataAlgorithm_v7(w_layout, dy_layout, convolution, dx_layout) finds Input of [dx_layout, w_layout, dy_layout] writes [] then [];
    cudnnGetConvolutionBackwardFilterAlgorithm_v7(x_layout, dy_layout, convolution, dw_layout) finds Filter of [x_layout, dw_layout, dy_layout] writes [] then [];
    cudnnFindConvolutionForwardAlgorithmEx(x_layout, x, w_layout, w, convolution, y_layout, y) finds Output of [x_layout, w_layout, y_layout] writes [y] then [workspace, workspace_bytes];
    cudnnFindConvolutionBackwardDataAlgorithmEx(w_layout, w, dy_layout, dy, convolution, dx_layout, dx) finds Input of [dx_layout, w_layout, dy_layout] writes [dx] then [workspace, workspace_bytes];
    cudnnFindConvolutionBackwardFilterAlgorithmEx(x_layout, x, dy_layout, dy, convolution, dw_layout, dw) finds Filter of [x_layout, dw_layout, dy_layout] writes [dw] then [workspace, workspace_bytes];
}

macro_rules! workspace_sizes {
    ($($name:ident($first:ident, $second:ident, $third:ident) finds $wanted:ident of [$($layout:ident),*];)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: an estimate.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: u64, $first: u64, $second: u64, convolution: u64, $third: u64, algorithm: i32, size: *mut usize,
        ) -> CudnnStatus {
            let _ = (convolution, algorithm);
            let scratch = scratch([$($layout),*], Wanted::$wanted);
            let session = session_of(handle);
            if let Ok(session) = session {
                foresee(session, scratch);
            }
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put(size, scratch.likely as usize) };
            match session {
                Err(error) => error,
                Ok(_) if size.is_null() => CudnnStatus::NULL_POINTER,
                Ok(_) => CudnnStatus::SUCCESS,
            }
        }
    )+ };
}

workspace_sizes! {
    cudnnGetConvolutionForwardWorkspaceSize(x, w, y) finds Output of [x, w, y];
    cudnnGetConvolutionBackwardDataWorkspaceSize(w, dy, dx) finds Input of [dx, w, dy];
    cudnnGetConvolutionBackwardFilterWorkspaceSize(x, dy, dw) finds Filter of [x, dw, dy];
}

operations! {
    cudnnConvolutionForward(alpha: u64, x_layout: u64, x: u64, w_layout: u64, w: u64, convolution: u64, algorithm: i32, workspace: u64, workspace_bytes: usize, beta: u64, y_layout: u64, y: u64)
        writes [y] scratch [workspace] cost cost([x_layout, w_layout, y_layout], convolution);
    cudnnConvolutionBackwardData(alpha: u64, w_layout: u64, w: u64, dy_layout: u64, dy: u64, convolution: u64, algorithm: i32, workspace: u64, workspace_bytes: usize, beta: u64, dx_layout: u64, dx: u64)
        writes [dx] scratch [workspace] cost cost([dx_layout, w_layout, dy_layout], convolution);
    cudnnConvolutionBackwardFilter(alpha: u64, x_layout: u64, x: u64, dy_layout: u64, dy: u64, convolution: u64, algorithm: i32, workspace: u64, workspace_bytes: usize, beta: u64, dw_layout: u64, dw: u64)
        writes [dw] scratch [workspace] cost cost([x_layout, dw_layout, dy_layout], convolution);
    cudnnConvolutionBiasActivationForward(alpha1: u64, x_layout: u64, x: u64, w_layout: u64, w: u64, convolution: u64, algorithm: i32, workspace: u64, workspace_bytes: usize, alpha2: u64, z_layout: u64, z: u64, bias_layout: u64, bias: u64, activation: u64, y_layout: u64, y: u64)
        writes [y] scratch [workspace] cost cost([x_layout, w_layout, y_layout], convolution);
}
