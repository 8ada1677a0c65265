//! The README's commands, run, and their output compared with what the README shows.
//!
//! What a reader sees must be what a reader gets, but not all commands can run in a test: some install, some
//! need hours. So a `console` block runs unless the line before it is `<!-- not run: REASON -->`, and a line
//! `...` in it stands for any number of lines of output that differ from machine to machine.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::repository::Repository;
use crate::{build, environments};

/// Exit codes that are answers; the others mean that a command did not do what the README says.
pub(crate) const ANSWERS: [i32; 3] = [0, 10, 11];

/// Arguments of `cargo xtask readme`.
#[derive(Args)]
pub(crate) struct ReadmeArguments {
    /// Write what the commands print into the README where it differs or is only `...`.
    #[arg(long)]
    write: bool,
}

/// Compares, or writes.
pub(crate) fn run(repository: &Repository, arguments: &ReadmeArguments) -> Result<()> {
    if arguments.write {
        rewrite(repository)
    } else {
        check(repository).map(|line| println!("{line}"))
    }
}

/// Runs every block and compares; the line for the summary.
pub(crate) fn check(repository: &Repository) -> Result<String> {
    let document = read(repository)?;
    let path = search_path(repository)?;
    let mut n_commands = 0;
    let mut n_not_run = 0;
    for part in parts(&document) {
        match part {
            Part::Prose(_) => {}
            Part::NotRun(_) => n_not_run += 1,
            Part::Session(session) => {
                for exchange in exchanges(&session) {
                    let printed = output_of(repository, &path, exchange.command)?;
                    if !matches(&exchange.expected, &printed) {
                        bail!(
                            "`{}` prints something else than the README shows:\n{printed}\n\nhint: `cargo xtask readme --write`",
                            exchange.command
                        );
                    }
                    n_commands += 1;
                }
            }
        }
    }
    Ok(format!(
        "README: {n_commands} commands ran and agree, {n_not_run} blocks are marked as not run"
    ))
}

fn rewrite(repository: &Repository) -> Result<()> {
    let document = read(repository)?;
    let path = search_path(repository)?;
    let mut renewed = String::new();
    for part in parts(&document) {
        match part {
            Part::Prose(text) | Part::NotRun(text) => renewed += &text,
            Part::Session(session) => {
                for exchange in exchanges(&session) {
                    let printed = output_of(repository, &path, exchange.command)?;
                    let is_filled = exchange.expected != ["..."];
                    let shown = if is_filled && matches(&exchange.expected, &printed) {
                        exchange.expected.join("\n") + "\n"
                    } else {
                        printed
                    };
                    renewed += "$ ";
                    renewed += exchange.command;
                    renewed += "\n";
                    renewed += shown.trim_start_matches('\n');
                }
            }
        }
    }
    fs::write(repository.root.join("README.md"), renewed).context("README.md cannot be written")
}

fn read(repository: &Repository) -> Result<String> {
    fs::read_to_string(repository.root.join("README.md")).context("README.md cannot be read")
}

/// The program and the environment's Python come first, as they do for a user who activated it.
fn search_path(repository: &Repository) -> Result<std::ffi::OsString> {
    let python = environments::torch(repository)?;
    let program = build::release(repository)?;
    let first = [program, python]
        .into_iter()
        .filter_map(|file| file.parent().map(Into::into));
    let others = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(first.chain(env::split_paths(&others)))?)
}

fn output_of(repository: &Repository, path: &std::ffi::OsStr, command: &str) -> Result<String> {
    eprintln!("      $ {command}");
    let output = Command::new("bash")
        .args(["-c", command])
        .current_dir(&repository.root)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()?;
    let ended_well = output
        .status
        .code()
        .is_some_and(|code| ANSWERS.contains(&code));
    if !ended_well {
        bail!(
            "`{command}` ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[derive(Debug, PartialEq)]
enum Part {
    /// Everything that is no `console` block, with the fences.
    Prose(String),
    /// The lines between the fences of a block that is not run.
    NotRun(String),
    /// The lines between the fences of a block that runs.
    Session(String),
}

fn parts(document: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut last_line = "";
    let mut is_run = None;
    for line in document.split_inclusive('\n') {
        let trimmed = line.trim_end();
        match is_run {
            None if trimmed == "```console" => {
                text += line;
                parts.push(Part::Prose(std::mem::take(&mut text)));
                is_run = Some(!last_line.starts_with("<!-- not run:"));
            }
            Some(runs) if trimmed == "```" => {
                let session = std::mem::take(&mut text);
                parts.push(if runs {
                    Part::Session(session)
                } else {
                    Part::NotRun(session)
                });
                text += line;
                is_run = None;
            }
            _ => text += line,
        }
        if !trimmed.is_empty() {
            last_line = trimmed;
        }
    }
    parts.push(Part::Prose(text));
    parts
}

struct Exchange<'a> {
    command: &'a str,
    expected: Vec<&'a str>,
}

fn exchanges(session: &str) -> Vec<Exchange<'_>> {
    let mut exchanges: Vec<Exchange<'_>> = Vec::new();
    for line in session.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            exchanges.push(Exchange {
                command,
                expected: Vec::new(),
            });
        } else if let Some(exchange) = exchanges.last_mut() {
            exchange.expected.push(line);
        }
    }
    exchanges
}

/// Whether the printed lines are the expected ones, where `...` stands for any number of lines.
fn matches(expected: &[&str], printed: &str) -> bool {
    let printed: Vec<_> = printed.trim_end().lines().map(str::trim_end).collect();
    lines_match(expected, &printed)
}

fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((line, rest)) => {
            printed.first().is_some_and(|first| first == line) && lines_match(rest, &printed[1..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, printed: &str, agrees: bool) {
        let expected: Vec<_> = expected.lines().collect();
        assert_eq!(matches(&expected, printed), agrees);
    }

    #[test]
    fn three_dots_stand_for_any_lines() {
        check("", "", true);
        check("a\nb", "a\nb\n", true);
        check("a\nb", "a  \nb", true);
        check("a\nb", "a\nc", false);
        check("a", "a\nb", false);
        check("a\n...", "a\nb\nc", true);
        check("...\nc", "a\nb\nc", true);
        check("a\n...\nc", "a\nc", true);
        check("a\n...\nd", "a\nb\nc", false);
        check("...", "", true);
    }

    #[test]
    fn the_line_before_a_block_decides_whether_it_runs() {
        let document =
            "x\n```console\n$ a\n1\n```\n<!-- not run: slow -->\n```console\n$ b\n```\ny\n";
        let expected = vec![
            Part::Prose("x\n```console\n".into()),
            Part::Session("$ a\n1\n".into()),
            Part::Prose("```\n<!-- not run: slow -->\n```console\n".into()),
            Part::NotRun("$ b\n".into()),
            Part::Prose("```\ny\n".into()),
        ];
        assert_eq!(parts(document), expected);
    }

    #[test]
    fn a_session_is_commands_with_their_output() {
        let found: Vec<_> = exchanges("$ a b\n1\n2\n$ c\n")
            .into_iter()
            .map(|exchange| (exchange.command, exchange.expected))
            .collect();
        assert_eq!(found, [("a b", vec!["1", "2"]), ("c", vec![])]);
    }
}
