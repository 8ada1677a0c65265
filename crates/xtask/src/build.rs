//! The program and the virtual device, built as users get them.

use std::path::PathBuf;

use anyhow::Result;

use crate::repository::Repository;
use crate::spawn;

/// Builds `oomproof` and the virtual device, and returns the path of the program.
pub(crate) fn release(repository: &Repository) -> Result<PathBuf> {
    // Apart, as the wheel builds them: together they would share features of their dependencies, and a shared library
    // has one file name for all its variants, so that each build would undo the other.
    for package in ["oomproof-vgpu", "oomproof-cli"] {
        spawn::run(
            repository
                .cargo()
                .args(["build", "--release", "-p", package]),
        )?;
    }
    Ok(repository.target.join("release").join("oomproof"))
}
