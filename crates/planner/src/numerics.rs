//! Whether a lever changes what is computed. Some only do in a script that draws random numbers, such as for dropout:
//! parts of a batch draw others than the whole, though of the same kind.

use serde::{Deserialize, Serialize};

use crate::facts::Facts;

/// How far results stay the same; the order is from the least change to the greatest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Numerics {
    /// Bit for bit the same.
    #[default]
    None,
    /// The same but for the order in which numbers are rounded.
    Rounding,
    /// Other random numbers of the same kind; otherwise as with `Rounding`.
    Redrawn,
    /// Training is different.
    Changes,
}

impl Numerics {
    /// The word of plans and of JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rounding => "rounding",
            Self::Redrawn => "redrawn",
            Self::Changes => "changes",
        }
    }
}

/// Which random numbers are others under a lever than without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redraws {
    /// None of them.
    Nothing,
    /// Those of the model's forward pass.
    InForward,
    /// Those of all that a loop does with a batch.
    InLoop,
}

impl Redraws {
    /// Why they are others in this script; `None` where none are drawn.
    pub(crate) const fn reason(self, facts: &Facts) -> Option<&'static str> {
        let seen = match self {
            Self::Nothing => return None,
            Self::InForward => facts.forward_draws,
            // The loop calls the model.
            Self::InLoop => match (facts.forward_draws, facts.loop_draws) {
                (Some(true), _) => Some(true),
                (_, Some(true)) => return Some("the loop draws random numbers for each batch"),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        };
        match seen {
            Some(false) => None,
            Some(true) => Some("the model draws random numbers, as for dropout"),
            None => Some("it was not seen whether random numbers are drawn"),
        }
    }
}
