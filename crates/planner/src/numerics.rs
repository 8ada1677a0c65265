//! Whether a lever changes what is computed.

use serde::{Deserialize, Serialize};

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
    /// Training is different.
    Changes,
}

impl Numerics {
    /// The word of plans and of JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rounding => "rounding",
            Self::Changes => "changes",
        }
    }
}
