//! The program and the virtual device, built as users get them.

use std::path::PathBuf;

use anyhow::Result;

use crate::repository::Repository;
use crate::spawn;

/// Builds `oomproof` and the virtual device, and returns the path of the program.
pub(crate) fn release(repository: &Repository) -> Result<PathBuf> {
    let packages = ["-p", "oomproof-cli", "-p", "oomproof-vgpu"];
    spawn::run(
        repository
            .cargo()
            .args(["build", "--release"])
            .args(packages),
    )?;
    Ok(repository.target.join("release").join("oomproof"))
}
