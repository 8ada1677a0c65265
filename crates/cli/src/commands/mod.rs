//! The verbs, one file each: the arguments as typed, and one function that does the work.

pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod fleet;
pub(crate) mod gpus;
pub(crate) mod growth;
pub(crate) mod max_batch;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod venv;
