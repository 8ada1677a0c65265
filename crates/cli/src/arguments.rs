//! The command line as it may be typed.

use clap::{Parser, Subcommand};

use crate::commands::check::CheckArgs;
use crate::commands::diff::DiffArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::fit::FitArgs;
use crate::commands::gpus::GpusArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::run::RunArgs;
use crate::commands::venv::VenvArgs;

/// What the user typed.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "oomproof",
    version,
    about = "GPU memory for PyTorch, without surprises",
    long_about = "GPU memory for PyTorch, without surprises.\n\n\
        Before a job runs: does it fit, on which GPU, and why not. No GPU is needed to find out.",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a training script on a GPU you do not have, and say whether it fits
    #[command(
        override_usage = "oomproof run [OPTIONS] <SCRIPT | -m MODULE> [ARGS]...",
        after_help = "Everything after SCRIPT or MODULE belongs to the script.\n\
            Both streams of the script go to the standard error; the verdict goes to the standard output.\n\
            Exit codes: 0 fits or tight, 3 the script failed, 5 environment, 10 does not fit, 11 unknown."
    )]
    Run(RunArgs),
    /// Find the cheapest changes that make a script fit, run them, and write them as a plan
    #[command(
        override_usage = "oomproof fit [OPTIONS] <SCRIPT | -m MODULE> [ARGS]...",
        after_help = "Everything after SCRIPT or MODULE belongs to the script.\n\
            Each plan is run on the virtual GPU, and the chosen one once more in whole before it is named.\n\
            Exit codes: 0 it fits, as it is or with the plan, 3 the script failed, 4 a plan was refused,\n\
            5 environment, 10 no plan fits, 11 unknown, 130 interrupted, with the best plan so far."
    )]
    Fit(FitArgs),
    /// Fail when a script needs more memory than it may, for CI
    #[command(
        override_usage = "oomproof check <--max SIZE | --baseline FILE> [OPTIONS] <SCRIPT | -m MODULE> [ARGS]...",
        after_help = "Everything after SCRIPT or MODULE belongs to the script.\n\
            Exit codes: 0 passed, 3 the script failed, 5 environment, 10 failed, 11 unknown."
    )]
    Check(CheckArgs),
    /// Try the allocator's settings on a recorded memory snapshot, without running anything
    #[command(
        after_help = "Snapshots come from torch.cuda.memory._dump_snapshot, and from `oomproof run --snapshot FILE`.\n\
            Exit codes: 0 done, 4 the file was refused, 10 none of the settings that were asked for gets through."
    )]
    Replay(ReplayArgs),
    /// Show what is in use in one memory snapshot and was not in another, by source line
    #[command(after_help = "Exit codes: 0 done, 4 a file was refused.")]
    Diff(DiffArgs),
    /// List the GPUs that can be imitated, and which of them a profile fits on
    Gpus(GpusArgs),
    /// Say why memory ran out, from a message, a log, a snapshot or a profile, and what will help
    #[command(
        after_help = "Exit codes: 0 explained, 4 the file cannot be read, 11 no failure was found."
    )]
    Explain(ExplainArgs),
    /// Make a light environment with torch and without NVIDIA's libraries
    Venv(VenvArgs),
}
