//! Stands for `child.rs` where no script can be run; [`crate::platform::check`] refuses before it is reached.

use std::io;
use std::process::Command;
use std::time::Duration;

use oomproof_analysis::EndedBy;

/// How a script ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Its process.
    pub pid: u32,
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Who ended it.
    pub by: EndedBy,
}

/// Refuses.
pub(crate) fn run(_: Command, _: Duration) -> io::Result<Ended> {
    Err(io::ErrorKind::Unsupported.into())
}
