//! What a recorded run knows of the moment of failure and a text does not: whose the live bytes were.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::moment::Moment;
use crate::trace::Frame;

/// Live bytes by what they were for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Parameters and buffers.
    pub model_bytes: Bytes,
    /// Gradients.
    pub gradient_bytes: Bytes,
    /// State of the optimizer.
    pub optimizer_bytes: Bytes,
    /// What backward needs, inputs, temporaries and work spaces: what grows with the batch.
    pub batch_bytes: Bytes,
    /// What could not be attributed.
    pub unknown_bytes: Bytes,
    /// The modules that hold most, largest first.
    pub modules: Vec<HeldBy>,
    /// The source lines that hold most, largest first.
    pub lines: Vec<HeldBy>,
    /// By how much each step holds more than the one before.
    pub growth_bytes_per_step: Bytes,
    /// What the program was doing.
    pub phase: Option<Moment>,
    /// The largest piece without a tensor in it that PyTorch held, when a snapshot tells.
    pub largest_hole_bytes: Option<Bytes>,
    /// The line that failed.
    pub place: Option<Frame>,
    /// What the failing line asked for, when that is not what the text says.
    pub requested_bytes: Option<Bytes>,
}

/// A share of the live bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBy {
    /// The module, or `file:line function`.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Held {
    /// All live bytes.
    pub fn total(&self) -> Bytes {
        self.model_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.batch_bytes
            + self.unknown_bytes
    }

    /// The first few of a list in words.
    pub(crate) fn largest(list: &[HeldBy]) -> Option<String> {
        let named: Vec<String> = list
            .iter()
            .take(3)
            .map(|each| format!("{} holds {}", each.name, each.bytes))
            .collect();
        (!named.is_empty()).then(|| named.join(", "))
    }
}
