//! A plan as a file: readable, reviewable, and refused when it no longer matches the script it was made for.
//!
//! The file names what it relies on in `[expects]`, because a plan outlives the script's next edit.

use std::collections::{BTreeMap, BTreeSet};

use oomproof_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::levers;
use crate::numerics::Numerics;
use crate::torch_version::TorchVersion;

/// The form of the file.
const SCHEMA: u32 = 1;

/// A list of levers with what they were made for and what they were seen to bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The form of the file: 1.
    pub schema: u32,
    /// The card and the script.
    #[serde(default, skip_serializing_if = "MadeFor::is_empty")]
    pub made_for: MadeFor,
    /// What must still be true.
    #[serde(default, skip_serializing_if = "Expects::is_empty")]
    pub expects: Expects,
    /// What the virtual GPU measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// The levers, in the order in which they are applied.
    #[serde(default, rename = "lever", skip_serializing_if = "Vec::is_empty")]
    pub levers: Vec<LeverUse>,
}

/// What a plan was made for; nothing of it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeFor {
    /// The name of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Bytes>,
    /// The whole version of torch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// The script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl MadeFor {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What must still be true where the plan is applied; what is absent is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expects {
    /// The minor release of torch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchVersion>,
    /// The number of parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// The first dimension of the first training batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Module paths that the levers name, with their classes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, String>,
}

impl Expects {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a run of the plan on the virtual GPU came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// The peak of allocated memory.
    pub peak_allocated_bytes: Bytes,
    /// The peak of reserved memory.
    pub peak_reserved_bytes: Bytes,
    /// The process's peak, at the upper end of its range.
    pub process_bytes: Bytes,
    /// The estimated time of a step over that without the plan.
    pub relative_time: f64,
    /// How far results stay the same.
    pub numerics: Numerics,
    /// Why random numbers are others, where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numerics_reason: Option<String>,
}

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It is not TOML or not of this form.
    #[error("the plan cannot be read: {0}")]
    Form(String),
    /// It is of another form.
    #[error("the plan has schema {found}, and this version reads schema {SCHEMA}")]
    Schema {
        /// The form it names.
        found: u32,
    },
    /// A lever is there twice.
    #[error("the lever `{0}` is listed twice")]
    Twice(LeverName),
    /// A parameter is missing or makes no sense.
    #[error("the lever `{lever}` {what}")]
    Parameter {
        /// Which lever.
        lever: LeverName,
        /// What is wrong with what.
        what: String,
    },
    /// Two levers exclude each other.
    #[error("the levers `{first}` and `{second}` cannot be used together: {reason}")]
    Together {
        /// One of them.
        first: LeverName,
        /// The other.
        second: LeverName,
        /// Why.
        reason: &'static str,
    },
}

impl Plan {
    /// A plan of these levers alone.
    pub fn new(levers: Vec<LeverUse>) -> Self {
        Self {
            schema: SCHEMA,
            made_for: MadeFor::default(),
            expects: Expects::default(),
            verified: None,
            levers,
        }
    }

    /// Reads the file's text and checks that it makes sense by itself.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Self = toml::from_str(text).map_err(|error| {
            let place = error
                .span()
                .map_or_else(String::new, |span| at_line(text, span.start));
            PlanError::Form(format!("{}{place}", error.message().trim_end()))
        })?;
        plan.validate()?;
        Ok(plan)
    }

    /// The file's text: what the plan does in words, then the plan.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for lever in &self.levers {
            text.push_str("# ");
            text.push_str(&levers::describe(lever));
            text.push('\n');
        }
        // A plan of numbers, words and lists always has a form in TOML.
        text.push_str(&toml::to_string(self).unwrap_or_default());
        text
    }

    /// Whether parameters make sense and no two levers exclude each other.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.schema != SCHEMA {
            return Err(PlanError::Schema { found: self.schema });
        }
        let mut seen = BTreeSet::new();
        for lever in &self.levers {
            if !seen.insert(lever.name) {
                return Err(PlanError::Twice(lever.name));
            }
            levers::validate(lever).map_err(|what| PlanError::Parameter {
                lever: lever.name,
                what,
            })?;
        }
        match levers::conflict(&self.levers) {
            Some((first, second, reason)) => Err(PlanError::Together {
                first,
                second,
                reason,
            }),
            None => Ok(()),
        }
    }
}

fn at_line(text: &str, position: usize) -> String {
    let before = text.get(..position).unwrap_or_default();
    format!(" (line {})", before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Result<usize, &str>) {
        let found = Plan::parse(text)
            .map(|plan| plan.levers.len())
            .map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn what_is_a_plan() {
        check("schema = 1", Ok(0));
        check(
            "schema = 1\n[[lever]]\nname = \"micro-batch\"\nchunks = 4",
            Ok(1),
        );
        check(
            "schema = 1\n[expects]\ntorch = \"2.15\"\nmodules = { \"blocks.0\" = \"Block\" }",
            Ok(0),
        );
    }

    #[test]
    fn what_is_none() {
        check(
            "schema = 2",
            Err("the plan has schema 2, and this version reads schema 1"),
        );
        check(
            "schema = 1\n[[lever]]\nname = \"micro-batch\"",
            Err("the lever `micro-batch` needs `chunks`, a whole number of at least 2"),
        );
        check(
            "schema = 1\n[[lever]]\nname = \"micro-batch\"\nchunks = 1",
            Err("the lever `micro-batch` needs `chunks`, a whole number of at least 2"),
        );
        check(
            "schema = 1\n[[lever]]\nname = \"micro-batch\"\nchunks = 2\nsize = 3",
            Err("the lever `micro-batch` has no parameter `size`"),
        );
        let twice = "[[lever]]\nname = \"micro-batch\"\nchunks = 4\n";
        check(
            &format!("schema = 1\n{twice}{twice}"),
            Err("the lever `micro-batch` is listed twice"),
        );
        let text = "schema = 1\n[[lever]]\nname = \"magic\"";
        let error = Plan::parse(text).expect_err("no such lever").to_string();
        assert!(error.contains("magic") && error.contains("line"), "{error}");
        assert!(Plan::parse("schema =").is_err());
    }

    #[test]
    fn reads_what_it_writes() {
        let mut plan = Plan::new(vec![
            LeverUse::new(LeverName::MicroBatch, [("chunks", json!(4))]),
            LeverUse::new(
                LeverName::ActivationCheckpointing,
                [("modules", json!(["blocks.0", "blocks.1"]))],
            ),
        ]);
        plan.made_for.device = Some("NVIDIA GeForce RTX 4090".to_owned());
        plan.made_for.memory_bytes = Some(Bytes::from_gib(24));
        plan.expects.torch = Some(TorchVersion::new(2, 15));
        plan.expects
            .modules
            .insert("blocks.0".to_owned(), "Block".to_owned());
        plan.verified = Some(Verified {
            peak_allocated_bytes: Bytes::from_gib(5),
            peak_reserved_bytes: Bytes::from_gib(6),
            process_bytes: Bytes::from_gib(7),
            relative_time: 1.25,
            numerics: Numerics::Redrawn,
            numerics_reason: Some("the model draws".to_owned()),
        });
        let text = plan.to_toml();
        assert!(text.starts_with("# "), "{text}");
        assert_eq!(Plan::parse(&text), Ok(plan), "{text}");
    }
}
