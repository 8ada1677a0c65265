//! Any bytes as a snapshot: what is read can be summed up and written, and is read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oomproof_snapshot::{Limits, Snapshot, write_snapshot};

fuzz_target!(|bytes: &[u8]| {
    // Bombs would only slow the search down.
    let limits = Limits {
        unfolded_bytes: 1 << 16,
        ..Limits::default()
    };
    if let Ok(snapshot) = Snapshot::read_within(bytes, &limits) {
        let _ = snapshot.summary().to_text(&snapshot);
        let written = write_snapshot(&snapshot);
        let again = Snapshot::read(&written).expect("what was written can be read");
        assert!(again == snapshot, "it is read again as the same");
    }
});
