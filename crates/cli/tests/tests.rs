//! The program as users meet it: exit code, standard output and standard error of real calls.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

/// A folder, an environment and fake interpreters for each test.
mod setting;

/// Where our arguments end and the script's begin.
mod arguments;
/// How child processes are ended.
mod endings;
/// What ran out, why, and what helps.
mod explain;
/// The list of cards.
mod gpus;
/// What `--help` says.
mod help;
/// Every refusal: one sentence, a hint and the documented code.
mod refusals;
/// Recorded traces under other settings, and what differs between two snapshots.
mod replays;
/// The environment that `oomproof venv` makes.
mod venv;
