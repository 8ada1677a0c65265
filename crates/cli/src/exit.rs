//! Exit codes: scripts and CI rely on them, so each has one meaning in every verb.

/// How `oomproof` ends. `docs/exit-codes.md` is the page for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It fits, or what was asked is done.
    Done = 0,
    /// The command line is wrong.
    Usage = 2,
    /// The user's script failed by itself.
    ScriptFailed = 3,
    /// A file was refused: corrupt, or not supported.
    InputRefused = 4,
    /// The environment is not fit: no torch, the wrong build of it, no space.
    Environment = 5,
    /// It does not fit.
    DoesNotFit = 10,
    /// It is not known whether it fits.
    Unknown = 11,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The number the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The end that a verdict's code stands for.
    pub(crate) const fn of_verdict(code: u8) -> Self {
        match code {
            0 => Self::Done,
            3 => Self::ScriptFailed,
            10 => Self::DoesNotFit,
            130 => Self::Interrupted,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_verdicts_stay_what_they_are() {
        for exit in [
            Exit::Done,
            Exit::ScriptFailed,
            Exit::DoesNotFit,
            Exit::Unknown,
            Exit::Interrupted,
        ] {
            assert_eq!(Exit::of_verdict(exit.code()), exit);
        }
    }
}
