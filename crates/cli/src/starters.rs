//! Programs that start a script several times, once for each rank: torchrun and its kin.
//!
//! People type them as commands. They are Python programs that lie beside the user's Python, and have to run under it
//! to be watched; and how many ranks they start says how many GPUs the machine needs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::python;
use crate::split::{Target, UserCommand};

/// The module behind `torchrun`.
const TORCHRUN: &str = "torch.distributed.run";

/// Names of programs and modules that start ranks.
const STARTERS: &[&str] = &[
    "torchrun",
    TORCHRUN,
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.runner",
];

/// Options that say how many ranks, without dashes and with `-` for `_`.
const COUNTS: &[&str] = &["nproc-per-node", "num-processes", "num-gpus"];

/// The Python program called `name` in the folder of the user's Python.
pub(crate) fn beside_python(named: Option<&Path>, name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() != 1 {
        return None;
    }
    let path = std::env::var_os("PATH");
    let python = python::find(named, path.as_deref()).ok()?;
    let program = python.parent()?.join(name);
    is_python(&program).then_some(program)
}

/// Whether the first line names a Python, as in the programs that pip writes.
fn is_python(program: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(program).and_then(|file| file.take(256).read_to_end(&mut begin));
    let line = begin
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    read.is_ok() && line.starts_with(b"#!") && String::from_utf8_lossy(line).contains("python")
}

/// What starts ranks, as people know it.
fn starter(user: &UserCommand) -> Option<String> {
    let name = match &user.target {
        Target::Script(script) => Path::new(script).file_name()?.to_string_lossy(),
        Target::Module(module) => module.to_string_lossy(),
    };
    STARTERS.contains(&name.as_ref()).then(|| name.into_owned())
}

/// The script among the arguments of a starter.
fn script(user: &UserCommand) -> Option<&OsString> {
    user.args
        .iter()
        .find(|argument| argument.to_string_lossy().ends_with(".py"))
}

/// The starter and its script, when the command is one: `torchrun train.py`.
pub(crate) fn name_with_script(user: &UserCommand) -> Option<String> {
    let starter = starter(user)?;
    let Some(script) = script(user) else {
        return Some(starter);
    };
    let script = script.to_string_lossy();
    Some(if starter == TORCHRUN {
        format!("torchrun {script}")
    } else {
        format!("{starter} {script}")
    })
}

/// How many ranks the command starts on this machine, when it says so.
pub(crate) fn n_ranks(user: &UserCommand) -> Option<u32> {
    starter(user)?;
    let mut arguments = user.args.iter().map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--") else {
            if argument.ends_with(".py") {
                return None;
            }
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        if COUNTS.contains(&name.replace('_', "-").as_str()) {
            let value = value.or_else(|| arguments.next().map(Into::into))?;
            return value.parse().ok().filter(|count| (1..=16).contains(count));
        }
    }
    None
}

/// The command, started once for each rank by torchrun. The ranks meet on the loopback device, at a port that is free.
pub(crate) fn with_ranks(user: UserCommand, ranks: u32) -> Result<UserCommand, Failure> {
    if let Some(starter) = starter(&user) {
        return Err(Failure::usage(
            "ranks_twice",
            format!("`--ranks` and `{starter}` would both start ranks"),
        )
        .hint(format!(
            "leave `--ranks` out, or give `--ranks {ranks}` the script itself"
        )));
    }
    let mut args: Vec<OsString> = [
        "--nnodes=1",
        &format!("--nproc-per-node={ranks}"),
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
    ]
    .map(Into::into)
    .to_vec();
    match user.target {
        Target::Script(script) => args.push(script),
        Target::Module(module) => args.extend(["--module".into(), module]),
    }
    args.extend(user.args);
    Ok(UserCommand {
        target: Target::Module(TORCHRUN.into()),
        args,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn command(line: &str) -> UserCommand {
        let mut words = line.split_whitespace().map(OsString::from).peekable();
        let is_module = words.next_if(|word| word == "-m").is_some();
        let target = words.next().unwrap();
        UserCommand {
            target: if is_module {
                Target::Module(target)
            } else {
                Target::Script(target)
            },
            args: words.collect(),
        }
    }

    #[test]
    fn the_command_says_how_many_ranks() {
        let check = |line: &str, expected| assert_eq!(n_ranks(&command(line)), expected, "{line}");
        check("/env/bin/torchrun --nproc-per-node 8 train.py", Some(8));
        check("torchrun --nproc_per_node=4 train.py", Some(4));
        check(
            "-m torch.distributed.run --standalone --nproc-per-node 2 t.py",
            Some(2),
        );
        check("accelerate launch --num_processes 2 t.py", Some(2));
        check("deepspeed --num_gpus=3 t.py", Some(3));
        check("torchrun --nproc-per-node gpu t.py", None);
        check("torchrun t.py --nproc-per-node 8", None);
        check("train.py --nproc-per-node 8", None);
        check("torchrun --nproc-per-node 800 t.py", None);
    }

    #[test]
    fn starters_are_named_with_their_script() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(
                name_with_script(&command(line)).as_deref(),
                expected,
                "{line}"
            );
        };
        check(
            "/env/bin/torchrun --nproc-per-node 8 a/train.py x",
            Some("torchrun a/train.py"),
        );
        check("-m torch.distributed.run t.py", Some("torchrun t.py"));
        check("accelerate launch t.py", Some("accelerate t.py"));
        check(
            "-m deepspeed.launcher.runner",
            Some("deepspeed.launcher.runner"),
        );
        check("train.py", None);
    }

    #[test]
    fn a_script_gets_its_ranks_from_torchrun() {
        let check = |line: &str, ends: &[&str]| {
            let started = with_ranks(command(line), 2).unwrap();
            assert_eq!(started.target, Target::Module(TORCHRUN.into()));
            assert_eq!(n_ranks(&started), Some(2));
            let ends: Vec<OsString> = ends.iter().map(OsString::from).collect();
            assert!(started.args.ends_with(&ends), "{started:?}");
        };
        check("train.py --lr 1", &["train.py", "--lr", "1"]);
        check("-m pkg.train x", &["--module", "pkg.train", "x"]);
        let refused = with_ranks(command("torchrun t.py"), 2).unwrap_err();
        assert_eq!(refused.id, "ranks_twice");
    }

    #[test]
    fn only_python_programs_run_under_python() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expected| {
            let program = folder.path().join("program");
            fs::write(&program, text).unwrap();
            assert_eq!(is_python(&program), expected, "{text}");
        };
        check("#!/env/bin/python3.11\nimport sys\n", true);
        check("#!/usr/bin/env python\n", true);
        check("#!/bin/sh\npython x\n", false);
        check("\u{7f}ELF python", false);
        assert!(!is_python(&folder.path().join("missing")));
    }
}
