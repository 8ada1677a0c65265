//! cuDNN's work spaces: large for some shapes, several tried in benchmark mode.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Cudnn,
    title: "cuDNN found no room",
    meaning: "cuDNN could not create its handle or found no algorithm whose work space fits; benchmark mode tries the large ones.",
    apart: "The text is cuDNN's, or a convolution asks for far more than its output; it passes with `torch.backends.cudnn.benchmark = False`.",
    check: "nvidia-smi  # while it runs: is the card full? and python -c 'import torch; print(torch.backends.cudnn.version())'",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.is(Format::CudnnMasked) {
        let (score, what) = if case.says("alloc_failed") {
            (80, "cuDNN says that it was refused memory")
        } else if case.says("findanengine") || case.says("cudnnalgorithm") {
            (
                76,
                "cuDNN found no algorithm, mostly because none of their work spaces fits",
            )
        } else if case.says("not_initialized") {
            (
                68,
                "cuDNN could not be started, mostly because no memory is left for its handle",
            )
        } else {
            (
                58,
                "cuDNN failed inside, which a full card causes, among others",
            )
        };
        return Some(Finding::candidate(score, what));
    }
    let place = case.runs(&["_conv_forward", "F.conv", "conv2d(", "conv3d(", "conv1d("])?;
    let share = case
        .balance
        .as_ref()
        .and_then(|balance| Some(balance.percent(balance.tried_bytes?)))?;
    Some(Finding::candidate(
        if share >= 15 { 52 } else { 26 },
        format!("a convolution asked for it, perhaps for a work space: {place}"),
    ))
}
