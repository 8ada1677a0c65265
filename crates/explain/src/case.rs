//! Everything that is known of one failure, in the form detectors and remedies ask for it.

use oomproof_units::Bytes;

use crate::agreement::Agreement;
use crate::balance::Balance;
use crate::cues::Cues;
use crate::failure::Failure;
use crate::format::{Backend, Format};
use crate::held::Held;
use crate::moment::Moment;
use crate::script::Suspect;
use crate::smi::Smi;

/// One failure and what stands around it.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub failure: &'a Failure,
    /// All failures of the input.
    pub failures: &'a [Failure],
    pub balance: Option<Balance>,
    pub cues: &'a Cues,
    /// Lines of the user's script that may hold memory.
    pub suspects: &'a [Suspect],
    /// What `nvidia-smi` showed, when that is in the text.
    pub smi: Option<&'a Smi>,
    /// How the text agrees with the record that came with it.
    pub agreement: Option<&'a Agreement>,
    /// Whose the live bytes were, when a recorded run or a snapshot says so.
    pub held: Option<&'a Held>,
}

impl Case<'_> {
    pub(crate) fn format(&self) -> Format {
        self.failure.format
    }

    pub(crate) fn is(&self, format: Format) -> bool {
        self.failure.format == format
    }

    pub(crate) fn backend(&self) -> Backend {
        self.failure.backend
    }

    pub(crate) fn phase(&self) -> Option<Moment> {
        self.failure.phase
    }

    pub(crate) fn tried(&self) -> Option<Bytes> {
        self.failure.figures.tried_bytes
    }

    /// Whether a word stands in the failure's own text.
    pub(crate) fn says(&self, squeezed_word: &str) -> bool {
        self.failure.squeezed.contains(squeezed_word)
    }

    /// Whether a frame of the traceback has one of these words in its file, function or source line.
    pub(crate) fn runs(&self, words: &[&str]) -> Option<String> {
        self.failure
            .frames
            .iter()
            .rev()
            .find(|frame| {
                let code = frame.code.as_deref().unwrap_or_default();
                words.iter().any(|word| {
                    frame.file.contains(word)
                        || frame.function.contains(word)
                        || code.contains(word)
                })
            })
            .map(|frame| match &frame.code {
                Some(code) => format!("{} runs `{code}`", frame.place()),
                None => format!("{} is in `{}`", frame.place(), frame.function),
            })
    }
}
