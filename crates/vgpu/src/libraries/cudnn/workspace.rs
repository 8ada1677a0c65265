//! Scratch sizes that cuDNN chooses. Each is an estimate: the library's own choice depends on the kernel it picks.

use crate::libraries::estimate::assume;

/// What an execution plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A convolution, in any direction.
    Convolution,
    /// Any other graph; attention and norms are the ones PyTorch builds.
    Other,
}

/// Scratch memory of one plan.
///
/// It is the lower end: 0. Many engines need none, and when PyTorch has no room for a workspace it takes one of those,
/// so a run is never refused for want of it; engines that transform the layout or split the reduction use up to
/// several copies of the input or the filter. For ResNet-50 the peak measured on real cards lies 0.1 to 0.3 % above
/// the one with 0. Attention needs what the graph itself names, which the caller adds on its own.
pub(super) fn workspace_bytes(work: Work) -> u64 {
    if work == Work::Convolution {
        assume(
            "the scratch memory of cuDNN convolutions",
            "it is taken as 0, and engines that need some take up to a few copies of their input",
        );
    }
    match work {
        Work::Convolution | Work::Other => 0,
    }
}
