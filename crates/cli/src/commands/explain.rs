//! `oomproof explain`: why memory ran out, and what will help.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use oomproof_analysis::{Circumstances, Strictness, Verdict};
use oomproof_explain::{
    Explanation, Input, Release, causes, explain as explained, explain_run, explain_snapshot,
    explain_with_run, explain_with_snapshot,
};
use oomproof_profile::{Profile, layout};
use oomproof_snapshot::Snapshot;
use serde::Serialize;

use crate::bar::Glyphs;
use crate::exit::Exit;
use crate::explain_text;
use crate::failure::{Failure, reason};
use crate::live;
use crate::printer;
use crate::profile_file;
use crate::snapshot_file;

/// Longer texts are read at both ends: the first failure and the last lines matter.
const LONGEST_TEXT: usize = 32 << 20;
/// From this length on reading takes a second, so that it is said.
const SAID_FROM: usize = 4 << 20;
/// Longest file that is read at all.
const LONGEST_FILE: u64 = 4 << 30;

/// Arguments of `oomproof explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The message, the log, the output of nvidia-smi, a memory snapshot, or the profile of a run; - reads the standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["list", "live"])]
    pub files: Vec<PathBuf>,

    /// A snapshot or a profile of the same script, whose lines and roles go with the figures of the text
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,

    /// The script, to point at lines of it that may hold the memory
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,

    /// The release of PyTorch, such as 2.6, when the text does not tell it
    #[arg(long, value_name = "VERSION", value_parser = release)]
    pub torch: Option<Release>,

    /// Ask the cards of this machine who holds their memory now, too
    #[arg(long)]
    pub live: bool,

    /// List the causes there are, and how they are told apart
    #[arg(long, conflicts_with_all = ["files", "with", "script", "torch", "live"])]
    pub list: bool,

    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// The causes in the form of their JSON.
#[derive(Clone, Debug, Serialize)]
struct List {
    schema: u32,
    causes: Vec<Line>,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    id: &'static str,
    title: &'static str,
    meaning: &'static str,
    apart: &'static str,
    check: &'static str,
}

/// Explains a text or a profile.
pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    if args.list {
        return list(args);
    }
    let script = args.script.as_deref().map(script).transpose()?;
    let given = Given::read(args)?;
    let found = given.explained(&Asked {
        script: script.as_deref(),
        script_path: args.script.as_deref().and_then(Path::to_str),
        torch: args.torch,
    })?;
    if args.json {
        printer::json(&found)?;
    } else {
        printer::data(&explain_text::render(&found, Glyphs::of_locale()))?;
    }
    Ok(if found.explained.is_some() || found.nvidia_smi.is_some() {
        Exit::Done
    } else {
        Exit::Unknown
    })
}

fn list(args: &ExplainArgs) -> Result<Exit, Failure> {
    let lines: Vec<Line> = causes()
        .iter()
        .map(|cause| Line {
            id: cause.id.word(),
            title: cause.title,
            meaning: cause.meaning,
            apart: cause.apart,
            check: cause.check,
        })
        .collect();
    if args.json {
        printer::json(&List {
            schema: oomproof_explain::SCHEMA,
            causes: lines,
        })?;
    } else {
        printer::data(&explain_text::list(causes()))?;
    }
    Ok(Exit::Done)
}

/// `2.6` or `2.6.0+cu124`.
fn release(text: &str) -> Result<Release, String> {
    text.parse()
        .map_err(|()| format!("`{text}` is no release of PyTorch such as 2.6"))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let refused = |error: &io::Error| {
        Failure::new(
            Exit::InputRefused,
            "unreadable_input",
            format!("cannot read {}: {}", file.display(), reason(error)),
        )
        .hint("give a file with the message or the log, or `-` and the text on the standard input")
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        let mut input = io::stdin().lock().take(LONGEST_FILE);
        input
            .read_to_end(&mut bytes)
            .map_err(|error| refused(&error))?;
    } else {
        let open = fs::File::open(file).map_err(|error| refused(&error))?;
        let mut input = open.take(LONGEST_FILE);
        input
            .read_to_end(&mut bytes)
            .map_err(|error| refused(&error))?;
    }
    Ok(bytes)
}

fn script(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| {
        Failure::usage(
            "script_missing",
            format!(
                "cannot read the script {}: {}",
                path.display(),
                reason(&error)
            ),
        )
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A profile begins with its mark and the number of its version; a pasted command begins with a word.
fn is_profile(bytes: &[u8]) -> bool {
    bytes.starts_with(&layout::MAGIC)
        && bytes
            .get(layout::MAGIC.len()..layout::MAGIC.len() + 4)
            .is_some_and(|rest| rest.contains(&0))
}

/// What was given: texts, and at most one record to go with them.
struct Given {
    text: String,
    record: Option<(PathBuf, Record)>,
}

enum Record {
    Run(Box<Verdict>),
    Snapshot(Box<Snapshot>),
}

/// What the user said beside the files.
struct Asked<'a> {
    script: Option<&'a str>,
    script_path: Option<&'a str>,
    torch: Option<Release>,
}

impl Given {
    fn read(args: &ExplainArgs) -> Result<Self, Failure> {
        let mut given = Self {
            text: String::new(),
            record: None,
        };
        for file in args.files.iter().chain(&args.with) {
            given.add(file)?;
        }
        if args.live {
            given.text.push_str(&live::overview()?);
        }
        Ok(given)
    }

    fn add(&mut self, file: &Path) -> Result<(), Failure> {
        let bytes = read(file)?;
        let record = if is_profile(&bytes) {
            Record::Run(Box::new(judged(file, &bytes)?))
        } else if is_snapshot(&bytes) {
            Record::Snapshot(Box::new(snapshot_file::parse(file, &bytes)?))
        } else if let Some(snapshot) = in_text(&bytes) {
            Record::Snapshot(Box::new(snapshot))
        } else {
            self.text.push_str(&both_ends(&bytes));
            self.text.push('\n');
            return Ok(());
        };
        if let Some((first, _)) = &self.record {
            return Err(Failure::usage(
                "two_records",
                format!(
                    "{} and {} are both a snapshot or a profile, and one moment is explained at a time",
                    first.display(),
                    file.display()
                ),
            )
            .hint("give one of them, with as many texts as there are"));
        }
        self.record = Some((file.to_path_buf(), record));
        Ok(())
    }

    fn explained(&self, asked: &Asked<'_>) -> Result<Explanation, Failure> {
        let input = Input {
            text: &self.text,
            script: asked.script,
            script_path: asked.script_path,
            torch: asked.torch,
            held: None,
        };
        match &self.record {
            None => Ok(explained(&input)),
            Some((file, Record::Run(verdict))) => {
                let found = if self.text.trim().is_empty() {
                    explain_run(verdict, asked.script)
                } else {
                    explain_with_run(&input, verdict)
                };
                found.ok_or_else(|| {
                    nothing(
                        format!(
                            "in the run of {} no request for memory was refused",
                            file.display()
                        ),
                        "`oomproof gpus --for PROFILE` says which cards it fits on",
                    )
                })
            }
            Some((file, Record::Snapshot(snapshot))) => {
                let found = if self.text.trim().is_empty() {
                    explain_snapshot(snapshot, asked.script)
                } else {
                    explain_with_snapshot(&input, snapshot)
                };
                found.ok_or_else(|| {
                    nothing(
                        format!("the snapshot {} has no request that failed", file.display()),
                        "failed requests are recorded while `torch.cuda.memory._record_memory_history()` is on",
                    )
                })
            }
        }
    }
}

fn nothing(text: String, hint: &str) -> Failure {
    Failure::new(Exit::Unknown, "nothing_to_explain", text).hint(hint)
}

fn judged(file: &Path, bytes: &[u8]) -> Result<Verdict, Failure> {
    let corrupt = |why: &str| profile_file::corrupt(file, why);
    let profile = Profile::read(bytes).map_err(|error| corrupt(&error.to_string()))?;
    let circumstances = Circumstances {
        exit_code: Some(1),
        strictness: Strictness::Lenient,
        ..Circumstances::default()
    };
    Verdict::from_profile(&profile, &circumstances).map_err(|error| corrupt(&error.to_string()))
}

/// What begins like a snapshot in one of its wrappings, and like no text.
fn is_snapshot(bytes: &[u8]) -> bool {
    let marks: [&[u8]; 4] = [b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];
    marks.iter().any(|mark| bytes.starts_with(mark))
}

/// Pages and traces are text, too, and so are logs: only what can be read as a snapshot is one.
fn in_text(bytes: &[u8]) -> Option<Snapshot> {
    let like = bytes.starts_with(b"<") || bytes.starts_with(b"{");
    like.then(|| Snapshot::read(bytes).ok()).flatten()
}

fn both_ends(bytes: &[u8]) -> String {
    if bytes.len() > SAID_FROM {
        printer::say(&format!("reading {} MiB of text", bytes.len() >> 20));
    }
    if bytes.len() <= LONGEST_TEXT {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let half = LONGEST_TEXT / 2;
    let (first, last) = (&bytes[..half], &bytes[bytes.len() - half..]);
    printer::say("the text is long: only its first and its last 16 MiB are read");
    format!(
        "{}\n{}",
        String::from_utf8_lossy(first),
        String::from_utf8_lossy(last)
    )
}
