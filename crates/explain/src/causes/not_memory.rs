//! Not device memory at all: a kernel's on-chip memory, or another error with "memory" in its text.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::NotMemory,
    title: "not a shortage of memory",
    meaning: "A kernel asked for more on-chip memory than a block may have, or another error has \"memory\" in its text. A smaller batch changes nothing.",
    apart: "The text names on-chip resources with plain numbers, or an illegal access.",
    check: "CUDA_LAUNCH_BLOCKING=1 python SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    match case.format() {
        Format::TritonResources => {
            let figures = &case.failure.figures;
            let evidence = match (figures.required_on_chip_bytes, figures.on_chip_limit_bytes) {
                (Some(required), Some(limit)) => format!(
                    "a kernel wants {required} of on-chip memory for a block, and the chip has {limit}"
                ),
                _ => "a kernel wants more on-chip resources than the chip has".to_owned(),
            };
            Some(Finding::decided(evidence))
        }
        Format::OtherCudaError => Some(Finding::candidate(
            80,
            "the error is a fault of a kernel, not a refusal of memory",
        )),
        Format::NvmlAssert if case.says("nvmlinit") => Some(Finding::candidate(
            52,
            "NVML could not be started, which happens when driver and library do not match",
        )),
        Format::CublasMasked if case.says("not_initialized") => Some(Finding::candidate(
            26,
            "cuBLAS that cannot be started may be of a version that does not match",
        )),
        _ => None,
    }
}
