//! Reads a snapshot and finds the peak of its live bytes, and says how long each took:
//! `cargo run --release -p oomproof-snapshot --example read_timed FILE`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use oomproof_snapshot::Snapshot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a path is needed")?;
    let start = Instant::now();
    let file = std::fs::read(path)?;
    let loaded = Instant::now();
    let snapshot = Snapshot::read(&file)?;
    let read = Instant::now();
    let peaks = (0..snapshot.traces().len()).filter_map(|device| snapshot.peak(device));
    let highest = peaks.map(|peak| peak.requested).max().unwrap_or_default();
    let end = Instant::now();
    println!(
        "load {:.3} read {:.3} peak {:.3} total {:.3} highest {}",
        (loaded - start).as_secs_f64(),
        (read - loaded).as_secs_f64(),
        (end - read).as_secs_f64(),
        (end - start).as_secs_f64(),
        highest.get(),
    );
    Ok(())
}
