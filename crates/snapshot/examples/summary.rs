//! What snapshots hold, in a few lines each: `cargo run --release -p oomproof-snapshot --example summary FILE...`

#![expect(clippy::print_stdout, reason = "an example prints")]

use oomproof_snapshot::Snapshot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        match Snapshot::read(&std::fs::read(&path)?) {
            Ok(snapshot) => println!("{path}\n{}", snapshot.summary().to_text(&snapshot)),
            Err(error) => println!("{path}\nerror: {error}\n"),
        }
    }
    Ok(())
}
