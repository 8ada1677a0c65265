//! `cargo xtask demo`: from a fresh checkout to a verdict.

use anyhow::{Result, bail};

use crate::environments::{self, TORCH};
use crate::readme::ANSWERS;
use crate::repository::Repository;
use crate::{build, spawn};

const EXAMPLE: &str = "examples/train_gpt2.py";

/// Builds, makes the environment, and runs the example on the GPU that `run_arguments` name.
pub(crate) fn run(repository: &Repository, run_arguments: &[String]) -> Result<()> {
    eprintln!("[1/3] build `oomproof` and the virtual device");
    let program = build::release(repository)?;
    eprintln!("[2/3] light environment with torch {TORCH}, kept below target/");
    let python = environments::torch(repository)?;
    eprintln!("[3/3] {EXAMPLE}, unmodified, on a GPU this machine need not have");
    let default_arguments = ["--gpu".to_owned(), "rtx-4090".to_owned()];
    let run_arguments = if run_arguments.is_empty() {
        &default_arguments[..]
    } else {
        run_arguments
    };
    let mut command = repository.command(program);
    command
        .arg("run")
        .args(run_arguments)
        .arg("--python")
        .arg(python)
        .arg(EXAMPLE);
    let code = spawn::exit_code(&mut command)?;
    if !ANSWERS.contains(&code) {
        bail!("`oomproof run` ended with code {code}, which is no verdict");
    }
    Ok(())
}
