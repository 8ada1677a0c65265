//! The names of levers: the same words in plans, on the command line, and in the Python package that applies them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A lever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeverName {
    /// Settings of PyTorch's caching allocator.
    AllocatorSettings,
    /// Which implementation of the optimizer's step runs.
    OptimizerImplementation,
    /// The batch in pieces whose gradients are added up.
    MicroBatch,
    /// Blocks that compute their activations again in the backward pass.
    ActivationCheckpointing,
    /// The last linear layer and the loss in pieces.
    ChunkedLoss,
    /// Another implementation of attention.
    Attention,
    /// A shorter floating-point format for the operations that bear it.
    Autocast,
    /// Activations that wait in host memory.
    ActivationOffload,
}

impl LeverName {
    /// All of them, in the order in which plans list them.
    pub const ALL: [Self; 8] = [
        Self::AllocatorSettings,
        Self::OptimizerImplementation,
        Self::MicroBatch,
        Self::ActivationCheckpointing,
        Self::ChunkedLoss,
        Self::Attention,
        Self::Autocast,
        Self::ActivationOffload,
    ];

    /// The word in plans and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllocatorSettings => "allocator-settings",
            Self::OptimizerImplementation => "optimizer-implementation",
            Self::MicroBatch => "micro-batch",
            Self::ActivationCheckpointing => "activation-checkpointing",
            Self::ChunkedLoss => "chunked-loss",
            Self::Attention => "attention",
            Self::Autocast => "autocast",
            Self::ActivationOffload => "activation-offload",
        }
    }
}

impl fmt::Display for LeverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no lever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no lever named `{0}`")]
pub struct LeverNameError(pub String);

impl FromStr for LeverName {
    type Err = LeverNameError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| LeverNameError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_each_everywhere() {
        for name in LeverName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            let json = serde_json::to_string(&name).expect("a word");
            assert_eq!(json, format!("\"{name}\""));
        }
        assert!("checkpointing".parse::<LeverName>().is_err());
    }
}
