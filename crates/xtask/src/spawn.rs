//! Starting other programs, and keeping the few of their lines that a summary repeats.
//!
//! A step shows what its program prints while it prints it, and the closing summary quotes the runners' own
//! last lines. Both need the output, so it passes through a pipe here, line by line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// Runs a command to its end; its streams are ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = announce(command);
    let status = command
        .status()
        .with_context(|| format!("`{line}` could not be started"))?;
    if !status.success() {
        bail!("`{line}` failed with {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns its exit code; its streams are ours.
pub(crate) fn exit_code(command: &mut Command) -> Result<i32> {
    let line = announce(command);
    let status = command
        .status()
        .with_context(|| format!("`{line}` could not be started"))?;
    status
        .code()
        .with_context(|| format!("`{line}` was ended by {status}"))
}

/// Runs a command to its end, shows its output, and returns those lines of it that `is_kept` picks.
pub(crate) fn run_keeping(command: &mut Command, is_kept: fn(&str) -> bool) -> Result<Vec<String>> {
    let line = announce(command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` could not be started"))?;
    let out = child.stdout.take().context("no standard output")?;
    let err = child.stderr.take().context("no standard error")?;
    let errors = thread::spawn(move || pass_on(err, io::stderr(), is_kept));
    let mut kept = pass_on(out, io::stdout(), is_kept);
    kept.extend(errors.join().unwrap_or_default());
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed with {status}");
    }
    Ok(kept)
}

/// What a command prints on standard output, once it ended well.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{line}` could not be started"))?;
    if !output.status.success() {
        bail!("`{line}` failed with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no UTF-8"))
}

/// Whether a program can be started.
pub(crate) fn exists(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn pass_on(from: impl Read, mut to: impl Write, is_kept: fn(&str) -> bool) -> Vec<String> {
    let mut kept = Vec::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // A terminal that went away must not end the tests.
        let _ = writeln!(to, "{line}");
        if is_kept(&line) {
            kept.push(line.into_owned());
        }
    }
    kept
}

fn announce(command: &Command) -> String {
    let line = describe(command);
    eprintln!("      $ {line}");
    line
}

fn describe(command: &Command) -> String {
    let folder = command.get_current_dir();
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            let short = folder.and_then(|folder| word.strip_prefix(folder.to_str()?));
            short.map_or_else(
                || word.clone().into_owned(),
                |rest| rest.trim_start_matches('/').to_owned(),
            )
        })
        .collect::<Vec<_>>()
        .join(" ")
}
