//! What snapshots hold, in a few lines each, or with `--numbers` as bare figures, one line for each device:
//! `cargo run --release -p oomproof-snapshot --example summary [--numbers] FILE...`

#![expect(clippy::print_stdout, reason = "an example prints")]

use oomproof_snapshot::{DeviceSummary, Snapshot};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let only_numbers = paths.first().is_some_and(|first| first == "--numbers");
    if only_numbers {
        paths.remove(0);
    }
    for path in paths {
        let snapshot = Snapshot::read(&std::fs::read(&path)?);
        if only_numbers {
            for device in &snapshot?.summary().devices {
                println!("{}", numbers(device));
            }
            continue;
        }
        match snapshot {
            Ok(snapshot) => println!("{path}\n{}", snapshot.summary().to_text(&snapshot)),
            Err(error) => println!("{path}\nerror: {error}\n"),
        }
    }
    Ok(())
}

/// Segments, reserved, allocated, active, entries, peak and its entry; `-` for what there is not.
fn numbers(device: &DeviceSummary) -> String {
    let or_dash =
        |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string());
    let peak = device.peak.as_ref();
    let figures = [
        device.device.to_string(),
        or_dash(device.n_segments.map(|n_segments| n_segments as u64)),
        device.reserved.get().to_string(),
        device.allocated.get().to_string(),
        device.active.get().to_string(),
        device.n_entries.to_string(),
        or_dash(peak.map(|peak| peak.requested.get())),
        or_dash(peak.and_then(|peak| peak.entry).map(|entry| entry as u64)),
    ];
    figures.join(" ")
}
