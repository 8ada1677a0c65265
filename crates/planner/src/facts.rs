//! What a run tells about a script: the note `plan_facts`. It comes out of the script's own process, so nothing in it
//! is trusted to be there: what is unknown is absent or null, and is never guessed.

use std::collections::BTreeMap;

use oomproof_units::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

/// The facts of one script, of one of its training steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Number of parameters.
    pub parameters: Option<u64>,
    /// Their size.
    pub parameter_bytes: Option<Bytes>,
    /// The size of the gradients.
    pub gradient_bytes: Option<Bytes>,
    /// The largest parameter.
    pub largest_parameter_bytes: Option<Bytes>,
    /// Buffers of the model.
    pub buffers_bytes: Option<Bytes>,
    /// The blocks whose activations can be computed again, in the order in which they ran.
    #[serde(deserialize_with = "null_as_default")]
    pub blocks: Vec<Block>,
    /// Whether each block ran once and one after another.
    pub chain: Option<bool>,
    /// The first dimension of the first training batch.
    pub batch: Option<u64>,
    /// Where that batch came from.
    pub batch_source: Option<BatchSource>,
    /// Forward passes per step of the optimizer.
    pub micro_batches: Option<u64>,
    /// Whether the model computes the loss itself.
    pub loss_inside: Option<bool>,
    /// The optimizers.
    #[serde(deserialize_with = "null_as_default")]
    pub optimizer: Vec<Optimizer>,
    /// Whether gradients are clipped.
    pub clips: Option<bool>,
    /// Whether a gradient scaler is at work.
    pub scaler: Option<bool>,
    /// Whether a learning-rate scheduler steps.
    pub scheduler: Option<bool>,
    /// Whether the script sets the learning rate itself.
    pub lr_set_by_hand: Option<bool>,
    /// Whether some module computes statistics over the batch.
    pub batchnorm: Option<bool>,
    /// Whether a forward pass of training draws random numbers.
    pub forward_draws: Option<bool>,
    /// Whether the loop does, between one batch and the next; the forward pass is part of it.
    pub loop_draws: Option<bool>,
    /// The loss.
    pub loss: Option<Loss>,
    /// The attention modules.
    #[serde(deserialize_with = "null_as_default")]
    pub attention: Vec<Attention>,
    /// The data type of autocast, when it is on.
    pub autocast: Option<String>,
    /// Training frameworks that were seen, such as `transformers.Trainer`.
    #[serde(deserialize_with = "null_as_default")]
    pub frameworks: Vec<String>,
    /// Installed packages that levers use, with their versions; null for those that are not there.
    #[serde(deserialize_with = "null_as_default")]
    pub packages: BTreeMap<String, Option<String>>,
    /// Whether gradients are freed between steps.
    pub set_to_none: Option<bool>,
    /// Data sets that were moved to the device whole.
    pub resident_dataset_bytes: Option<Bytes>,
    /// Evaluation, when it was seen.
    pub evaluation: Option<Evaluation>,
    /// A training step on the device's clock, in nanoseconds.
    pub step_ns: Option<u64>,
    /// Memory at the moments that limit it.
    #[serde(deserialize_with = "null_as_default")]
    pub points: Points,
}

impl Facts {
    /// Reads the note.
    pub fn from_json(text: &str) -> Result<Self, FactsError> {
        serde_json::from_str(text).map_err(FactsError)
    }

    /// Whether a package is installed.
    pub fn has_package(&self, name: &str) -> bool {
        self.packages.get(name).is_some_and(Option::is_some)
    }
}

/// The note is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("the facts that the run left cannot be read: {0}")]
pub struct FactsError(serde_json::Error);

/// A module whose activations can be computed again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Block {
    /// Its path in the model, such as `blocks.0`.
    pub path: String,
    /// The name of its class.
    pub class: Option<String>,
    /// The list of alike modules that it belongs to.
    pub group: Option<String>,
    /// What its forward pass leaves for its backward pass.
    pub saved_bytes: Option<Bytes>,
    /// Its inputs.
    pub input_bytes: Option<Bytes>,
    /// Its outputs.
    pub output_bytes: Option<Bytes>,
    /// The most that was alive above what was there when its forward pass began.
    pub inner_peak_bytes: Option<Bytes>,
    /// Its forward pass on the device's clock, in nanoseconds.
    pub forward_ns: Option<u64>,
    /// Its parameters.
    pub parameters_bytes: Option<Bytes>,
    /// Whether it computes statistics over the batch.
    pub batchnorm: Option<bool>,
    /// Whether it draws random numbers.
    pub dropout: Option<bool>,
}

impl Block {
    /// Whether `other` lies inside this block.
    pub fn contains(&self, other: &Self) -> bool {
        other
            .path
            .strip_prefix(self.path.as_str())
            .is_some_and(|rest| rest.starts_with('.'))
    }
}

/// Who cuts the data into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchSource {
    /// A loader in the script's own loop.
    Loader,
    /// Hugging Face's `Trainer`.
    Trainer,
    /// Lightning.
    Lightning,
    /// accelerate.
    Accelerate,
    /// Nobody that was seen: the batch is what the forward pass was given.
    Forward,
}

/// An optimizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Optimizer {
    /// Its class with its module.
    pub class: Option<String>,
    /// `foreach`, `forloop` or `fused`.
    pub implementation: Option<String>,
    /// Its state.
    pub state_bytes: Option<Bytes>,
    /// The parameters it updates.
    pub parameter_bytes: Option<Bytes>,
    /// The largest of them.
    pub largest_parameter_bytes: Option<Bytes>,
}

/// The loss over classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// `cross_entropy`.
    pub kind: Option<String>,
    /// Rows of the scores.
    pub rows: Option<u64>,
    /// Their columns.
    pub classes: Option<u64>,
    /// The data type of the scores.
    pub dtype: Option<String>,
    /// Smoothing of the labels.
    pub label_smoothing: Option<f64>,
    /// The path of the linear layer that makes the scores.
    pub linear: Option<String>,
    /// What the loss takes when most is taken.
    pub bytes_at_peak: Option<Bytes>,
}

/// An attention module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attention {
    /// Its path.
    pub path: String,
    /// How it computes now, such as `eager` or `sdpa`.
    pub implementation: Option<String>,
    /// Whether it can compute by `scaled_dot_product_attention`.
    pub can_sdpa: Option<bool>,
}

/// Evaluation, as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evaluation {
    /// Whether it keeps activations for a backward pass that never comes.
    pub grad_enabled: Option<bool>,
    /// Its batch.
    pub batch: Option<u64>,
}

/// Allocated memory at the moments that can limit a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Points {
    /// When the backward pass begins.
    pub backward_start: Option<Point>,
    /// The most during the forward pass.
    pub forward_peak: Option<Point>,
    /// The most while the loss and its gradient are computed.
    pub loss_peak: Option<Point>,
    /// The most in the optimizer's step.
    pub optimizer_peak: Option<Point>,
    /// The most in evaluation.
    pub evaluation_peak: Option<Point>,
    /// The most in a whole step.
    pub step_peak: Option<Point>,
}

/// Allocated memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// What was allocated.
    pub allocated: Bytes,
}

impl<'de> Deserialize<'de> for Point {
    /// Takes `{"allocated": 8}` and plain `8`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Named { allocated: Bytes },
            Plain(Bytes),
        }
        let (Form::Named { allocated } | Form::Plain(allocated)) = Form::deserialize(deserializer)?;
        Ok(Self { allocated })
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: std::fmt::Debug>(text: &str, look: impl FnOnce(&Facts) -> T, expected: &str) {
        let facts = Facts::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(format!("{:?}", look(&facts)), expected, "{text}");
    }

    #[test]
    fn unknown_is_not_zero() {
        check("{}", |it| it.parameter_bytes, "None");
        check(
            r#"{"parameter_bytes":null}"#,
            |it| it.parameter_bytes,
            "None",
        );
        check(r#"{"blocks":null}"#, |it| it.blocks.len(), "0");
        check(
            r#"{"points":null}"#,
            |it| it.points == Points::default(),
            "true",
        );
        check(r#"{"kind":"plan_facts","new":1}"#, |it| it.batch, "None");
    }

    #[test]
    fn both_forms_of_a_point() {
        let allocated = |it: &Facts| it.points.loss_peak.map(|point| point.allocated.get());
        check(r#"{"points":{"loss_peak":7}}"#, allocated, "Some(7)");
        check(
            r#"{"points":{"loss_peak":{"allocated":7}}}"#,
            allocated,
            "Some(7)",
        );
        check(r#"{"points":{"loss_peak":null}}"#, allocated, "None");
    }

    #[test]
    fn packages_and_paths() {
        let text = r#"{"packages":{"peft":"0.21","liger_kernel":null}}"#;
        check(text, |it| it.has_package("peft"), "true");
        check(text, |it| it.has_package("liger_kernel"), "false");
        let block = |path: &str| Block {
            path: path.to_owned(),
            ..Block::default()
        };
        assert!(block("blocks.1").contains(&block("blocks.1.mlp")));
        assert!(!block("blocks.1").contains(&block("blocks.10")));
    }
}
