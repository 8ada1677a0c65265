//! `oomproof venv`: a light environment with torch and without NVIDIA's libraries.
//!
//! torch names those libraries as requirements, so it is installed without any and the others are added from its
//! own metadata; the virtual GPU stands in for the rest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::printer;
use crate::python;
use crate::torch;

/// Prints what torch needs apart from CUDA, one requirement a line.
const REQUIREMENTS: &str = include_str!("../requirements.py");

/// Arguments of `oomproof venv`.
#[derive(Clone, Debug, Args)]
pub(crate) struct VenvArgs {
    /// The folder to make it in
    #[arg(value_name = "PATH")]
    pub folder: PathBuf,

    /// The version of torch
    #[arg(long, value_name = "VERSION", default_value = "2.15.0")]
    pub torch: String,

    /// The Python to make it with; by default the first in PATH
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes the environment, or finds that it is there.
pub(crate) fn venv(args: &VenvArgs) -> Result<Exit, Failure> {
    let folder = &args.folder;
    if args.torch.starts_with('-')
        || args.torch.chars().any(char::is_whitespace)
        || args.torch.is_empty()
    {
        return Err(Failure::usage(
            "torch_version",
            format!("`{}` is not a version of torch", args.torch),
        )
        .hint("give one such as `--torch 2.15.0`"));
    }
    if !torch::has_release(&args.torch) {
        return Err(Failure::usage(
            "torch_version",
            format!(
                "torch {} is not one that `oomproof run` can use",
                args.torch
            ),
        )
        .hint(torch::supported()));
    }
    let inside = if cfg!(windows) { "Scripts" } else { "bin" };
    let python = folder
        .join(inside)
        .join(format!("python{}", std::env::consts::EXE_SUFFIX));
    let exists = folder.join("pyvenv.cfg").is_file();
    if !exists && folder.exists() && !is_empty_folder(folder) {
        return Err(Failure::usage(
            "not_a_venv",
            format!(
                "{} exists and is not a virtual environment",
                folder.display()
            ),
        )
        .hint("name a new folder"));
    }
    let installed = if exists { installed(&python) } else { None };
    if installed.as_deref() == Some(&args.torch) && is_finished(folder, &args.torch) {
        printer::say(&format!(
            "{} has torch {} already",
            folder.display(),
            args.torch
        ));
        return finish(args, &python);
    }
    if let Some(other) = installed.filter(|other| *other != args.torch && !stamp(folder).is_file())
    {
        return Err(Failure::usage(
            "not_a_venv",
            format!(
                "{} is an environment of yours with torch {other}",
                folder.display()
            ),
        )
        .hint("name a new folder: torch would be replaced in this one"));
    }
    if !python.is_file() {
        let base = python::find(args.python.as_deref(), std::env::var_os("PATH").as_deref())?;
        printer::say(&format!(
            "[1/3] a virtual environment in {}",
            folder.display()
        ));
        // A failed `-m venv` can leave a folder without pip behind, so it is always made anew here.
        step(
            &base,
            [
                "-m".as_ref(),
                "venv".as_ref(),
                "--clear".as_ref(),
                folder.as_os_str(),
            ],
            || {
                Failure::environment(
                    "venv",
                    format!("{} cannot make a virtual environment", base.display()),
                )
                .hint("on Debian and Ubuntu the package `python3-venv` is needed")
            },
        )?;
    }
    let torch = format!("torch=={}", args.torch);
    printer::say(&format!("[2/3] {torch}, without NVIDIA's libraries"));
    install(&python, &["--no-deps".as_ref(), torch.as_ref()], &torch)?;
    printer::say("[3/3] what torch needs apart from CUDA, and numpy");
    let requirements = requirements(&python)?;
    let mut words: Vec<&OsStr> = vec!["--quiet".as_ref()];
    words.extend(requirements.iter().map(OsStr::new));
    install(&python, &words, "what torch requires")?;
    std::fs::write(stamp(folder), &args.torch)
        .map_err(|error| Failure::io("write", &stamp(folder), &error))?;
    finish(args, &python)
}

fn finish(args: &VenvArgs, python: &Path) -> Result<Exit, Failure> {
    if args.json {
        printer::json(&json!({
            "schema": 1, "folder": args.folder, "python": python, "torch": args.torch,
        }))?;
    } else {
        printer::data(&format!("{}\n", python.display()))?;
    }
    Ok(Exit::Done)
}

/// Written last, so that an environment whose making was interrupted is completed and not taken for whole.
fn stamp(folder: &Path) -> PathBuf {
    folder.join("oomproof-venv.txt")
}

fn is_finished(folder: &Path, torch: &str) -> bool {
    std::fs::read_to_string(stamp(folder)).is_ok_and(|written| written == torch)
}

fn is_empty_folder(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// The release of torch that is installed, without its local part such as `+cu132`.
fn installed(python: &Path) -> Option<String> {
    let version = python::probe(python).ok()?.torch?.version;
    Some(version.split('+').next()?.to_owned())
}

fn install(python: &Path, what: &[&OsStr], named: &str) -> Result<(), Failure> {
    // What is left out is left out on purpose, so pip's warnings of it would only alarm.
    let pip = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-warn-conflicts",
    ]
    .map(OsStr::new);
    step(python, pip.iter().chain(what).copied(), || {
        Failure::environment("install", format!("pip could not install {named}"))
            .hint("the lines above are pip's own; a network or a package index that it can reach is needed")
            .hint("the same command goes on where this one stopped")
    })
}

fn requirements(python: &Path) -> Result<Vec<String>, Failure> {
    let failed = || Failure::environment("install", "the requirements of torch cannot be read");
    let output = Command::new(python)
        .args(["-c", REQUIREMENTS])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| failed())?;
    if !output.status.success() {
        return Err(failed());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .map(str::to_owned)
        .filter(|line| !line.is_empty())
        .collect())
}

/// Runs one program whose talk goes to our stderr.
fn step<'a>(
    program: &Path,
    arguments: impl IntoIterator<Item = &'a OsStr>,
    failed: impl FnOnce() -> Failure,
) -> Result<(), Failure> {
    let status = Command::new(program)
        .args(arguments)
        .env_remove("OOMPROOF_RUN")
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::io::stderr()))
        .status()
        .map_err(|error| {
            Failure::environment(
                "no_python",
                format!(
                    "`{}` cannot be started: {}",
                    program.display(),
                    reason(&error)
                ),
            )
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(failed())
    }
}
