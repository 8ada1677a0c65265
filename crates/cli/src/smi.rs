//! The virtual `nvidia-smi`: a program of the run's folder that scripts find before the real one.
//!
//! Scripts ask it how full the card is, and libraries whether there is one. The answers are the agent's; this only
//! puts the program where `PATH` begins.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes the program into a new folder `folder`, and returns the `PATH` that begins there.
pub(crate) fn install(
    folder: &Path,
    python: &Path,
    agent: &Path,
    settings: &Path,
) -> io::Result<OsString> {
    fs::create_dir(folder)?;
    let program = folder.join("nvidia-smi");
    let answers = agent.join("_oomproof_agent").join("smi.py");
    let mut text = b"#!/bin/sh\nexec".to_vec();
    for word in [
        python.as_os_str(),
        OsStr::new("-I"),
        OsStr::new("-S"),
        answers.as_os_str(),
        settings.as_os_str(),
    ] {
        text.push(b' ');
        text.extend(quoted(word));
    }
    text.extend(b" \"$@\"\n");
    fs::write(&program, text)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    // Without the variable, programs are found where systems have them.
    let inherited = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let paths = std::iter::once(folder.to_path_buf()).chain(env::split_paths(&inherited));
    env::join_paths(paths).map_err(|error| io::Error::other(error.to_string()))
}

/// A word as the shell reads it back.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: &str) {
        assert_eq!(quoted(OsStr::new(word)), expected.as_bytes());
    }

    #[test]
    fn the_shell_reads_words_as_they_are() {
        check("/usr/bin/python3", "'/usr/bin/python3'");
        check("a folder/it's", "'a folder/it'\\''s'");
    }

    #[test]
    fn the_program_gets_what_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("bin");
        let path = install(
            &folder,
            Path::new("/bin/echo"),
            Path::new("/a b"),
            Path::new("/s"),
        )
        .unwrap();
        assert!(path.as_bytes().starts_with(folder.as_os_str().as_bytes()));
        let told = std::process::Command::new(folder.join("nvidia-smi"))
            .arg("-L")
            .output()
            .unwrap();
        assert_eq!(told.stdout, b"-I -S /a b/_oomproof_agent/smi.py /s -L\n");
    }
}
