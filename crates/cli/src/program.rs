//! From the words on the command line to a verb and its exit code.

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::arguments::{Cli, Verb};
use crate::commands::{check, diff, explain, fit, gpus, replay, run, venv};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer;
use crate::resources::Resources;
use crate::split::{UserCommand, split};

/// Does what `arguments` say; the first of them is the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>, resources: Resources) -> Exit {
    let (ours, user) = cut(arguments.into_iter().collect());
    let wants_json = ours.iter().any(|argument| argument == "--json");
    let outcome = match Cli::try_parse_from(&ours) {
        Ok(cli) => dispatch(cli.verb, user, resources),
        Err(error) => not_understood(&error, &ours),
    };
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            printer::failure(&failure);
            if wants_json && let Err(unwritten) = printer::json(&failure.to_json()) {
                printer::failure(&unwritten);
            }
            failure.exit
        }
    }
}

fn dispatch(verb: Verb, user: Option<UserCommand>, resources: Resources) -> Result<Exit, Failure> {
    match verb {
        Verb::Run(args) => run::run(&args, user, resources),
        Verb::Fit(args) => fit::fit(&args, user, resources),
        Verb::Check(args) => check::check(&args, user, resources),
        Verb::Replay(args) => replay::replay(&args),
        Verb::Diff(args) => diff::diff(&args),
        Verb::Gpus(args) => gpus::gpus(&args, resources),
        Verb::Explain(args) => explain::explain(&args),
        Verb::Venv(args) => venv::venv(&args),
    }
}

/// Takes the user's command off the end, for the verbs that have one.
fn cut(mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<UserCommand>) {
    let cli = Cli::command();
    let verb = arguments
        .get(1)
        .filter(|verb| ["run", "check", "fit"].iter().any(|own| *verb == *own))
        .and_then(|verb| cli.find_subcommand(verb));
    let Some(verb) = verb else {
        return (arguments, None);
    };
    let rest = arguments.split_off(2);
    let (ours, user) = split(verb, &rest);
    arguments.extend(ours);
    (arguments, user)
}

/// Help and versions are data; everything else is an error in our own form.
fn not_understood(error: &clap::Error, arguments: &[OsString]) -> Result<Exit, Failure> {
    let rendered = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printer::data(&rendered.ansi().to_string())?;
            return Ok(Exit::Done);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = write!(anstream::stderr(), "{}", rendered.ansi());
            return Err(Failure::usage("usage", "no command was given"));
        }
        _ => {}
    }
    let plain = rendered.to_string();
    let mut paragraphs = plain.split("\n\n").flat_map(|part| part.split("\n\n"));
    let sentence = paragraphs.next().unwrap_or_default();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let text = words.join(" ").replace('\'', "`");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut failure = Failure::usage("usage", text);
    for line in plain.lines() {
        if let Some(tip) = line.trim().strip_prefix("tip: ") {
            failure = failure.hint(tip.replace('\'', "`"));
        }
    }
    let verb = arguments
        .get(1)
        .and_then(|verb| verb.to_str())
        .filter(|verb| Cli::command().find_subcommand(verb).is_some())
        .map_or_else(String::new, |verb| format!(" {verb}"));
    Err(failure.hint(format!("`oomproof{verb} --help` shows what can be said")))
}
