//! Why a verb could not do its work: one sentence, advice apart from it, and an exit code.
//!
//! The advice is data, so that it can be printed below the sentence and written into the JSON on its own.

use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

use crate::exit::Exit;

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Word by which programs tell failures apart; `docs/exit-codes.md` lists them.
    pub id: &'static str,
    /// How `oomproof` ends.
    pub exit: Exit,
    /// One sentence without a full stop.
    pub text: String,
    /// What the user can do, one line each.
    pub hints: Vec<String>,
    /// Whether it still has to be said.
    pub told: Told,
}

/// Whether the user has read of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Not yet.
    Not,
    /// The agent said so on the standard error, in the script's process.
    ByAgent,
}

impl Failure {
    /// A failure without advice.
    pub(crate) fn new(exit: Exit, id: &'static str, text: impl Into<String>) -> Self {
        Self {
            id,
            exit,
            text: text.into(),
            hints: Vec::new(),
            told: Told::Not,
        }
    }

    /// The command line is wrong.
    pub(crate) fn usage(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, id, text)
    }

    /// The environment is not fit.
    pub(crate) fn environment(id: &'static str, text: impl Into<String>) -> Self {
        Self::new(Exit::Environment, id, text)
    }

    /// A file or folder could not be read or written.
    pub(crate) fn io(doing: impl Display, path: &Path, error: &std::io::Error) -> Self {
        let failure = Self::environment(
            "io",
            format!("cannot {doing} {}: {}", path.display(), reason(error)),
        );
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                failure.hint("free some space, or set TMPDIR to a folder on a disk that has some")
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                failure.hint("set TMPDIR to a folder that you can write to")
            }
            _ => failure,
        }
    }

    /// Adds a line of advice.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The object that `--json` writes.
    pub(crate) fn to_json(&self) -> impl Serialize {
        ErrorForm {
            schema: 1,
            error: ErrorFields {
                code: self.id,
                text: self.text.clone(),
                hint: (!self.hints.is_empty()).then(|| self.hints.join("\n")),
            },
        }
    }
}

#[derive(Serialize)]
struct ErrorForm {
    schema: u32,
    error: ErrorFields,
}

#[derive(Serialize)]
struct ErrorFields {
    code: &'static str,
    text: String,
    hint: Option<String>,
}

/// The words of the operating system without the number that Rust appends.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failure: &Failure, text: &str, hint: Option<&str>) {
        let json = serde_json::to_value(failure.to_json()).unwrap();
        assert_eq!(json["error"]["text"], text);
        assert_eq!(json["error"]["hint"].as_str(), hint);
    }

    #[test]
    fn errors_of_the_system_lose_their_number() {
        let full = std::io::Error::from_raw_os_error(28);
        check(
            &Failure::io("write", Path::new("a/b"), &full),
            "cannot write a/b: no space left on device",
            Some("free some space, or set TMPDIR to a folder on a disk that has some"),
        );
    }

    #[test]
    fn hints_are_lines() {
        check(&Failure::usage("x", "wrong"), "wrong", None);
        check(
            &Failure::usage("x", "wrong").hint("a").hint("b"),
            "wrong",
            Some("a\nb"),
        );
    }
}
