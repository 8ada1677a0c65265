//! The Python environments of the tasks: one with torch to run scripts in, one with the checking tools.
//!
//! Both are slow to make and the same every time, so each holds a stamp with the pins it was made from,
//! written last, and is used as it is while the stamp matches.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build;
use crate::repository::Repository;
use crate::spawn;

/// The torch that the demo and the tests run.
pub(crate) const TORCH: &str = "2.15.0";

const TEST_PINS: &[&str] = &[
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
    "numpy",
    "safetensors",
];
const TOOL_PINS: &[&str] = &["mypy==2.4.1", "pytest==9.2.0", "ruff==0.17.5"];

/// A light environment with torch, made by `oomproof venv`; the path of its Python.
pub(crate) fn torch(repository: &Repository) -> Result<PathBuf> {
    let folder = repository.target.join(format!("venv-{TORCH}"));
    let python = folder.join("bin/python");
    let stamp = Stamp::new(&folder, &[&[TORCH], TEST_PINS].concat());
    if stamp.is_fresh() {
        return Ok(python);
    }
    let program = build::release(repository)?;
    eprintln!(
        "      a light environment with torch {TORCH} in {}",
        folder.display()
    );
    spawn::run(
        repository
            .command(program)
            .arg("venv")
            .arg(&folder)
            .args(["--torch", TORCH]),
    )?;
    pip_install(repository, &python, TEST_PINS)?;
    stamp.write()?;
    Ok(python)
}

/// The environment with the tools that check Python; the path of its folder of programs.
pub(crate) fn tools(repository: &Repository) -> Result<PathBuf> {
    plain(repository, "venv-tools", TOOL_PINS)
}

/// An environment with nothing in it, to install the package into; the path of its folder of programs.
pub(crate) fn empty(repository: &Repository) -> Result<PathBuf> {
    plain(repository, "venv-package", &[])
}

fn plain(repository: &Repository, name: &str, pins: &[&str]) -> Result<PathBuf> {
    let folder = repository.target.join(name);
    let programs = folder.join("bin");
    let stamp = Stamp::new(&folder, pins);
    if stamp.is_fresh() {
        return Ok(programs);
    }
    eprintln!("      an environment in {}", folder.display());
    let mut command = repository.command("python3");
    spawn::run(command.args(["-m", "venv"]).arg(&folder)).context(
        "an environment could not be made\n\nhint: on Debian, `apt-get install python3-venv`",
    )?;
    if !pins.is_empty() {
        pip_install(repository, &programs.join("python"), pins)?;
    }
    stamp.write()?;
    Ok(programs)
}

/// Where an environment has its packages.
pub(crate) fn site_packages(repository: &Repository, python: &Path) -> Result<PathBuf> {
    let program = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let printed = spawn::capture(repository.command(python).args(["-c", program]))?;
    Ok(PathBuf::from(printed.trim_end()))
}

fn pip_install(repository: &Repository, python: &Path, pins: &[&str]) -> Result<()> {
    spawn::run(
        repository
            .command(python)
            .args(["-m", "pip", "install", "--disable-pip-version-check"])
            .args(pins),
    )
}

struct Stamp {
    file: PathBuf,
    text: String,
}

impl Stamp {
    fn new(folder: &Path, pins: &[&str]) -> Self {
        Self {
            file: folder.join("made-from.txt"),
            text: pins.join("\n") + "\n",
        }
    }

    fn is_fresh(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|text| text == self.text)
    }

    fn write(&self) -> Result<()> {
        fs::write(&self.file, &self.text)
            .with_context(|| format!("`{}` could not be written", self.file.display()))
    }
}
