//! A training step as the model sees it: what is alive at each moment that can limit it, and what its parts cost.
//!
//! Levers change it one after another. It works in `f64`, because everything in it is scaled by ratios and is an
//! estimate until a run corrects it; sizes get their type back where estimates leave the crate.

use crate::facts::{Block, Facts};
use crate::lever::Script;
use crate::levers::scores_bytes;
use crate::measured::Measured;

/// A backward pass takes twice as long as its forward pass: a product for each of the two inputs.
pub(crate) const BACKWARD_OVER_FORWARD: f64 = 2.0;
/// The optimizer's part of a step where the rest of it is unknown.
const OPTIMIZER_PART: f64 = 0.1;
/// The blocks' part of a forward pass where their times were not measured.
const IN_BLOCKS: f64 = 0.8;
/// Bytes per nanosecond over the bus to the host, of `PCIe` 4 with 16 lanes.
const HOST_BYTES_PER_NS: f64 = 25.0;
/// The part of a pass that does not shrink with the batch: launches and reading weights. A guess that the first run
/// with pieces corrects.
const FIXED_PART: f64 = 0.1;
/// What is left of a block when only matrix products are kept (measured on a GPT: 99.1 to 70.3 MiB in all).
const KEPT_BY_PRODUCTS: f64 = 0.68;
/// What the rest of a block's forward pass takes.
const REST_OF_PRODUCTS: f64 = 0.35;
/// What stays on the device of an offloaded block: small tensors.
const STAYS: f64 = 0.03;
/// A nested block stands for its parent when its kind keeps this part of what the parent keeps.
const MOST_OF_PARENT: f64 = 0.6;

/// How a block goes through a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mode {
    /// As it is.
    Plain,
    /// Everything is computed again.
    Full,
    /// All but matrix products is computed again.
    KeepProducts,
    /// What it keeps waits in host memory.
    Offload,
}

/// A block of the model, per batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BlockModel {
    pub path: String,
    /// Kept for the backward pass.
    pub saved: f64,
    /// Its input, which is kept in any mode.
    pub input: f64,
    /// Its output, and so its output's gradient.
    pub output: f64,
    /// Alive in its passes beside what is kept.
    pub working: f64,
    pub gradients: f64,
    pub forward_ns: f64,
    /// What it keeps in a whole step, in all pieces of the batch together.
    pub saved_in_step: f64,
}

impl BlockModel {
    fn new(block: &Block) -> Self {
        let bytes = |value: Option<oomproof_units::Bytes>| value.map_or(0.0, |it| it.get() as f64);
        let saved = bytes(block.saved_bytes);
        let output = bytes(block.output_bytes);
        Self {
            path: block.path.clone(),
            saved,
            input: bytes(block.input_bytes),
            output,
            working: (bytes(block.inner_peak_bytes) - saved).max(output),
            gradients: bytes(block.parameters_bytes),
            forward_ns: block.forward_ns.map_or(0.0, |ns| ns as f64),
            saved_in_step: saved,
        }
    }

    /// What it keeps in a mode.
    pub(crate) fn kept(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Plain => self.saved,
            Mode::Full => self.input.min(self.saved),
            Mode::KeepProducts => (self.saved * KEPT_BY_PRODUCTS).max(self.input.min(self.saved)),
            Mode::Offload => self.saved * STAYS,
        }
    }

    /// What is alive in its backward pass beside what other blocks keep.
    pub(crate) fn in_backward(&self, mode: Mode) -> f64 {
        let own = self.saved + self.working + self.output;
        match mode {
            Mode::Plain | Mode::Offload => own,
            Mode::Full | Mode::KeepProducts => own + self.input.min(self.saved),
        }
    }

    /// What is alive in its forward pass beside what other blocks keep.
    pub(crate) fn in_forward(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Plain => self.saved + self.working,
            // What is dropped is alive only while it is used.
            Mode::Full | Mode::KeepProducts | Mode::Offload => {
                self.kept(mode) + self.working.max(self.output)
            }
        }
    }

    /// What the mode adds to a step.
    pub(crate) fn extra_ns(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Plain => 0.0,
            Mode::Full => self.forward_ns,
            Mode::KeepProducts => self.forward_ns * REST_OF_PRODUCTS,
            Mode::Offload => {
                // The way there beside the block's forward pass, the way back beside its backward pass: what of them
                // is longer than that.
                let way = self.saved_in_step / HOST_BYTES_PER_NS;
                (way - self.forward_ns).max(0.0)
                    + (way - self.forward_ns * BACKWARD_OVER_FORWARD).max(0.0)
            }
        }
    }

    /// The part of the model that the mode's time belongs to.
    pub(crate) fn time_part(mode: Mode) -> Option<TimePart> {
        match mode {
            Mode::Plain => None,
            Mode::Full => Some(TimePart::Recomputed),
            Mode::KeepProducts => Some(TimePart::RecomputedInPart),
            Mode::Offload => Some(TimePart::Offloaded),
        }
    }
}

/// What a lever's time is booked under; a run corrects each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimePart {
    Pieces,
    Recomputed,
    RecomputedInPart,
    Offloaded,
    OptimizerFused,
    OptimizerLoop,
    Loss,
    Attention,
    Cast,
    Other,
}

impl TimePart {
    pub(crate) const COUNT: usize = Self::Other as usize + 1;
}

/// A training step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Workload {
    pub batch: Option<u64>,
    /// In how many pieces the batch goes through a step.
    pub pieces: u64,
    /// Always there: parameters, buffers, the optimizer's state, data.
    pub resident: f64,
    pub parameters: f64,
    pub largest_parameter: f64,
    pub state: f64,
    /// Data that lie on the device whole.
    pub dataset: f64,
    pub gradients: f64,
    /// Whether gradients are there during the forward pass.
    pub gradients_stay: bool,
    /// Whether each gradient goes as soon as it is used.
    pub gradients_go_at_once: bool,
    pub blocks: Vec<BlockModel>,
    pub is_chain: bool,
    /// Kept for the backward pass outside of blocks and loss.
    pub other_saved: f64,
    pub loss_saved: f64,
    pub loss_working: f64,
    /// Whether the model computes its loss itself.
    pub loss_inside: bool,
    /// One copy of the loss's scores; zero where they are unknown.
    pub scores: f64,
    /// The optimizer's temporaries.
    pub optimizer_working: f64,
    /// What evaluation needs beside what is always there.
    pub evaluation: f64,
    pub evaluation_batch: Option<u64>,
    /// Reserved and unused, as a part of what is allocated.
    pub remainder: f64,
    /// What the process takes outside of the allocator.
    pub outside: f64,
    pub has_growing_segments: bool,
    pub adds_attention: bool,
    pub adds_cast: bool,
    /// Forward and backward passes of blocks and of the rest, without what levers add.
    pub forward_ns: f64,
    /// The forward pass of what is no block, which is mostly the last linear layer and the loss.
    pub head_ns: f64,
    pub optimizer_ns: f64,
    pub step_ns: f64,
    /// What levers add.
    pub added_ns: [f64; TimePart::COUNT],
}

impl Workload {
    /// The step as the script is.
    pub(crate) fn new(script: &Script<'_>, base: &Measured, depth: Depth) -> Self {
        let facts = script.facts;
        let bytes = |value: Option<oomproof_units::Bytes>| value.map_or(0.0, |it| it.get() as f64);
        let mut blocks: Vec<BlockModel> = outermost(&facts.blocks, depth)
            .map(BlockModel::new)
            .collect();
        let parameters = bytes(facts.parameter_bytes);
        let gradients = facts
            .gradient_bytes
            .map_or(parameters, |it| it.get() as f64);
        let state: f64 = facts.optimizer.iter().map(|it| bytes(it.state_bytes)).sum();
        let allocated = base.allocated.get() as f64;
        let points = &facts.points;
        let at = |point: Option<crate::facts::Point>| point.map(|it| it.allocated.get() as f64);
        let resident =
            (parameters + bytes(facts.buffers_bytes) + state + bytes(facts.resident_dataset_bytes))
                .min(allocated);
        let gradients_stay =
            facts.set_to_none == Some(false) || facts.micro_batches.is_some_and(|count| count > 1);
        let there = resident + if gradients_stay { gradients } else { 0.0 };
        let kept = (at(points.backward_start).unwrap_or(allocated) - there).max(0.0);
        let in_blocks: f64 = blocks.iter().map(|block| block.saved).sum();
        let scores = scores_bytes(script).unwrap_or(0.0);
        let loss_whole = facts.loss.as_ref().map_or(0.0, |loss| {
            loss.bytes_at_peak
                .map_or(scores * 3.0, |it| it.get() as f64)
        });
        let loss_saved = (scores * 2.0)
            .min((kept - in_blocks).max(0.0))
            .min(loss_whole);
        let loss_working = match (at(points.loss_peak), at(points.backward_start)) {
            (Some(peak), Some(start)) => (peak - start).max(0.0),
            _ => (loss_whole - loss_saved).max(0.0),
        };
        let step_ns = facts.step_ns.unwrap_or(base.step_ns.get()) as f64;
        let most_forward = step_ns * (1.0 - OPTIMIZER_PART) / (1.0 + BACKWARD_OVER_FORWARD);
        if blocks.iter().any(|block| block.forward_ns == 0.0) {
            // Time goes with what is computed, and so with what is kept of it.
            for block in &mut blocks {
                block.forward_ns = IN_BLOCKS * most_forward * block.saved / in_blocks.max(1.0);
            }
        }
        let in_blocks_ns: f64 = blocks.iter().map(|block| block.forward_ns).sum();
        let forward_ns = in_blocks_ns.clamp(most_forward * 0.5, most_forward);
        let optimizer_bytes: f64 = 7.0 * parameters;
        let optimizer_ns = (step_ns - forward_ns * (1.0 + BACKWARD_OVER_FORWARD))
            .max(0.0)
            .min(optimizer_bytes.max(1.0));
        Self {
            batch: facts.batch,
            pieces: 1,
            resident,
            parameters,
            largest_parameter: bytes(facts.largest_parameter_bytes),
            state,
            dataset: bytes(facts.resident_dataset_bytes),
            gradients,
            gradients_stay,
            gradients_go_at_once: false,
            is_chain: facts.chain.unwrap_or(false),
            other_saved: (kept - in_blocks - loss_saved).max(0.0),
            loss_saved,
            loss_working,
            loss_inside: facts.loss_inside == Some(true),
            scores,
            optimizer_working: at(points.optimizer_peak).map_or_else(
                || temporaries(facts),
                |peak| (peak - resident - gradients).max(0.0),
            ),
            evaluation: at(points.evaluation_peak).map_or(0.0, |peak| (peak - resident).max(0.0)),
            evaluation_batch: facts.evaluation.as_ref().and_then(|it| it.batch),
            remainder: ratio_above(base.reserved.get() as f64, allocated),
            outside: base.process_high.saturating_sub(base.reserved).get() as f64,
            has_growing_segments: false,
            adds_attention: false,
            adds_cast: false,
            forward_ns,
            head_ns: (most_forward - in_blocks_ns).max(0.0),
            optimizer_ns,
            step_ns,
            added_ns: [0.0; TimePart::COUNT],
            blocks,
        }
    }

    /// Forward and backward passes together.
    pub(crate) fn passes_ns(&self) -> f64 {
        self.forward_ns * (1.0 + BACKWARD_OVER_FORWARD)
    }

    /// What more than one piece adds to passes that take so long over the whole batch.
    pub(crate) fn of_pieces_ns(&self, passes_ns: f64) -> f64 {
        FIXED_PART * passes_ns * (self.pieces - 1) as f64
    }

    /// The time that so many bytes take over the bus to the host.
    pub(crate) fn over_bus_ns(bytes: f64) -> f64 {
        bytes / HOST_BYTES_PER_NS
    }

    /// Books a lever's time.
    pub(crate) fn add_time(&mut self, part: TimePart, ns: f64) {
        self.added_ns[part as usize] += ns;
    }

    /// Activations of this part of the batch; the time of a whole batch stays.
    fn scale_batch(&mut self, part: f64) {
        for block in &mut self.blocks {
            block.saved *= part;
            block.input *= part;
            block.output *= part;
            block.working *= part;
        }
        self.other_saved *= part;
        self.loss_saved *= part;
        self.loss_working *= part;
        self.scores *= part;
    }

    /// The batch in so many pieces.
    pub(crate) fn split(&mut self, pieces: u64) {
        let part = match self.batch {
            Some(batch) => batch.div_ceil(pieces) as f64 / batch as f64,
            None => 1.0 / pieces as f64,
        };
        self.scale_batch(part);
        self.pieces *= pieces;
    }

    /// The model's peak of allocated memory when every block goes through the step as it is.
    pub(crate) fn plain_peak(&self) -> f64 {
        let before = self.gradients_before();
        let mut kept = 0.0;
        let mut peak: f64 = 0.0;
        for (block, after) in self.blocks.iter().zip(self.gradients_after_blocks()) {
            let forward = block.in_forward(Mode::Plain) + before;
            peak = peak.max(kept + forward.max(block.in_backward(Mode::Plain) + after));
            kept += block.saved;
        }
        let loss = before + kept + self.other_saved + self.loss_saved + self.loss_working;
        let optimizer = if self.gradients_go_at_once {
            0.0
        } else {
            self.gradients + self.optimizer_working
        };
        self.resident
            + (peak + self.other_saved)
                .max(loss)
                .max(optimizer)
                .max(self.evaluation)
    }

    /// Gradients that exist before any block's backward pass.
    pub(crate) fn gradients_before(&self) -> f64 {
        if self.gradients_stay {
            self.gradients
        } else {
            0.0
        }
    }

    /// Gradients that exist when the backward pass of each block is over; the last entry is that of the last block.
    pub(crate) fn gradients_after_blocks(&self) -> Vec<f64> {
        if self.gradients_stay {
            return vec![self.gradients; self.blocks.len()];
        }
        if self.gradients_go_at_once {
            return self.blocks.iter().map(|block| block.gradients).collect();
        }
        let in_blocks: f64 = self.blocks.iter().map(|block| block.gradients).sum();
        // What lies outside may be a head, whose gradients come first; the worse of both is assumed.
        let mut after = (self.gradients - in_blocks).max(0.0);
        let mut found = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.iter().rev() {
            after += block.gradients;
            found.push(after);
        }
        found.reverse();
        found
    }
}

fn ratio_above(whole: f64, part: f64) -> f64 {
    if part > 0.0 {
        (whole / part - 1.0).max(0.0)
    } else {
        0.0
    }
}

/// The temporaries of the optimizer's step where its peak was not measured.
fn temporaries(facts: &Facts) -> f64 {
    let of_one = |it: &crate::facts::Optimizer| match it.implementation.as_deref() {
        Some("fused") => 0.0,
        Some("forloop") => it
            .largest_parameter_bytes
            .map_or(0.0, |b| 3.0 * b.get() as f64),
        _ => it.parameter_bytes.map_or(0.0, |b| b.get() as f64),
    };
    facts.optimizer.iter().map(of_one).sum()
}

/// How deep into nested modules blocks are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A stage of two or three blocks is one block; only longer stacks are taken apart.
    Stages,
    /// Every stack is taken apart.
    Blocks,
}

impl Depth {
    pub(crate) const ALL: [Self; 2] = [Self::Stages, Self::Blocks];

    /// So many alike modules are a stack.
    const fn least_in_stack(self) -> usize {
        match self {
            Self::Stages => 4,
            Self::Blocks => 2,
        }
    }
}

fn saved(block: &Block) -> f64 {
    block.saved_bytes.map_or(0.0, |it| it.get() as f64)
}

/// The blocks to choose among: none lies inside another. A block that holds mostly other blocks stands aside.
fn outermost(blocks: &[Block], depth: Depth) -> impl Iterator<Item = &Block> {
    let stands: Vec<usize> = (0..blocks.len())
        .filter(|&at| !is_mostly_others(blocks, at, depth))
        .collect();
    let chosen: Vec<usize> = stands
        .iter()
        .copied()
        .filter(|&at| {
            saved(&blocks[at]) > 0.0
                && stands
                    .iter()
                    .all(|&other| !blocks[other].contains(&blocks[at]))
        })
        .collect();
    chosen.into_iter().map(move |at| &blocks[at])
}

fn is_mostly_others(blocks: &[Block], at: usize, depth: Depth) -> bool {
    let block = &blocks[at];
    let inner: Vec<&Block> = blocks.iter().filter(|it| block.contains(it)).collect();
    let most = MOST_OF_PARENT * saved(block);
    let direct: Vec<&&Block> = inner
        .iter()
        .filter(|it| inner.iter().all(|other| !other.contains(it)))
        .collect();
    let kept: f64 = direct.iter().map(|it| saved(it)).sum();
    if direct.len() > 3 && kept >= most {
        return true;
    }
    // Layers such as linear ones are alike too, and keep less than they give.
    let output = |it: &Block| it.output_bytes.map_or(0.0, |it| it.get() as f64);
    let is_block = |it: &&&Block| it.group.is_some() && saved(it) >= output(it);
    let alike: Vec<&&Block> = inner.iter().filter(is_block).collect();
    alike.iter().any(|one| {
        let stack: Vec<&&&Block> = alike.iter().filter(|it| it.group == one.group).collect();
        // What a block gives is kept for the next one, and by what is around both.
        let kept: f64 = stack.iter().map(|it| saved(it) + output(it)).sum();
        stack.len() >= depth.least_in_stack() && kept >= most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it adds to a step that a block keeps so many bytes on the host, when its forward pass takes so long.
    fn check(saved: f64, forward_ns: f64, expected: f64) {
        let block = BlockModel {
            forward_ns,
            saved_in_step: saved,
            ..BlockModel::new(&Block::default())
        };
        let found = block.extra_ns(Mode::Offload);
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }

    #[test]
    fn the_way_over_the_bus_counts_as_far_as_it_is_longer_than_the_block() {
        let micros = 1000.0 * HOST_BYTES_PER_NS;
        check(10.0 * micros, 0.0, 20_000.0);
        check(10.0 * micros, 3000.0, 7000.0 + 4000.0);
        check(10.0 * micros, 8000.0, 2000.0);
        check(10.0 * micros, 12_000.0, 0.0);
    }

    /// Which of these modules, with what each keeps and gives, are the blocks.
    fn check_blocks(modules: &[(&str, Option<&str>, u64, u64)], depth: Depth, expected: &[&str]) {
        let blocks: Vec<Block> = modules
            .iter()
            .map(|&(path, group, saved, output)| Block {
                path: path.to_owned(),
                group: group.map(str::to_owned),
                saved_bytes: Some(oomproof_units::Bytes::new(saved)),
                output_bytes: Some(oomproof_units::Bytes::new(output)),
                ..Block::default()
            })
            .collect();
        let found: Vec<&str> = outermost(&blocks, depth)
            .map(|it| it.path.as_str())
            .collect();
        assert_eq!(found, expected, "{depth:?}");
    }

    #[test]
    fn stacks_are_taken_apart() {
        let tower: Vec<(String, u64)> = (0..5)
            .map(|at| (format!("tower.blocks.{at}"), 18))
            .collect();
        let mut modules = vec![
            ("tower", None, 110, 1),
            ("tower.embed", None, 4, 2),
            ("tower.blocks", None, 100, 2),
        ];
        modules.extend(
            tower
                .iter()
                .map(|(path, kept)| (path.as_str(), Some("tower.blocks"), *kept, 2)),
        );
        let paths: Vec<&str> = tower.iter().map(|(path, _)| path.as_str()).collect();
        let all: Vec<&str> = ["tower.embed"].into_iter().chain(paths).collect();
        check_blocks(&modules, Depth::Stages, &all);
        check_blocks(&modules, Depth::Blocks, &all);
    }

    #[test]
    fn a_short_stage_is_one_block_or_two() {
        let modules = [
            ("stage", None, 40, 2),
            ("stage.0", Some("stage"), 20, 2),
            ("stage.1", Some("stage"), 18, 2),
        ];
        check_blocks(&modules, Depth::Stages, &["stage"]);
        check_blocks(&modules, Depth::Blocks, &["stage.0", "stage.1"]);
    }

    #[test]
    fn layers_of_a_block_are_no_blocks() {
        // The two linear layers keep their inputs, which others gave.
        let modules = [
            ("mlp", None, 40, 2),
            ("mlp.0", Some("mlp"), 1, 16),
            ("mlp.1", Some("mlp"), 1, 16),
        ];
        check_blocks(&modules, Depth::Blocks, &["mlp"]);
    }
}
