//! The command line of oomproof: verbs, printing, exit codes.
//!
//! [`main`] is the whole program; the executable and the Python package call it.
//!
//! ```
//! use oomproof_cli::{Exit, Resources, main};
//!
//! let exit = main(["oomproof", "gpus", "--json"].map(Into::into), Resources::default());
//! assert_eq!(exit, Exit::Done);
//! ```
//!
//! **Invariant:** this crate is the only one that prints, and it decides nothing about memory: it starts the script,
//! and shows what `analysis` found in the profile.

mod arguments;
mod commands;

mod applied_plan;
mod baseline;
mod calibration;
mod card;
#[cfg_attr(not(target_os = "linux"), path = "child_elsewhere.rs")]
mod child;
mod duration;
mod fitting;
mod folders;
mod given_back;
mod launch;
mod live;
mod notebook;
mod plan_file;
mod platform;
mod profile_file;
mod pruning;
mod python;
mod ranks;
mod resources;
mod scale;
mod smi;
mod snapshot_file;
mod split;
mod standin_cache;
mod starters;
mod torch;
mod trial;
mod valuation;
#[cfg_attr(not(target_os = "linux"), path = "warm_elsewhere.rs")]
mod warm;

mod bar;
mod exit;
mod explain_text;
mod failure;
mod fit_report;
mod fit_text;
mod growth_text;
mod printer;
mod program;
mod replay_text;
mod verdict_text;
mod wrap;

pub use exit::Exit;
pub use program::main;
pub use resources::Resources;
