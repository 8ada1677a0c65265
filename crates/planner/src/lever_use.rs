//! A lever with its parameters: what plans list, and what the part that applies levers is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lever_name::LeverName;

/// The parameters of a lever by name.
pub type Parameters = BTreeMap<String, Value>;

/// A lever as a plan uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeverUse {
    /// Which lever.
    pub name: LeverName,
    /// With what: counts, words, module paths.
    #[serde(flatten)]
    pub parameters: Parameters,
}

impl LeverUse {
    /// A lever with these parameters.
    pub fn new<const N: usize>(name: LeverName, parameters: [(&str, Value); N]) -> Self {
        let parameters = parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Self { name, parameters }
    }

    /// A parameter that is a whole number.
    pub fn count(&self, parameter: &str) -> Option<u64> {
        self.parameters.get(parameter)?.as_u64()
    }

    /// A parameter that is a word.
    pub fn word(&self, parameter: &str) -> Option<&str> {
        self.parameters.get(parameter)?.as_str()
    }

    /// A parameter that is a list of words, such as the paths of modules; empty where it is none.
    pub fn words(&self, parameter: &str) -> Vec<&str> {
        match self.parameters.get(parameter) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
