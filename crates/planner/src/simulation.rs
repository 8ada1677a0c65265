//! A second opinion on what a choice of blocks comes to: the requests that a step would make, one after another, put
//! to PyTorch's caching allocator.
//!
//! It shares no code with what chooses. There a formula says what is alive at the worst moment; here tensors are
//! allocated and freed in the order of a step, and the allocator counts.

use oomproof_allocator::{AllocateError, Allocator, Card, Configuration, Release, Request};
use oomproof_units::{Bytes, DeviceAddress};

/// How a block goes through a simulated step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMode {
    /// Its activations stay.
    Plain,
    /// Its input stays, and the rest is computed again.
    Full,
    /// Its activations wait on the host.
    Offload,
}

/// A block as a simulated step sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedBlock {
    /// Kept for the backward pass.
    pub saved: Bytes,
    /// Its input, which is a part of what is kept.
    pub input: Bytes,
    /// The gradient of its output.
    pub output: Bytes,
    /// Alive in its passes beside what is kept.
    pub working: Bytes,
    /// The gradients of its parameters.
    pub gradients: Bytes,
    /// What stays on the device when it is offloaded.
    pub stays: Bytes,
    /// How it goes through the step.
    pub mode: BlockMode,
}

/// A step to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedStep {
    /// Always there.
    pub resident: Bytes,
    /// Gradients that are there from the start, as with pieces of a batch; those of blocks are then not made.
    pub gradients_before: Bytes,
    /// Gradients of what is no block, which are there before the backward pass of the last block.
    pub gradients_of_rest: Bytes,
    /// The blocks in their order.
    pub blocks: Vec<SimulatedBlock>,
    /// What the loss takes beside what the blocks keep.
    pub loss: Bytes,
    /// Temporaries of the optimizer.
    pub optimizer: Bytes,
}

/// What the allocator counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// The peak of what was asked for, before the allocator rounds it up.
    pub requested: Bytes,
    /// The peak of allocated memory.
    pub allocated: Bytes,
    /// The peak of reserved memory.
    pub reserved: Bytes,
}

/// The memory of one step.
struct Device {
    allocator: Allocator<Card>,
}

impl Device {
    fn take(&mut self, size: Bytes) -> Result<Option<DeviceAddress>, AllocateError> {
        if size == Bytes::ZERO {
            return Ok(None);
        }
        self.allocator.allocate(Request::new(size)).map(Some)
    }

    fn give(&mut self, address: Option<DeviceAddress>) {
        if let Some(address) = address {
            // It was handed out above and is given back once.
            let freed = self.allocator.free(address);
            debug_assert!(freed.is_ok());
        }
    }
}

/// The requests of one step, put to the allocator of a release on a card that is large enough.
pub fn simulate(step: &SimulatedStep, release: Release) -> Result<Simulated, AllocateError> {
    let card = Card::new(Bytes::from_gib(1 << 16), Bytes::ZERO);
    let mut device = Device {
        allocator: Allocator::new(Configuration::new(release), card),
    };
    device.take(step.resident)?;
    device.take(step.gradients_before)?;

    let mut kept = Vec::with_capacity(step.blocks.len());
    for block in &step.blocks {
        let stays = match block.mode {
            BlockMode::Plain => block.saved,
            BlockMode::Full => block.input,
            BlockMode::Offload => block.stays,
        };
        kept.push(device.take(stays)?);
        let working = device.take(block.working.max(match block.mode {
            BlockMode::Plain => Bytes::ZERO,
            BlockMode::Full | BlockMode::Offload => block.output,
        }))?;
        device.give(working);
    }

    let loss = device.take(step.loss)?;
    device.give(loss);
    let makes_gradients = step.gradients_before == Bytes::ZERO;
    let mut gradients = Vec::new();
    if makes_gradients {
        gradients.push(device.take(step.gradients_of_rest)?);
    }
    for (block, kept) in step.blocks.iter().zip(&kept).rev() {
        let again = match block.mode {
            BlockMode::Plain => None,
            BlockMode::Full => device.take(block.saved)?,
            BlockMode::Offload => device.take(block.saved.saturating_sub(block.stays))?,
        };
        let working = device.take(block.working)?;
        let output = device.take(block.output)?;
        if makes_gradients {
            gradients.push(device.take(block.gradients)?);
        }
        for address in [output, working, again, *kept] {
            device.give(address);
        }
    }
    let temporaries = device.take(step.optimizer)?;
    device.give(temporaries);
    for address in gradients {
        device.give(address);
    }

    let statistics = device.allocator.statistics();
    let peak = |level: i64| Bytes::new(u64::try_from(level).unwrap_or(0));
    Ok(Simulated {
        requested: peak(statistics.requested_bytes.all.peak),
        allocated: peak(statistics.allocated_bytes.all.peak),
        reserved: peak(statistics.reserved_bytes.all.peak),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::stages;
    use crate::recompute::{Choice, choices_of_chain};
    use crate::workload::{BlockModel, Mode, Workload};
    use oomproof_units::Nanos;
    use proptest::prelude::*;

    const MODES: [Mode; 3] = [Mode::Plain, Mode::Full, Mode::Offload];

    fn step(workload: &Workload, ways: &[u8]) -> SimulatedStep {
        let bytes = |figure: f64| Bytes::new(format!("{figure}").parse().expect("a whole number"));
        let in_blocks: f64 = workload.blocks.iter().map(|block| block.gradients).sum();
        let stay = workload.gradients_stay;
        let blocks = workload
            .blocks
            .iter()
            .zip(ways)
            .map(|(block, way)| SimulatedBlock {
                saved: bytes(block.saved),
                input: bytes(block.input),
                output: bytes(block.output),
                working: bytes(block.working),
                gradients: bytes(block.gradients),
                stays: crate::estimate::whole_bytes(block.kept(Mode::Offload)),
                mode: [BlockMode::Plain, BlockMode::Full, BlockMode::Offload][usize::from(*way)],
            });
        SimulatedStep {
            resident: bytes(workload.resident),
            gradients_before: if stay {
                bytes(workload.gradients)
            } else {
                Bytes::ZERO
            },
            gradients_of_rest: bytes(workload.gradients - in_blocks),
            blocks: blocks.collect(),
            loss: Bytes::ZERO,
            optimizer: Bytes::ZERO,
        }
    }

    /// What a step asks for at its worst moment is what the formula says, to the byte.
    fn check(workload: &Workload, ways: &[u8], peak: Bytes) -> Result<Simulated, TestCaseError> {
        let step = step(workload, ways);
        let release = Release::new(2, 15).expect("a release");
        let found = simulate(&step, release).expect("room");
        let gradients = crate::estimate::whole_bytes(workload.gradients);
        prop_assert_eq!(found.requested, peak.max(gradients) + step.resident);
        prop_assert!(found.requested <= found.allocated && found.allocated <= found.reserved);
        Ok(found)
    }

    fn block() -> impl Strategy<Value = BlockModel> {
        (1_u32..4000, 1_u32..100, 1_u32..500, 1_u32..4000, 1_u32..9).prop_map(
            |(saved, part, working, gradients, ns)| {
                let kib = |count: u32| f64::from(count) * 1024.0;
                BlockModel {
                    path: String::new(),
                    saved: kib(saved),
                    input: kib((saved * part / 200).max(1)),
                    output: kib((saved * part / 200).max(1)),
                    working: kib(working + saved),
                    gradients: kib(gradients),
                    forward_ns: f64::from(ns),
                    saved_in_step: kib(saved) / 1000.0,
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn formula_and_allocator_agree_and_nothing_smaller_is_missed(
            blocks in proptest::collection::vec(block(), 1..5),
            rest in 0_u32..4000,
            stay in any::<bool>(),
        ) {
            let gradients: f64 = blocks.iter().map(|block| block.gradients).sum();
            let workload = Workload {
                gradients: gradients + f64::from(rest) * 1024.0,
                gradients_stay: stay,
                resident: 1_048_576.0,
                blocks,
                ..Workload::default()
            };
            let stages = stages(&workload, &MODES);
            let choices: Vec<Choice> = choices_of_chain(&stages);
            let mut found = Vec::new();
            for choice in &choices {
                found.push((check(&workload, &choice.ways, choice.peak)?.requested, choice.time));
            }
            // Every other choice, simulated, is beaten by one of these.
            let n_blocks = workload.blocks.len() as u32;
            for number in 0..3_usize.pow(n_blocks) {
                let ways: Vec<u8> = (0..n_blocks)
                    .map(|block| (number / 3_usize.pow(block) % 3) as u8)
                    .collect();
                let release = Release::new(2, 15).expect("a release");
                let simulated = simulate(&step(&workload, &ways), release).expect("room");
                let time: u64 = stages
                    .iter()
                    .zip(&ways)
                    .map(|(ways, way)| ways[usize::from(*way)].time.get())
                    .sum();
                let beats = |it: &(Bytes, Nanos)| it.0 <= simulated.requested && it.1.get() <= time;
                prop_assert!(found.iter().any(beats));
            }
        }
    }
}
