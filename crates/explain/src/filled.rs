//! Commands with what is known of the user in them. A command with a word to replace is one that a tired person pastes
//! as it is, so each word that the input answers is answered; those that it does not stay in capitals.

use std::borrow::Cow;

use oomproof_gpus::{all, find};
use oomproof_units::Bytes;

use crate::failure::Failure;
use crate::smi::Smi;

/// Messages print two decimals of a GiB.
const PRINTED: Bytes = Bytes::from_mib(6);

/// What is known of the user's script and card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    script: Option<String>,
    gpu: Option<&'static str>,
    total: Option<Bytes>,
}

impl Known {
    /// The script that was named, or else the first file of the traceback that is the user's; the card by its name, or
    /// else by its size when only one has it.
    pub(crate) fn of(
        script_path: Option<&str>,
        failure: Option<&Failure>,
        smi: Option<&Smi>,
        total: Option<Bytes>,
    ) -> Self {
        let raised = || {
            failure?
                .frames
                .iter()
                .find(|frame| !frame.is_of_library() && frame.file.ends_with("py"))
                .map(|frame| frame.file.as_str())
        };
        Self {
            script: script_path
                .or_else(raised)
                .map(|path| quoted(path).into_owned()),
            gpu: named(smi).or_else(|| sized(total?)),
            total,
        }
    }

    /// The command with all that is known.
    pub(crate) fn fill(&self, command: &str) -> String {
        let mut filled = command.to_owned();
        if let Some(gpu) = self.gpu {
            for word in ["--gpu GPU", "--gpu NAME"] {
                filled = filled.replace(word, &format!("--gpu {gpu}"));
            }
            filled = filled.replace("NxNAME", &format!("Nx{gpu}"));
        }
        if let Some(total) = self.total {
            let memory = format!("--memory {}MiB", total.get() >> 20);
            for word in ["--memory MEMORY", "--gpu GPU", "--gpu NAME"] {
                filled = filled.replace(word, &memory);
            }
        }
        match &self.script {
            Some(script) => filled.replace(" SCRIPT", &format!(" {script}")),
            None => filled,
        }
    }
}

/// The card of the table, unless there are several kinds.
fn named(smi: Option<&Smi>) -> Option<&'static str> {
    let mut found = smi?
        .devices
        .iter()
        .map(|device| find(device.name.as_deref()?).ok());
    let first = found.next()??;
    found
        .all(|other| other.is_some_and(|gpu| gpu.id == first.id))
        .then_some(first.id)
}

/// The one card of this size; `None` when several have it.
fn sized(total: Bytes) -> Option<&'static str> {
    let mut found = all().iter().filter(|gpu| {
        gpu.slice_of().is_none()
            && gpu
                .total
                .saturating_sub(total)
                .max(total.saturating_sub(gpu.total))
                <= PRINTED
    });
    let first = found.next()?;
    found.next().is_none().then_some(first.id)
}

/// A path as one word of a shell.
fn quoted(path: &str) -> Cow<'_, str> {
    let plain = |each: char| each.is_alphanumeric() || "/._-+@%".contains(each);
    if !path.is_empty() && path.chars().all(plain) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(format!("'{}'", path.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: Option<&str>, total_mib: Option<u64>, command: &str, expected: &str) {
        let known = Known::of(script, None, None, total_mib.map(Bytes::from_mib));
        assert_eq!(known.fill(command), expected);
    }

    #[test]
    fn what_is_known_is_filled_in() {
        let run = "oomproof run --memory MEMORY SCRIPT";
        let gpu = "oomproof run --gpu GPU SCRIPT";
        check(None, None, run, run);
        check(None, None, gpu, gpu);
        check(Some("leak.py"), None, gpu, "oomproof run --gpu GPU leak.py");
        check(
            Some("a b's.py"),
            None,
            "python SCRIPT",
            "python 'a b'\\''s.py'",
        );
        check(
            Some("a.py"),
            Some(5000),
            run,
            "oomproof run --memory 5000MiB a.py",
        );
        check(
            Some("a.py"),
            Some(5000),
            gpu,
            "oomproof run --memory 5000MiB a.py",
        );
    }

    #[test]
    fn a_card_is_named_only_when_no_other_has_its_size() {
        for gpu in all().iter().filter(|gpu| gpu.slice_of().is_none()) {
            if let Some(id) = sized(gpu.total) {
                assert_eq!(id, gpu.id);
            }
        }
        assert_eq!(sized(Bytes::from_mib(5000)), None);
    }
}
