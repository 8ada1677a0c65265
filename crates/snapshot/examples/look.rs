//! Reads snapshots and prints how much is in them: `cargo run --release -p oomproof-snapshot --example look FILE...`

#![expect(clippy::print_stdout, reason = "an example prints")]

use oomproof_snapshot::Snapshot;

fn main() {
    for path in std::env::args().skip(1) {
        let file = std::fs::read(&path).expect("the file can be read");
        let start = std::time::Instant::now();
        match Snapshot::read(&file) {
            Ok(snapshot) => {
                let entries: Vec<usize> = snapshot
                    .traces()
                    .iter()
                    .map(oomproof_snapshot::Trace::len)
                    .collect();
                println!(
                    "{path}: {} segments, {} blocks, entries {:?}, {} stacks, {} frames, torch {}, unknown {:?}, {:?}, {:.3} s",
                    snapshot.segments().len(),
                    snapshot.segments().blocks().len(),
                    entries.iter().filter(|&&len| len > 0).collect::<Vec<_>>(),
                    snapshot.stacks().len(),
                    snapshot.stacks().n_frames(),
                    snapshot.origin().releases,
                    snapshot.origin().unknown_keys,
                    snapshot.origin().lacks,
                    start.elapsed().as_secs_f64(),
                );
            }
            Err(error) => println!("{path}: {error}"),
        }
    }
}
