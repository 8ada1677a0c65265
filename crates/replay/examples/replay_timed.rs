//! How fast a snapshot is replayed: under its recorded settings with the comparison, and under others without.
//!
//! `replay_timed FILE` prints the entries of the trace, the share that equals the recording, and entries per second.

use std::error::Error;
use std::time::Instant;

use oomproof_replay::{Knowledge, Replay};
use oomproof_snapshot::Snapshot;

#[expect(clippy::print_stdout, reason = "a program of the bench")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("which snapshot?")?;
    let snapshot = Snapshot::read(&std::fs::read(path)?)?;
    let start = Instant::now();
    let replay = Replay::new(&snapshot, &Knowledge::default())?;
    let prepared = start.elapsed();
    let start = Instant::now();
    let tried = replay.what_if("")?;
    let ran = start.elapsed();
    let entries: usize = replay
        .devices()
        .iter()
        .map(oomproof_replay::DeviceReplay::n_entries)
        .sum();
    let least = replay
        .devices()
        .iter()
        .map(|device| device.found().percent());
    println!(
        "{entries} entries, {} % equal; prepared and compared in {:.3} s ({:.2} M a second), tried in {:.3} s ({:.2} M a second); reserves {}",
        least.fold(100.0, f64::min),
        prepared.as_secs_f64(),
        entries as f64 / prepared.as_secs_f64() / 1e6,
        ran.as_secs_f64(),
        entries as f64 / ran.as_secs_f64() / 1e6,
        tried.peak_reserved(),
    );
    Ok(())
}
