//! The user's Python: which one, and what it holds.
//!
//! torch takes seconds to import and may refuse to without its libraries, so it is never imported to look at it:
//! one short program reads its version file and its metadata.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::failure::{Failure, reason};

/// Runs under any Python, also 2.7, so that an old one can be told from a broken one.
const PROBE: &str = include_str!("probe.py");

/// What [`PROBE`] prints.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Probe {
    /// Major, minor and patch version of Python.
    pub version: (u32, u32, u32),
    /// What was found of torch; absent when it is not installed, and for a Python too old to ask.
    #[serde(default)]
    pub torch: Option<TorchProbe>,
}

/// The user's torch, as its own files describe it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct TorchProbe {
    /// Such as `2.15.0+cu132`.
    pub version: String,
    /// The CUDA version it was built with, such as `13.2`.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The version of `ROCm` it was built with.
    #[serde(default)]
    pub hip: Option<String>,
    /// What it requires, as its metadata says.
    #[serde(default)]
    pub requires: Vec<String>,
}

/// An interpreter and what was found out about it.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    /// As it will be started: a virtual environment is known by this path, not by the real one.
    pub path: PathBuf,
    /// What it said of itself.
    pub probe: Probe,
}

/// The interpreter named by `--python`, or the first in `PATH`, and what it says of itself.
pub(crate) fn interpreter(named: Option<&Path>) -> Result<Interpreter, Failure> {
    let path = find(named, env::var_os("PATH").as_deref())?;
    let probe = probe(&path)?;
    Ok(Interpreter { path, probe })
}

/// The interpreter named, or the first `python3` or `python` in the folders of `path`.
pub(crate) fn find(named: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let Some(named) = named else {
        return path
            .iter()
            .flat_map(|folders| env::split_paths(folders))
            .flat_map(|folder| ["python3", "python"].map(|name| folder.join(exe(name))))
            .find(|candidate| is_executable(candidate))
            .ok_or_else(|| {
                Failure::environment("no_python", "there is no `python3` or `python` in PATH")
                    .hint("activate the environment that holds torch, or name its interpreter with `--python PATH`")
            });
    };
    let inside = if cfg!(windows) { "Scripts" } else { "bin" };
    let candidate = if named.is_dir() {
        named.join(inside).join(exe("python"))
    } else if named.components().count() == 1 && !named.exists() {
        return path
            .iter()
            .flat_map(|folders| env::split_paths(folders))
            .map(|folder| folder.join(named))
            .find(|candidate| is_executable(candidate))
            .ok_or_else(|| no_interpreter(named));
    } else {
        named.to_path_buf()
    };
    if !is_executable(&candidate) {
        return Err(no_interpreter(&candidate));
    }
    std::path::absolute(&candidate).map_err(|error| Failure::io("use", &candidate, &error))
}

fn no_interpreter(path: &Path) -> Failure {
    Failure::environment(
        "no_python",
        format!(
            "`{}` is not a Python interpreter that can be started",
            path.display()
        ),
    )
    .hint("`--python` takes an interpreter, its name in PATH, or the folder of an environment")
}

fn exe(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Asks the interpreter at `path` about itself.
pub(crate) fn probe(path: &Path) -> Result<Probe, Failure> {
    let output = Command::new(path)
        .args(["-c", PROBE])
        .env_remove("OOMPROOF_RUN")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::environment(
                "no_python",
                format!("`{}` cannot be started: {}", path.display(), reason(&error)),
            )
        })?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| {
            let failure = Failure::environment(
                "no_python",
                format!(
                    "`{}` does not answer as a Python does ({})",
                    path.display(),
                    output.status
                ),
            );
            match String::from_utf8_lossy(&output.stderr).lines().last() {
                Some(line) if !line.trim().is_empty() => {
                    failure.hint(format!("it said: {}", line.trim()))
                }
                _ => failure,
            }
        })
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn fake(path: &Path, body: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_first_folder_in_path_decides() {
        let tree = tempfile::tempdir().unwrap();
        let at = |name: &str| tree.path().join(name);
        fake(&at("a/python"), "");
        fake(&at("b/python3"), "");
        fake(&at("b/python"), "");
        fs::create_dir_all(at("c/python3")).unwrap();
        let check = |folders: &[&str], expected: Option<&str>| {
            let path = env::join_paths(folders.iter().map(|folder| at(folder))).unwrap();
            assert_eq!(
                find(None, Some(&path)).ok(),
                expected.map(at),
                "{folders:?}"
            );
        };
        check(&["a", "b"], Some("a/python"));
        check(&["b", "a"], Some("b/python3"));
        check(&["c", "missing", "a"], Some("a/python"));
        check(&["c"], None);
    }

    #[test]
    fn a_named_one_is_an_interpreter_a_name_or_a_folder() {
        let tree = tempfile::tempdir().unwrap();
        let python = tree.path().join("env/bin/python");
        fake(&python, "");
        let path = python.parent().unwrap().as_os_str();
        let check = |named: &Path, ok: bool| {
            let found = find(Some(named), Some(path)).ok();
            assert_eq!(found, ok.then(|| python.clone()), "{}", named.display());
        };
        check(&python, true);
        check(&tree.path().join("env"), true);
        check(Path::new("python"), true);
        check(Path::new("python-of-nobody"), false);
        check(&tree.path().join("nowhere"), false);
    }

    #[test]
    fn noise_around_the_answer_is_passed_over() {
        let tree = tempfile::tempdir().unwrap();
        let python = tree.path().join("python");
        fake(
            &python,
            r#"echo hello; echo '{"version":[3,11,7],"torch":{"version":"2.15.0+cu132","cuda":"13.2"}}'; echo bye"#,
        );
        let probe = probe(&python).unwrap();
        assert_eq!(probe.version, (3, 11, 7));
        assert_eq!(probe.torch.unwrap().cuda.as_deref(), Some("13.2"));
    }

    #[test]
    fn what_is_no_python_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        let python = tree.path().join("python");
        fake(&python, "echo 'no such option' >&2; exit 64");
        let failure = probe(&python).unwrap_err();
        assert_eq!(failure.id, "no_python");
        assert_eq!(failure.hints, ["it said: no such option"]);
    }
}
