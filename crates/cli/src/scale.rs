//! `--scale`: which sizes of the script are varied, and by what they are set.
//!
//! What sets a size is known for one of them alone, the batch size of a loader; for every other the user names the
//! argument of the script, because a guess that changes nothing would look like a law.

use std::ffi::OsString;
use std::str::FromStr;

use crate::split::UserCommand;

/// One size to vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dimension {
    /// What it is called.
    pub name: String,
    /// What sets it.
    pub knob: Knob,
}

/// What sets a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Knob {
    /// `DataLoader(batch_size=)`, in the script's process.
    Loaders,
    /// An argument of the script: `--batch-size` before its value, or `train.batch` with `=` between.
    Argument(String),
}

/// All sizes that were named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale(pub Vec<Dimension>);

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut dimensions: Vec<Dimension> = Vec::new();
        for part in text.split(',') {
            let (name, knob) = match part.split_once('=') {
                Some((_, "" | "-" | "--")) => {
                    return Err(format!("`{part}` names no argument of the script"));
                }
                Some((name, argument)) => (name, Knob::Argument(argument.to_owned())),
                None if part == "batch" => (part, Knob::Loaders),
                None if part.is_empty() => return Err("a size has no name".to_owned()),
                None => {
                    return Err(format!(
                        "what sets `{part}` is not known; name the argument of the script, such as `{part}=--{part}-len`"
                    ));
                }
            };
            if name.is_empty() || dimensions.iter().any(|each| each.name == name) {
                return Err(format!("`{text}` names a size twice, or none"));
            }
            dimensions.push(Dimension {
                name: name.to_owned(),
                knob,
            });
        }
        Ok(Self(dimensions))
    }
}

impl Knob {
    /// What the report calls it.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Loaders => "batch size of the loaders",
            Self::Argument(name) => name,
        }
    }

    /// The value in the user's command, when it stands there as a whole number.
    pub(crate) fn value_in(&self, command: &UserCommand) -> Option<u64> {
        let Self::Argument(name) = self else {
            return None;
        };
        let (at, place) = find(name, &command.args)?;
        let text = match place {
            Place::Next => command.args.get(at + 1)?.to_str()?,
            Place::Same => command.args[at].to_str()?.split_once('=')?.1,
        };
        text.parse().ok().filter(|value| *value > 0)
    }

    /// The user's command with this value.
    pub(crate) fn set_in(&self, command: &UserCommand, value: u64) -> UserCommand {
        let mut command = command.clone();
        let Self::Argument(name) = self else {
            return command;
        };
        let joined = OsString::from(format!("{name}={value}"));
        match find(name, &command.args) {
            Some((at, Place::Same)) => command.args[at] = joined,
            Some((at, Place::Next)) => {
                command.args.truncate(command.args.len().max(at + 1));
                let value = OsString::from(value.to_string());
                match command.args.get_mut(at + 1) {
                    Some(old) => *old = value,
                    None => command.args.push(value),
                }
            }
            None if name.starts_with('-') => {
                command.args.push(name.into());
                command.args.push(value.to_string().into());
            }
            None => command.args.push(joined),
        }
        command
    }
}

/// Where the value of an argument stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Same,
    Next,
}

/// The last place of an argument: parsers let the last one win.
fn find(name: &str, args: &[OsString]) -> Option<(usize, Place)> {
    args.iter().enumerate().rev().find_map(|(at, arg)| {
        let arg = arg.to_str()?;
        let rest = arg.strip_prefix(name)?;
        match rest.chars().next() {
            None if name.starts_with('-') => Some((at, Place::Next)),
            Some('=') => Some((at, Place::Same)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::Target;

    #[test]
    fn sizes_and_what_sets_them() {
        let check = |text: &str, expected: Option<&[(&str, Option<&str>)]>| {
            let found: Option<Scale> = text.parse().ok();
            let expected = expected.map(|all| {
                let each = all.iter().map(|(name, argument)| Dimension {
                    name: (*name).to_owned(),
                    knob: argument.map_or(Knob::Loaders, |name| Knob::Argument(name.to_owned())),
                });
                Scale(each.collect())
            });
            assert_eq!(found, expected, "{text}");
        };
        check("batch", Some(&[("batch", None)]));
        check("batch=--bs", Some(&[("batch", Some("--bs"))]));
        check(
            "batch,seq=--seq-len",
            Some(&[("batch", None), ("seq", Some("--seq-len"))]),
        );
        check("ctx=model.ctx", Some(&[("ctx", Some("model.ctx"))]));
        check("seq", None);
        check("", None);
        check("batch,", None);
        check("batch,batch=--b", None);
        check("batch=", None);
        check("=--b", None);
    }

    #[test]
    fn values_are_read_and_set_in_the_command() {
        let check = |name: &str, line: &str, value: Option<u64>, set: &str| {
            let words = |text: &str| text.split_whitespace().map(OsString::from).collect();
            let command = UserCommand {
                target: Target::Script("t.py".into()),
                args: words(line),
            };
            let knob = Knob::Argument(name.to_owned());
            assert_eq!(knob.value_in(&command), value, "{line}");
            let expected: Vec<OsString> = words(set);
            assert_eq!(knob.set_in(&command, 9).args, expected, "{line}");
        };
        check("--b", "--b 4 x", Some(4), "--b 9 x");
        check("--b", "--b=4", Some(4), "--b=9");
        check("--b", "--bb 4", None, "--bb 4 --b 9");
        check("--b", "--b 4 --b 5", Some(5), "--b 4 --b 9");
        check("--b", "--b", None, "--b 9");
        check("--b", "--b four", None, "--b 9");
        check("--b", "--b 0", None, "--b 9");
        check("-b", "-b 2", Some(2), "-b 9");
        check("m.b", "x m.b=4", Some(4), "x m.b=9");
        check("m.b", "m.b", None, "m.b m.b=9");
    }
}
