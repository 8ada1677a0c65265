//! Graph pools and compilation: memory that a captured graph keeps for itself, warm-up runs, compiled kernels' buffers.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::moment::Moment;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::CompileGraphs,
    title: "CUDA graphs or compilation",
    meaning: "Captured graphs keep private pools that nothing else may use, and capturing or compiling needs room of its own.",
    apart: "The text names private pools, or it fails while graphs are captured; it passes with graphs switched off.",
    check: "TORCHDYNAMO_DISABLE=1 python SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if let Some(pools) = case.failure.figures.private_pools_bytes {
        let percent = case
            .balance
            .as_ref()
            .map_or(0, |balance| balance.percent(pools));
        let covers = case.tried().is_some_and(|tried| pools >= tried);
        let score = match percent {
            _ if pools < Bytes::from_mib(64) => 25,
            20.. => 84,
            5..=19 if covers => 78,
            _ if covers => 62,
            _ => 45,
        };
        return Some(Finding::candidate(
            score,
            format!("{pools} lies idle in private pools, which only their graphs may use"),
        ));
    }
    if case.phase() == Some(Moment::Compile) {
        let place = case.runs(&["graph", "capture"]);
        let evidence = place.unwrap_or_else(|| "the log had come to capturing graphs".to_owned());
        return Some(Finding::candidate(78, evidence));
    }
    if case.cues.server() && case.failure.figures.describe_device() {
        return Some(Finding::candidate(
            26,
            "a server captures graphs after it has filled the card with its cache",
        ));
    }
    let place = case.runs(&["torch/_inductor", "torch/_dynamo", "cudagraph"])?;
    Some(Finding::candidate(
        40,
        format!("a compiled function was running: {place}"),
    ))
}
