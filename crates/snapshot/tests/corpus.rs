//! The seeds of the fuzz targets: `good-*` are read and written as the same, `bad-*` are refused with a sentence.
//! `fuzz/make_corpus.py` makes them.

use std::path::Path;

use oomproof_snapshot::{Snapshot, write_snapshot};

#[test]
fn seeds_are_read_or_refused_as_their_names_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let mut n_good = 0;
    let mut n_bad = 0;
    for seed in std::fs::read_dir(folder).expect("the seeds are checked in") {
        let path = seed.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let read = Snapshot::read(&std::fs::read(&path).unwrap());
        if name.starts_with("good-") {
            let snapshot = read.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(
                Snapshot::read(&write_snapshot(&snapshot)).unwrap(),
                snapshot,
                "{name}"
            );
            if let Some(minor) = name.strip_prefix("good-2.") {
                let releases = snapshot.origin().releases;
                let release = oomproof_snapshot::MinorRelease::new(2, minor.parse().unwrap());
                assert!(releases.contains(release), "{name}: {releases}");
            }
            n_good += 1;
        } else if name.starts_with("bad-") {
            let error = read.expect_err(&name).to_string();
            assert!(
                !error.is_empty() && !error.ends_with('.'),
                "{name}: {error}"
            );
            n_bad += 1;
        }
    }
    assert!(
        n_good >= 19 && n_bad >= 10,
        "{n_good} good and {n_bad} bad seeds"
    );
}
