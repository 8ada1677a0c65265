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
    /// Gradients that are freed between steps.
    SetToNone,
    /// Gradients that lie in the buckets of distributed training.
    GradientBucketView,
    /// Forward and backward passes slice by slice, without a loader to cut.
    SplitForward,
    /// Parameters in a shorter format.
    Bf16Parameters,
    /// A smaller state of the optimizer.
    OptimizerState,
    /// Each parameter updated as soon as its gradient is there.
    OptimizerInBackward,
    /// The optimizer and its state on the host.
    OptimizerOffload,
    /// `torch.compile`.
    Compile,
    /// Small trained matrices beside frozen weights.
    Lora,
    /// Images with their channels last.
    ChannelsLast,
    /// Evaluation that keeps nothing for a backward pass.
    InferenceEvaluation,
    /// A smaller batch in evaluation.
    EvaluationBatch,
    /// Data that go to the device batch by batch.
    PerBatchTransfer,
    /// Tensors that are freed when they are no longer used.
    FreeEarly,
    /// Modules without part of their channels.
    Prune,
    /// Another card.
    LargerCard,
}

impl LeverName {
    /// All of them, in the order in which plans list them.
    pub const ALL: [Self; 24] = [
        Self::AllocatorSettings,
        Self::OptimizerImplementation,
        Self::MicroBatch,
        Self::ActivationCheckpointing,
        Self::ChunkedLoss,
        Self::Attention,
        Self::Autocast,
        Self::ActivationOffload,
        Self::SetToNone,
        Self::GradientBucketView,
        Self::SplitForward,
        Self::Bf16Parameters,
        Self::OptimizerState,
        Self::OptimizerInBackward,
        Self::OptimizerOffload,
        Self::Compile,
        Self::Lora,
        Self::ChannelsLast,
        Self::InferenceEvaluation,
        Self::EvaluationBatch,
        Self::PerBatchTransfer,
        Self::FreeEarly,
        Self::Prune,
        Self::LargerCard,
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
            Self::SetToNone => "set-to-none",
            Self::GradientBucketView => "gradient-bucket-view",
            Self::SplitForward => "split-forward",
            Self::Bf16Parameters => "bf16-parameters",
            Self::OptimizerState => "optimizer-state",
            Self::OptimizerInBackward => "optimizer-in-backward",
            Self::OptimizerOffload => "optimizer-offload",
            Self::Compile => "compile",
            Self::Lora => "lora",
            Self::ChannelsLast => "channels-last",
            Self::InferenceEvaluation => "inference-evaluation",
            Self::EvaluationBatch => "evaluation-batch",
            Self::PerBatchTransfer => "per-batch-transfer",
            Self::FreeEarly => "free-early",
            Self::Prune => "prune",
            Self::LargerCard => "larger-card",
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
