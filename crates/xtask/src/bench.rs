//! `cargo xtask bench`: the benches in `bench/`, which measure and score, and take minutes.
//!
//! A bench is a folder there with a `run.py` or `run.sh`, whose first comment or docstring line says what it measures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::repository::Repository;
use crate::{build, environments, spawn};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// The bench to run; none lists them.
    name: Option<String>,
    /// Arguments of the script.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Lists the benches, or runs one with the program, the device and the environment ready.
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
        let bench = entry?.path();
        let files = ["run.py", "run.sh"].map(|file| bench.join(file));
        scripts.extend(files.into_iter().find(|file| file.is_file()));
    }
    scripts.sort();
    Ok(scripts)
}

fn name_of(script: &Path) -> String {
    script
        .parent()
        .and_then(Path::file_name)
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
