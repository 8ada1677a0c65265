//! What every lever has to say of itself. A lever is one row that one file fills in; nothing else knows levers by
//! name, so that a new one is a new file.

use std::fmt;
use std::str::FromStr;

use crate::facts::Facts;
use crate::lever_name::LeverName;
use crate::lever_use::{LeverUse, Parameters};
use crate::numerics::{Numerics, Redraws};
use crate::torch_version::TorchVersion;
use crate::workload::Workload;

/// The script that levers are considered for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script<'a> {
    pub facts: &'a Facts,
    /// `None` where it is not known; then nothing that needs a certain release is offered.
    pub torch: Option<TorchVersion>,
}

impl Script<'_> {
    pub(crate) fn has_torch(&self, major: u16, minor: u16) -> bool {
        self.torch >= Some(TorchVersion::new(major, minor))
    }
}

/// One lever.
#[derive(Debug)]
pub(crate) struct Lever {
    pub name: LeverName,
    /// How far results stay the same where no random numbers are drawn.
    pub numerics: Numerics,
    /// Which random numbers would be others than without it.
    pub redraws: Redraws,
    pub parameters: &'static [Parameter],
    /// Levers that it cannot be used with, and why.
    pub conflicts: &'static [(LeverName, &'static str)],
    /// Whether it is worth a run without being asked for.
    pub offered: Offered,
    /// Why it is of no use here.
    pub check: fn(&Script<'_>) -> Result<(), String>,
    /// The parameters worth trying, the cheapest first.
    pub options: fn(&Script<'_>) -> Vec<Parameters>,
    /// Its effect on the model of a step.
    pub shape: fn(&LeverUse, &mut Workload),
    /// What it does, in words.
    pub describe: fn(&LeverUse) -> String,
    /// What a person would write.
    pub code: fn(&LeverUse, &Writing<'_>) -> Option<String>,
}

/// When a lever is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Always.
    Freely,
    /// Only when the user names it.
    WhenAllowed,
    /// Never: it is advice, or what-if.
    AsAdvice,
}

/// A parameter of a lever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    pub holds: Holds,
    pub need: Need,
}

/// Whether a parameter may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holds {
    /// A whole number of at least so much.
    Count(u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
    /// A list of module paths that is not empty.
    Modules,
    /// A number from zero to one.
    Fraction,
}

impl Parameter {
    pub(crate) const fn required(name: &'static str, holds: Holds) -> Self {
        Self {
            name,
            holds,
            need: Need::Required,
        }
    }

    pub(crate) const fn optional(name: &'static str, holds: Holds) -> Self {
        Self {
            name,
            holds,
            need: Need::Optional,
        }
    }

    fn is_held_by(&self, value: &serde_json::Value) -> bool {
        match self.holds {
            Holds::Count(least) => value.as_u64().is_some_and(|count| count >= least),
            Holds::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Holds::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Holds::Modules => value.as_array().is_some_and(|items| {
                !items.is_empty()
                    && items
                        .iter()
                        .all(|item| item.as_str().is_some_and(|path| !path.is_empty()))
            }),
            Holds::Fraction => value
                .as_f64()
                .is_some_and(|number| (0.0..=1.0).contains(&number)),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, ", self.name)?;
        match self.holds {
            Holds::Count(least) => write!(f, "a whole number of at least {least}"),
            Holds::Word(words) => {
                f.write_str("one of ")?;
                for (word_idx, word) in words.iter().enumerate() {
                    let comma = if word_idx > 0 { ", " } else { "" };
                    write!(f, "{comma}`{word}`")?;
                }
                Ok(())
            }
            Holds::Text => f.write_str("a text"),
            Holds::Modules => f.write_str("a list of module paths"),
            Holds::Fraction => f.write_str("a number from 0 to 1"),
        }
    }
}

/// Says what is wrong with a lever's parameters.
pub(crate) fn validate(lever: &Lever, used: &LeverUse) -> Result<(), String> {
    for name in used.parameters.keys() {
        if lever.parameters.iter().all(|it| it.name != name) {
            return Err(format!("has no parameter `{name}`"));
        }
    }
    for parameter in lever.parameters {
        let is_right = match used.parameters.get(parameter.name) {
            None => parameter.need == Need::Optional,
            Some(value) => parameter.is_held_by(value),
        };
        if !is_right {
            return Err(format!("needs {parameter}"));
        }
    }
    Ok(())
}

/// The manner in which a script trains, which decides what a person would write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// A loop of the script's own.
    Plain,
    /// Hugging Face's `Trainer`.
    Trainer,
    /// Lightning.
    Lightning,
    /// accelerate.
    Accelerate,
}

impl Framework {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Trainer,
        Self::Lightning,
        Self::Accelerate,
    ];

    /// The word on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Trainer => "trainer",
            Self::Lightning => "lightning",
            Self::Accelerate => "accelerate",
        }
    }

    /// The framework that the facts show.
    pub fn of(facts: &Facts) -> Self {
        let shows = |word: &str| facts.frameworks.iter().any(|name| name.contains(word));
        if shows("Trainer") && !shows("ightning") {
            Self::Trainer
        } else if shows("ightning") {
            Self::Lightning
        } else if shows("ccelerat") {
            Self::Accelerate
        } else {
            Self::Plain
        }
    }
}

/// A word that names no framework.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of plain, trainer, lightning and accelerate")]
pub struct FrameworkError(String);

impl FromStr for Framework {
    type Err = FrameworkError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or_else(|| FrameworkError(text.to_owned()))
    }
}

/// For whom code is written.
#[derive(Clone, Copy, Debug)]
pub struct Writing<'a> {
    /// The manner in which the script trains.
    pub framework: Framework,
    /// The release of torch, where it is known.
    pub torch: Option<TorchVersion>,
    /// What is known of the script.
    pub facts: &'a Facts,
}
