//! What reaches which stream: data goes to stdout, talk to stderr.
//!
//! A reader that goes away early, such as `head`, has got what it wanted, so a broken pipe is success.

use std::io::{self, Write};

use owo_colors::{AnsiColors, OwoColorize};
use serde::Serialize;

use crate::failure::{Failure, Told, reason};

/// Data for people: color is stripped unless a terminal shows it.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    outcome(anstream::stdout().write_all(text.as_bytes()))
}

/// Data for programs.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).map_err(|error| {
        Failure::environment(
            "io",
            format!("the result cannot be written as JSON: {error}"),
        )
    })?;
    text.push('\n');
    outcome(io::stdout().write_all(text.as_bytes()))
}

fn outcome(written: io::Result<()>) -> Result<(), Failure> {
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::environment(
            "io",
            format!("cannot write to the standard output: {}", reason(&error)),
        )),
        Ok(()) => Ok(()),
    }
}

/// One line of talk.
pub(crate) fn say(text: &str) {
    // When stderr is gone there is nobody left to tell.
    let _ = writeln!(anstream::stderr(), "oomproof: {text}");
}

/// Why a verb could not do its work.
pub(crate) fn failure(failure: &Failure) {
    if failure.told == Told::ByAgent {
        return;
    }
    let mut lines = vec![format!(
        "{} {}",
        "error:".color(AnsiColors::Red).bold(),
        failure.text
    )];
    if !failure.hints.is_empty() {
        lines.push(String::new());
    }
    let hint = "hint:".color(AnsiColors::Cyan).bold().to_string();
    lines.extend(failure.hints.iter().map(|text| format!("{hint} {text}")));
    let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
}
