//! Where our own options end and the user's command begins.
//!
//! Everything after `SCRIPT` or `-m MODULE` belongs to the script, also `--gpu`, `--json`, `-h` and `--`, exactly as
//! after `python SCRIPT`. A parser of options cannot be trusted with it, so the line is cut before it is parsed;
//! clap's own definition of the verb says which options take a value.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

use crate::starters;

/// What Python is asked to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `python SCRIPT`.
    Script(OsString),
    /// `python -m MODULE`.
    Module(OsString),
}

/// The user's command: a target and all arguments after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserCommand {
    /// The script or module.
    pub target: Target,
    /// Its arguments, untouched.
    pub args: Vec<OsString>,
}

impl UserCommand {
    /// The arguments Python gets.
    pub(crate) fn python_args(&self) -> Vec<OsString> {
        let mut args = match &self.target {
            Target::Script(script) => vec![script.clone()],
            Target::Module(module) => vec!["-m".into(), module.clone()],
        };
        args.extend(self.args.iter().cloned());
        args
    }

    /// The name people know it by.
    pub(crate) fn name(&self) -> String {
        match &self.target {
            Target::Script(script) => starters::name_with_script(self)
                .unwrap_or_else(|| script.to_string_lossy().into_owned()),
            Target::Module(module) => starters::name_with_script(self)
                .unwrap_or_else(|| format!("-m {}", module.to_string_lossy())),
        }
    }
}

/// Cuts the arguments of `verb` (without the program and the verb itself) into ours and the user's.
pub(crate) fn split(verb: &Command, args: &[OsString]) -> (Vec<OsString>, Option<UserCommand>) {
    let mut ours = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let text = arg.to_string_lossy();
        let user = |target: Target, rest: usize| {
            Some(UserCommand {
                target,
                args: args.get(rest..).unwrap_or_default().to_vec(),
            })
        };
        if text == "-m" {
            let module = args.get(at + 1).cloned();
            return (
                ours,
                module.and_then(|module| user(Target::Module(module), at + 2)),
            );
        }
        if let Some(module) = text.strip_prefix("-m")
            && !text.starts_with("--")
        {
            return (ours, user(Target::Module(module.into()), at + 1));
        }
        if text == "--" {
            let script = args.get(at + 1).cloned();
            return (
                ours,
                script.and_then(|script| user(Target::Script(script), at + 2)),
            );
        }
        if !text.starts_with('-') || text == "-" {
            return (ours, user(Target::Script(arg.clone()), at + 1));
        }
        ours.push(arg.clone());
        at += 1;
        if takes_value(verb, arg)
            && let Some(value) = args.get(at)
        {
            ours.push(value.clone());
            at += 1;
        }
    }
    (ours, None)
}

/// Whether `option`, as typed, is followed by its value in the next argument.
fn takes_value(verb: &Command, option: &OsStr) -> bool {
    let text = option.to_string_lossy();
    verb.get_arguments().any(|arg| {
        let named = if let Some(long) = text.strip_prefix("--") {
            arg.get_long() == Some(long)
        } else {
            let mut letters = text.chars().skip(1);
            arg.get_short()
                .is_some_and(|short| letters.next() == Some(short))
                && letters.next().is_none()
        };
        // A value that may be left out follows an equals sign.
        named
            && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
            && !arg.is_require_equals_set()
    })
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn check(line: &str, ours: &str, user: Option<(Target, &str)>) {
        let verb = Command::new("run")
            .arg(Arg::new("gpu").long("gpu").short('g'))
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
            .arg(
                Arg::new("code")
                    .long("code")
                    .num_args(0..=1)
                    .require_equals(true),
            );
        let words = |text: &str| {
            text.split_whitespace()
                .map(OsString::from)
                .collect::<Vec<_>>()
        };
        let user = user.map(|(target, args)| UserCommand {
            target,
            args: words(args),
        });
        assert_eq!(split(&verb, &words(line)), (words(ours), user), "{line}");
    }

    fn script(name: &str) -> Target {
        Target::Script(name.into())
    }

    fn module(name: &str) -> Target {
        Target::Module(name.into())
    }

    #[test]
    fn everything_after_the_script_is_the_users() {
        check("train.py", "", Some((script("train.py"), "")));
        check(
            "--gpu rtx-4090 train.py --gpu 3 --json -h -- x",
            "--gpu rtx-4090",
            Some((script("train.py"), "--gpu 3 --json -h -- x")),
        );
        check(
            "--gpu=a b.py -m x",
            "--gpu=a",
            Some((script("b.py"), "-m x")),
        );
        check(
            "--json -g a b.py",
            "--json -g a",
            Some((script("b.py"), "")),
        );
        check("--code b.py", "--code", Some((script("b.py"), "")));
        check("--code=c b.py", "--code=c", Some((script("b.py"), "")));
        check("-ga b.py", "-ga", Some((script("b.py"), "")));
        check("-- --odd.py -h", "", Some((script("--odd.py"), "-h")));
        check("- x", "", Some((script("-"), "x")));
    }

    #[test]
    fn everything_after_the_module_is_the_users() {
        check(
            "--json -m pkg.train --json -m other",
            "--json",
            Some((module("pkg.train"), "--json -m other")),
        );
        check("-mpkg --help", "", Some((module("pkg"), "--help")));
        check("--gpu -m -m pkg", "--gpu -m", Some((module("pkg"), "")));
    }

    #[test]
    fn without_a_script_all_is_ours() {
        check("", "", None);
        check("--help", "--help", None);
        check("--gpu", "--gpu", None);
        check("--json -m", "--json", None);
        check("--unknown", "--unknown", None);
    }
}
