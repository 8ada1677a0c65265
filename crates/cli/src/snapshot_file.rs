//! A memory snapshot in a file, whatever it is wrapped in.

use std::fs;
use std::path::Path;

use oomproof_snapshot::Snapshot;

use crate::exit::Exit;
use crate::failure::{Failure, reason};

/// The snapshot in a file.
pub(crate) fn read(path: &Path) -> Result<Snapshot, Failure> {
    let bytes = fs::read(path).map_err(|error| refused(path, &reason(&error)))?;
    parse(path, &bytes)
}

/// The snapshot in the bytes of a file.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Snapshot, Failure> {
    Snapshot::read(bytes).map_err(|error| {
        refused(path, &error.to_string()).hint(
            "snapshots are what torch.cuda.memory._dump_snapshot writes, plain, gzipped or in a page of _memory_viz",
        )
    })
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(
        Exit::InputRefused,
        "snapshot",
        format!("the snapshot {} cannot be read: {why}", path.display()),
    )
}
