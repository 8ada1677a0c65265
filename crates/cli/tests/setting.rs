//! A test's own folder, environment and interpreters. No test needs torch or a network: an interpreter is a shell
//! script that answers the probe, and then does what the test wants.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A torch that is supported.
pub(crate) const TORCH: &str =
    r#"{"version":"2.15.0+cu132","cuda":"13.2","hip":null,"requires":[]}"#;

/// A folder with a script, a home, and resources.
pub(crate) struct Setting {
    folder: TempDir,
}

impl Setting {
    pub(crate) fn new() -> Self {
        let setting = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["bin", "home", "tmp", "resources/agent"] {
            fs::create_dir_all(setting.path(folder)).unwrap();
        }
        fs::write(setting.path("resources/agent/sitecustomize.py"), "").unwrap();
        // Any ELF library will do: the fake interpreters never load it.
        fs::copy(
            env!("CARGO_BIN_EXE_oomproof"),
            setting.path("resources/liboomproof_vgpu.so"),
        )
        .unwrap();
        fs::write(setting.path("train.py"), "").unwrap();
        setting
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the first Python in PATH one of this version with this torch, which runs scripts by doing `body`.
    pub(crate) fn python(self, version: &str, torch: &str, body: &str) -> Self {
        let probe = format!(r#"{{"version":[{version}],"torch":{torch}}}"#);
        self.program(
            "python3",
            &format!("if [ \"$1\" = -c ]; then echo '{probe}'; exit 0; fi\n{body}"),
        )
    }

    /// Puts a shell script of this name in PATH.
    pub(crate) fn program(self, name: &str, body: &str) -> Self {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// `oomproof` with these words.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomproof"));
        command
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("bin").display()),
            )
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("OOMPROOF_RESOURCES", self.path("resources"));
        command
    }

    pub(crate) fn output(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Exit code, standard output and standard error, in a form that is the same everywhere.
    pub(crate) fn shown(&self, line: &str) -> String {
        self.shown_of(&self.output(line))
    }

    pub(crate) fn shown_of(&self, output: &Output) -> String {
        format!(
            "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            output
                .status
                .code()
                .map_or_else(|| "none".to_owned(), |code| code.to_string()),
            self.neutral(&output.stdout),
            self.neutral(&output.stderr),
        )
    }

    fn neutral(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let place = |path: &Path| path.display().to_string();
        let text = text.replace(&place(self.folder.path()), "[folder]");
        let words = text.split_inclusive(['/', ' ', '\n', '"']).map(|word| {
            let (body, end) =
                word.split_at(word.len() - usize::from(word.ends_with(['/', ' ', '\n', '"'])));
            if body.ends_with(".oomprofile") {
                format!("[profile]{end}")
            } else {
                word.to_owned()
            }
        });
        words.collect()
    }
}
