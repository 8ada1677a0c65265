//! A divided card: a slice is small, and NVML, which PyTorch asks for the text, refuses.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::Mig,
    title: "a slice of a divided card (MIG)",
    meaning: "The process sees a part of the card; memory ran out there, and NVML refused to tell PyTorch who holds it.",
    apart: "`nvidia-smi -L` lists MIG devices. Containers without the right to ask NVML, and boards of the Jetson kind, give the same text.",
    check: "nvidia-smi -L",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    let named = case.cues.mig();
    if case.is(Format::NvmlAssert) {
        let score = if named { 85 } else { 46 };
        return Some(Finding::candidate(
            score,
            "memory ran out and NVML refused to say who holds it, as it does on a slice of a card",
        ));
    }
    named.then(|| Finding::candidate(50, "the log names a MIG device"))
}
