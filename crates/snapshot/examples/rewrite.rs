//! Reads a snapshot and writes it again: `cargo run --release -p oomproof-snapshot --example rewrite FROM TO`

use oomproof_snapshot::{Snapshot, write_snapshot};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, from, to] = arguments.as_slice() else {
        return Err("two paths are needed: the snapshot, and where to write it".into());
    };
    let snapshot = Snapshot::read(&std::fs::read(from)?)?;
    std::fs::write(to, write_snapshot(&snapshot))?;
    Ok(())
}
