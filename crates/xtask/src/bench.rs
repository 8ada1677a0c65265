//! `cargo xtask bench`: the scripts in `bench/`, which measure and score, and take minutes.
//!
//! A script is a Python or shell file there; its first comment or docstring line says what it measures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::repository::Repository;
use crate::{build, environments, spawn};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// The script to run, without its ending; none lists them.
    name: Option<String>,
    /// Arguments of the script.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Lists the scripts, or runs one with the program, the device and the environment ready.
pub(crate) fn run(repository: &Repository, arguments: &BenchArguments) -> Result<()> {
    let scripts = scripts(&repository.root.join("bench"))?;
    let Some(name) = &arguments.name else {
        for script in &scripts {
            println!(
                "{:<24} {}",
                name_of(script),
                purpose(&fs::read_to_string(script)?)
            );
        }
        return Ok(());
    };
    let Some(script) = scripts.iter().find(|script| name_of(script) == *name) else {
        bail!("there is no bench `{name}`\n\nhint: `cargo xtask bench` lists them");
    };
    let python = environments::torch(repository)?;
    let program = build::release(repository)?;
    let interpreter = if script.extension().is_some_and(|ending| ending == "py") {
        python.clone()
    } else {
        PathBuf::from("bash")
    };
    spawn::run(
        repository
            .command(interpreter)
            .arg(script)
            .args(&arguments.arguments)
            .env("OOMPROOF_BIN", program)
            .env("OOMPROOF_TEST_PYTHON", python),
    )
}

fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("`{}` cannot be read", folder.display()))?;
    let mut scripts = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_script = path
            .extension()
            .is_some_and(|ending| ending == "py" || ending == "sh");
        if is_script && !name_of(&path).starts_with('_') {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

fn name_of(script: &Path) -> String {
    script
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn purpose(text: &str) -> &str {
    text.lines()
        .filter(|line| !line.starts_with("#!"))
        .map(|line| {
            line.trim_start_matches(['#', '"', ' '])
                .trim_end_matches(['"', ' '])
        })
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::purpose;

    fn check(text: &str, expected: &str) {
        assert_eq!(purpose(text), expected);
    }

    #[test]
    fn the_first_line_of_prose_is_the_purpose() {
        check("\"\"\"Scores peaks.\n\nMore.\n\"\"\"\n", "Scores peaks.");
        check(
            "#!/usr/bin/env python3\n\"\"\"Scores peaks.\"\"\"\n",
            "Scores peaks.",
        );
        check(
            "#!/bin/bash\n# Times the example.\nset -e\n",
            "Times the example.",
        );
        check("", "");
    }
}
