//! Keeps the folder of profiles from growing for ever: every run leaves one there, and nobody looks at old ones.
//!
//! Only files that are named like ours are touched, oldest first, and never the newest; a profile that the user named
//! with `--profile` is elsewhere and stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oomproof_units::Bytes;

use crate::profile_file::EXTENSION;

/// What may stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// So many profiles.
    pub files: usize,
    /// So much together.
    pub size: Bytes,
}

/// What `oomproof` allows; `docs/cli.md` says so.
pub(crate) const ALLOWANCE: Allowance = Allowance {
    files: 200,
    size: Bytes::from_gib(2),
};

/// Removes the oldest profiles in `folder` beyond the allowance. What cannot be removed stays.
pub(crate) fn prune(folder: &Path, allowance: Allowance) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut found: Vec<(SystemTime, PathBuf, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let is_ours = path
                .extension()
                .is_some_and(|extension| extension == EXTENSION);
            is_ours.then_some((about.modified().ok()?, path, about.len()))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    let mut size = 0_u64;
    for (index, (_, path, length)) in found.into_iter().enumerate() {
        size = size.saturating_add(length);
        if index > 0 && (index >= allowance.files || size > allowance.size.get()) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(files: usize, size: u64, kept: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in ["c.oomprofile", "a.oomprofile", "notes.txt", "b.oomprofile"]
            .iter()
            .enumerate()
        {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
            file.set_modified(time).unwrap();
        }
        let allowance = Allowance {
            files,
            size: Bytes::new(size),
        };
        prune(folder.path(), allowance);
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, kept, "{files} {size}");
    }

    #[test]
    fn the_oldest_go_and_others_stay() {
        check(
            9,
            1000,
            &["a.oomprofile", "b.oomprofile", "c.oomprofile", "notes.txt"],
        );
        check(2, 1000, &["a.oomprofile", "c.oomprofile", "notes.txt"]);
        check(9, 250, &["a.oomprofile", "c.oomprofile", "notes.txt"]);
        check(0, 0, &["c.oomprofile", "notes.txt"]);
    }
}
