//! The model's figures for a workload under one choice of blocks: the process at its worst moment and the time of a
//! step, each with the parts that a correction may be needed for.

use oomproof_units::Bytes;

use crate::calibration::{Calibration, Parts};
use crate::recompute::Choice;
use crate::workload::{BACKWARD_OVER_FORWARD, BlockModel, Mode, TimePart, Workload};

/// Parts of the memory's figure.
pub(crate) const MEMORY_PARTS: usize = 18;
/// Parts of the time's figure: what each adds by the model, and that it adds something at all.
pub(crate) const TIME_PARTS: usize = 2 * TimePart::COUNT;

/// By how much each part may be off before anything was measured: guesses that one run after another replaces.
const MEMORY_DOUBT: [f64; MEMORY_PARTS] = [
    0.01, // the whole
    0.05, // blocks
    0.05, // gradients
    0.10, // kept elsewhere
    0.20, // the loss
    0.10, // temporaries of the optimizer
    0.20, // evaluation
    0.50, // reserved and unused
    0.01, // growing segments at all
    0.02, // a block is the worst moment
    0.02, // the loss is
    0.02, // the optimizer is
    0.50, // what attention no longer keeps
    0.50, // what a shorter format no longer keeps
    0.05, // what full recomputation drops
    0.40, // what recomputation in part drops
    0.10, // what went to the host
    0.05, // pieces of the batch
];
/// What rounding of blocks and pieces of memory that nothing fits into make, of the process.
const MEMORY_NOISE: f64 = 0.004;

const TIME_DOUBT: [f64; TIME_PARTS] = [
    1.0,   // pieces
    0.25,  // recomputed
    0.8,   // recomputed in part
    0.4,   // over the bus
    0.8,   // fused optimizer
    0.8,   // optimizer in a loop
    1.0,   // the loss
    1.0,   // attention
    0.8,   // a shorter format
    1.0,   // other
    0.005, // pieces at all, and so on
    0.003, 0.005, 0.005, 0.01, 0.01,
    // Of what is no block: scores that are never copied, shifted or padded save much of it, and nothing says so before.
    0.3, 0.02, 0.02, 0.02,
];
const TIME_NOISE: f64 = 0.0015;

/// The correction of memory, before anything was measured.
pub(crate) fn memory_calibration() -> Calibration<MEMORY_PARTS> {
    Calibration::new(MEMORY_DOUBT, MEMORY_NOISE)
}

/// The correction of time, before anything was measured.
pub(crate) fn time_calibration() -> Calibration<TIME_PARTS> {
    Calibration::new(TIME_DOUBT, TIME_NOISE)
}

/// The model's figures, uncorrected, over those of the base run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub memory: f64,
    pub memory_parts: Parts<MEMORY_PARTS>,
    pub allocated: f64,
    pub time: f64,
    pub time_parts: Parts<TIME_PARTS>,
}

/// What figures are measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// The base run's process.
    pub bytes: f64,
    /// The base run's step.
    pub ns: f64,
}

/// The model's figures for this workload when its blocks go these ways.
pub(crate) fn estimate(
    workload: &Workload,
    plain: &Workload,
    modes: &[Mode],
    choice: &Choice,
    scale: Scale,
) -> Estimate {
    let mut parts = [0.0; MEMORY_PARTS];
    let before = workload.gradients_before();
    let (kept, peak) = (choice.kept.get() as f64, choice.peak.get() as f64);
    let moments = [
        // Blocks: `peak` has their gradients in it.
        peak + workload.other_saved,
        before + kept + workload.other_saved + workload.loss_saved + workload.loss_working,
        if workload.gradients_go_at_once {
            0.0
        } else {
            workload.gradients + workload.optimizer_working
        },
        workload.evaluation,
    ];
    let worst = (0..moments.len())
        .max_by(|&a, &b| moments[a].total_cmp(&moments[b]))
        .unwrap_or(0);
    match worst {
        0 => {
            parts[1] = peak - before;
            parts[2] = before;
            parts[3] = workload.other_saved;
            parts[9] = scale.bytes;
        }
        1 => {
            parts[1] = kept;
            parts[2] = before;
            parts[3] = workload.other_saved;
            parts[4] = workload.loss_saved + workload.loss_working;
            parts[10] = scale.bytes;
        }
        2 => {
            parts[2] = workload.gradients;
            parts[5] = workload.optimizer_working;
            parts[11] = scale.bytes;
        }
        _ => parts[6] = workload.evaluation,
    }
    let allocated = workload.resident + moments[worst];
    let unused = allocated * workload.remainder;
    let memory = allocated + unused + workload.outside;
    parts[0] = scale.bytes;
    parts[7] = unused;
    if workload.has_growing_segments {
        parts[8] = scale.bytes;
    }
    let limits_blocks = worst < 2;
    if limits_blocks {
        let of_plain: f64 = plain.blocks.iter().map(|block| block.saved).sum();
        let of_workload: f64 = workload.blocks.iter().map(|block| block.saved).sum();
        if workload.adds_attention {
            parts[12] = (of_plain - of_workload).max(0.0).min(of_workload);
        }
        if workload.adds_cast {
            parts[13] = (of_plain - of_workload).max(0.0).min(of_workload);
        }
        for (block, way) in workload.blocks.iter().zip(&choice.ways) {
            let mode = modes[usize::from(*way)];
            let dropped = block.saved - block.kept(mode);
            match mode {
                Mode::Plain => {}
                Mode::Full => parts[14] += dropped,
                Mode::KeepProducts => parts[15] += dropped,
                Mode::Offload => parts[16] += dropped,
            }
        }
        if workload.gradients_stay && !plain.gradients_stay {
            parts[17] = kept + workload.other_saved;
        }
    }

    let mut added = workload.added_ns;
    for (block, way) in workload.blocks.iter().zip(&choice.ways) {
        let mode = modes[usize::from(*way)];
        if let Some(part) = BlockModel::time_part(mode) {
            let extra = block.extra_ns(mode);
            added[part as usize] += extra;
            // A pass that is done again is done again for each piece.
            if mode != Mode::Offload {
                added[TimePart::Pieces as usize] += workload.of_pieces_ns(extra);
            }
        }
    }
    let ns = workload.step_ns + added.iter().sum::<f64>();
    let outside_of_blocks = (workload.head_ns * (1.0 + BACKWARD_OVER_FORWARD) / scale.ns).min(1.0);
    let mut time_parts = [0.0; TIME_PARTS];
    for (part_idx, ns) in added.into_iter().enumerate() {
        time_parts[part_idx] = (ns / scale.ns) as f32;
        let at_all = if part_idx == TimePart::Loss as usize {
            outside_of_blocks as f32
        } else {
            1.0
        };
        time_parts[TimePart::COUNT + part_idx] = if ns == 0.0 { 0.0 } else { at_all };
    }
    Estimate {
        memory: memory / scale.bytes,
        memory_parts: parts.map(|bytes| (bytes / scale.bytes) as f32),
        allocated,
        time: (ns / scale.ns).max(0.05),
        time_parts,
    }
}

/// A figure of the model as a size; what is below nothing is nothing.
#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
pub(crate) fn whole_bytes(figure: f64) -> Bytes {
    Bytes::new(figure.max(0.0) as u64)
}
