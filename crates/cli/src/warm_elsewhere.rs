//! Stands for `warm.rs` where no script can be run; [`crate::platform::check`] refuses before it is reached.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::failure::Failure;
use crate::launch::{Launch, Outcome};

/// What came of starting a script that is to wait.
pub(crate) enum Started {
    /// It waits.
    Waiting(Warm),
    /// It cannot be forked, and ran as it is: why, and what came of it.
    Ran(String, Box<Outcome>),
}

/// A script that waits.
pub(crate) enum Warm {}

/// Why a run of a waiting script has no outcome.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The script no longer waits.
    Lost,
    /// It could not be judged, as any run may.
    Failed(Failure),
}

impl Warm {
    /// Refuses.
    pub(crate) fn start(_: &Launch, _: Duration, _: Arc<AtomicBool>) -> Result<Started, Failure> {
        Err(Failure::environment(
            "unsupported_platform",
            "scripts cannot be forked here",
        ))
    }

    /// There is none.
    pub(crate) fn run(&self, _: &Launch) -> Result<Outcome, Missing> {
        match *self {}
    }
}

/// A flag that nothing sets.
pub(crate) fn watch_interrupts(_: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>, Failure> {
    Ok(Arc::default())
}
