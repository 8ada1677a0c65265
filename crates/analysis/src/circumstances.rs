//! What the launcher knows and the profile does not: how the process ended, and under which orders.

use crate::processes::Beside;

/// How a run ended, seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The exit code of the script's process; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the script's process.
    pub signal: Option<i32>,
    /// Who ended the run.
    pub ended_by: EndedBy,
    /// Where the profile lies, as it is to be printed.
    pub profile: String,
    /// The allocator's settings in the script's environment (`PYTORCH_ALLOC_CONF` or its older name).
    pub conf: Option<String>,
    /// What a tight fit counts as.
    pub strictness: Strictness,
    /// The other processes of the script; none for a script of one process.
    pub beside: Beside,
}

/// Who ended the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndedBy {
    /// The script itself, or the agent inside it because the peak was steady.
    #[default]
    Script,
    /// The launcher, because time was up.
    Timeout,
    /// The user, with Ctrl-C.
    Interrupt,
}

/// What a tight fit counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// As a fit.
    #[default]
    Lenient,
    /// As no fit.
    Strict,
}
