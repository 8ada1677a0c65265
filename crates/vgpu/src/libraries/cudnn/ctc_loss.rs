//! CTC loss. Its scratch memory is an estimate: forward and backward variables for each time and extended label.

use super::CudnnStatus;
use super::handle::session_of;
use super::object::{change, look};
use super::tensor::Tensor;
use crate::libraries::estimate::assume;
use crate::status::put;

/// How the loss is computed.
#[derive(Clone, Copy, Debug, Default)]
struct CtcLoss {
    compute_type: i32,
    normalization: i32,
    gradient: i32,
    longest_label: i32,
}

object!(
    CtcLoss,
    cudnnCreateCTCLossDescriptor,
    cudnnDestroyCTCLossDescriptor
);

/// Sets how the loss is computed.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetCTCLossDescriptorEx(
    loss: u64,
    compute_type: i32,
    normalization: i32,
    gradient: i32,
) -> CudnnStatus {
    change(loss, |kept: &mut CtcLoss| {
        *kept = CtcLoss {
            compute_type,
            normalization,
            gradient,
            longest_label: 0,
        }
    })
}

/// Sets how the loss is computed and how long labels are.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetCTCLossDescriptor_v9(
    loss: u64,
    compute_type: i32,
    normalization: i32,
    gradient: i32,
    longest_label: i32,
) -> CudnnStatus {
    change(loss, |kept: &mut CtcLoss| {
        *kept = CtcLoss {
            compute_type,
            normalization,
            gradient,
            longest_label,
        }
    })
}

/// How the loss is computed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossDescriptor_v9(
    loss: u64,
    compute_type: *mut i32,
    normalization: *mut i32,
    gradient: *mut i32,
    longest_label: *mut i32,
) -> CudnnStatus {
    let kept = look(loss, |kept: &mut CtcLoss| *kept);
    let found = kept.unwrap_or_default();
    // SAFETY: the caller passes places for numbers or null.
    unsafe {
        put(compute_type, found.compute_type);
        put(normalization, found.normalization);
        put(gradient, found.gradient);
        put(longest_label, found.longest_label);
    }
    kept.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// Scratch memory: two 32-bit variables for each time, sequence and extended label (a blank around every letter).
///
/// cuDNN's own size is not known; it differs by padding and by what the algorithm keeps besides.
fn scratch_bytes(times: i32, sequences: i32, longest_label: i32) -> usize {
    let [times, sequences, label] =
        [times, sequences, longest_label].map(|number| usize::try_from(number).unwrap_or(0));
    2 * 4 * times * sequences * (2 * label + 1)
}

/// # Safety
/// `size` must be null or valid for writing.
unsafe fn put_scratch(
    handle: u64,
    probabilities: u64,
    longest_label: Option<i32>,
    size: *mut usize,
) -> CudnnStatus {
    let dimensions = session_of(handle).and_then(|_| {
        look(probabilities, |tensor: &mut Tensor| {
            tensor.dimensions.clone()
        })
    });
    let bytes = dimensions
        .as_ref()
        .ok()
        .zip(longest_label)
        .map(|(dimensions, label)| {
            let dimension = |index| dimensions.get(index).copied().unwrap_or(0);
            scratch_bytes(dimension(0), dimension(1), label)
        });
    assume(
        "the scratch memory of the CTC loss",
        "two numbers for each time and extended label",
    );
    // SAFETY: promised by the caller.
    unsafe { put(size, bytes.unwrap_or(0)) };
    match (dimensions, bytes) {
        (Err(error), _) => error,
        (Ok(_), None) => CudnnStatus::BAD_PARAM,
        (Ok(_), Some(_)) if size.is_null() => CudnnStatus::NULL_POINTER,
        (Ok(_), Some(_)) => CudnnStatus::SUCCESS,
    }
}

/// Scratch memory by the labels, which lie on the host: an estimate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize(
    handle: u64,
    probabilities: u64,
    gradients: u64,
    labels: *const i32,
    label_lengths: *const i32,
    input_lengths: *const i32,
    algorithm: i32,
    loss: u64,
    size: *mut usize,
) -> CudnnStatus {
    let _ = (gradients, labels, input_lengths, algorithm, loss);
    let sequences = look(probabilities, |tensor: &mut Tensor| {
        tensor.dimensions.get(1).copied().unwrap_or(0)
    })
    .unwrap_or(0);
    let lengths = 0..usize::try_from(sequences).unwrap_or(0);
    let longest = (!label_lengths.is_null()).then(|| {
        lengths
            // SAFETY: not null, and the caller passes a length for each sequence.
            .map(|index| unsafe { label_lengths.add(index).read_unaligned() })
            .max()
            .unwrap_or(0)
    });
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put_scratch(handle, probabilities, longest, size) }
}

/// Scratch memory by the longest label of the description: an estimate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize_v8(
    handle: u64,
    algorithm: i32,
    loss: u64,
    probabilities: u64,
    gradients: u64,
    size: *mut usize,
) -> CudnnStatus {
    let _ = (algorithm, gradients);
    let longest = look(loss, |loss: &mut CtcLoss| loss.longest_label).ok();
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put_scratch(handle, probabilities, longest, size) }
}

operations! {
    cudnnCTCLoss(probabilities_layout: u64, probabilities: u64, labels: u64, label_lengths: u64, input_lengths: u64, costs: u64, gradients_layout: u64, gradients: u64, algorithm: i32, loss: u64, workspace: u64, workspace_bytes: usize)
        writes [costs, gradients] scratch [workspace];
    cudnnCTCLoss_v8(algorithm: i32, loss: u64, probabilities_layout: u64, probabilities: u64, labels: u64, label_lengths: u64, input_lengths: u64, costs: u64, gradients_layout: u64, gradients: u64, workspace_bytes: usize, workspace: u64)
        writes [costs, gradients] scratch [workspace];
}
