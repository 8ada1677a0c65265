//! `cargo xtask versions`: every supported release of torch, tried for real. Takes an hour and 20 GB.
//!
//! For each release an environment is made, what its torch links is checked against the stand-ins' tables, and the
//! programs of `tests/python/same`, random programs of the allocator, the operations of `tests/python/values` and the example run on it. CI does this for
//! one release only.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use crate::repository::Repository;
use crate::{allocator, build, environments, generate, spawn};

/// The wheels that the command line knows as tried, one for each minor version.
const RELEASES: &[&str] = &[
    "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0",
    "2.14.1", "2.15.0",
];

/// How many random programs each release's allocator runs.
const PROGRAMS: u64 = 500;

/// Arguments of `cargo xtask versions`.
#[derive(Args)]
pub(crate) struct VersionsArguments {
    /// The releases to try; all when none is given.
    releases: Vec<String>,
    /// Use the environments in this folder, one for each release and named by it, in place of new ones below target/.
    #[arg(long, value_name = "FOLDER")]
    environments: Option<PathBuf>,
}

/// Tries them one after the other; an error at the end when one failed.
pub(crate) fn run(repository: &Repository, arguments: &VersionsArguments) -> Result<()> {
    let program = build::release(repository)?;
    let tests = environments::torch(repository)?;
    let chosen: Vec<&str> = if arguments.releases.is_empty() {
        RELEASES.to_vec()
    } else {
        arguments.releases.iter().map(String::as_str).collect()
    };
    let mut failed = Vec::new();
    for release in chosen {
        eprintln!("torch {release}");
        let tried = Try {
            repository,
            program: &program,
            tests: &tests,
            release,
            environments: arguments.environments.as_deref(),
        };
        match tried.all() {
            Ok(()) => println!("ok      {release}"),
            Err(error) => {
                println!("FAILED  {release}: {error:#}");
                failed.push(release);
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: torch {}", failed.join(", "));
    }
    Ok(())
}

/// One release, and what trying it needs.
struct Try<'a> {
    repository: &'a Repository,
    program: &'a Path,
    /// The Python that has pytest.
    tests: &'a Path,
    release: &'a str,
    environments: Option<&'a Path>,
}

impl Try<'_> {
    fn all(&self) -> Result<()> {
        let python = self.environment()?;
        let site_packages = environments::site_packages(self.repository, &python)?;
        generate::run(generate::Mode::Check { site_packages })?;
        self.python_tests(&python)?;
        for line in allocator::check(self.repository, self.program, &python, PROGRAMS)? {
            println!("{line}");
        }
        self.example(&python)
    }

    fn environment(&self) -> Result<PathBuf> {
        if let Some(folder) = self.environments {
            return Ok(folder.join(self.release).join("bin/python"));
        }
        let folder = self
            .repository
            .target
            .join(format!("venv-{}", self.release));
        spawn::run(
            self.repository
                .command(self.program)
                .arg("venv")
                .arg(&folder)
                .args(["--torch", self.release]),
        )?;
        Ok(folder.join("bin/python"))
    }

    fn python_tests(&self, python: &Path) -> Result<()> {
        let mut command = self.repository.command(self.tests);
        command
            .args(["-m", "pytest", "-q", "tests/python/same"])
            .arg("tests/python/values/test_small_work.py")
            .env("OOMPROOF_BIN", self.program)
            .env("OOMPROOF_TEST_PYTHON", python)
            .env("OOMPROOF_LONG", "1");
        spawn::run(&mut command)
    }

    fn example(&self, python: &Path) -> Result<()> {
        let mut command = self.repository.command(self.program);
        command
            .args(["run", "--gpu", "a100-40gb", "--python"])
            .arg(python)
            .arg("examples/train_gpt2.py");
        spawn::run(&mut command)
    }
}
