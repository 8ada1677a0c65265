//! What the user says about values that the script reads and nobody knows.

use clap::{Args, ValueEnum};
use oomproof_profile::{AssumedRead, Routing, Values};

/// As it may be typed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ValueArgs {
    /// What the script reads at that line when it is not known: a number, true or false; may be given again
    #[arg(long, value_name = "FILE:LINE=VALUE", value_parser = str::parse::<AssumedRead>)]
    pub assume: Vec<AssumedRead>,

    /// Whether small work is really done and unknown values are assumed; off: what is not known reads as 0
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true
    )]
    pub values: ValuesWord,

    /// How unknown choices fall, such as a token's experts: evenly, or on the same ones every time
    #[arg(
        long,
        value_name = "balanced|worst",
        default_value = "balanced",
        hide_possible_values = true
    )]
    pub routing: RoutingWord,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ValuesWord {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoutingWord {
    Balanced,
    Worst,
}

/// As it goes to the device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Valuation {
    pub(crate) values: Values,
    pub(crate) routing: Routing,
    pub(crate) assume: Vec<AssumedRead>,
}

impl From<&ValueArgs> for Valuation {
    fn from(typed: &ValueArgs) -> Self {
        Self {
            values: match typed.values {
                ValuesWord::On => Values::On,
                ValuesWord::Off => Values::Off,
            },
            routing: match typed.routing {
                RoutingWord::Balanced => Routing::Balanced,
                RoutingWord::Worst => Routing::Worst,
            },
            assume: typed.assume.clone(),
        }
    }
}
