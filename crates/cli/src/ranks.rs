//! Judging a run of several ranks: each has a profile of its own, which is found by what the rank says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oomproof_analysis::{Circumstances, RankOf, Verdict, rank_of};
use oomproof_profile::{Profile, layout};

use crate::failure::Failure;
use crate::profile_file;

/// The profiles of all ranks that were seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RankProfiles {
    /// How many ranks there are.
    pub world: u32,
    /// The profile of each.
    pub paths: BTreeMap<u32, PathBuf>,
}

/// The profiles of the ranks in `folder`; `None` when the script is not of several ranks.
pub(crate) fn of_run(folder: &Path) -> Result<Option<RankProfiles>, Failure> {
    let mut world = 0;
    let mut best: BTreeMap<u32, ((bool, SystemTime), PathBuf)> = BTreeMap::new();
    for path in profile_file::all(folder)? {
        let Some((profile, of)) = fs::read(&path).ok().and_then(|bytes| {
            let profile = Profile::read(&bytes).ok()?;
            let of = rank_of(&profile)?;
            Some((profile, of))
        }) else {
            continue;
        };
        let RankOf { rank, world: ranks } = of;
        world = world.max(ranks);
        // Workers of a rank have its number too but use no memory, and a rank may have been started again.
        let used = profile.counters[layout::counter::PEAK_RESERVED] > 0;
        let written = fs::metadata(&path)
            .and_then(|about| about.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let key = (used, written);
        if best.get(&rank).is_none_or(|(known, _)| *known <= key) {
            best.insert(rank, (key, path));
        }
    }
    let paths = best.into_iter().map(|(rank, (_, path))| (rank, path));
    Ok((world > 1).then(|| RankProfiles {
        world,
        paths: paths.collect(),
    }))
}

impl RankProfiles {
    /// The verdict of the worst rank, with a line for each of the others.
    pub(crate) fn judge(&self, circumstances: &Circumstances) -> Result<Verdict, Failure> {
        let mut verdicts = Vec::new();
        for (rank, path) in &self.paths {
            let profile = profile_file::read(path)?;
            let verdict = Verdict::from_rank(&profile, circumstances)
                .map_err(|error| profile_file::corrupt(path, &error.to_string()))?;
            verdicts.push((*rank, verdict));
        }
        Verdict::of_ranks(verdicts, self.world).ok_or_else(|| {
            Failure::new(
                crate::exit::Exit::InputRefused,
                "corrupt_profile",
                "no rank left a profile",
            )
        })
    }
}

/// Where the profile of a rank goes when that of the worst rank goes to `target`.
pub(crate) fn beside(target: &Path, rank: u32) -> PathBuf {
    let stem = target.file_stem().unwrap_or_default().to_string_lossy();
    let extension = target.extension().unwrap_or_default().to_string_lossy();
    let dot = if extension.is_empty() { "" } else { "." };
    target.with_file_name(format!("{stem}-rank{rank}{dot}{extension}"))
}

#[cfg(test)]
mod tests {
    use oomproof_profile::{Record, encode};

    use super::*;

    fn profile(folder: &Path, pid: u32, reserved: u64, notes: &[&str]) -> PathBuf {
        let mut bytes = layout::new_header(u64::from(pid));
        let at = layout::COUNTERS + 8 * layout::counter::PEAK_RESERVED;
        bytes[at..at + 8].copy_from_slice(&reserved.to_le_bytes());
        for note in notes {
            encode(
                &Record::Note {
                    nanos: 0,
                    json: (*note).to_owned(),
                },
                &mut bytes,
            );
        }
        let length = bytes.len() as u64;
        bytes[layout::COMMITTED..layout::COMMITTED + 8].copy_from_slice(&length.to_le_bytes());
        let path = folder.join(format!("{pid}.{}", profile_file::EXTENSION));
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn each_rank_has_the_profile_that_used_the_device() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let note = |rank: u32| format!(r#"{{"kind":"rank","rank":{rank},"world_size":3}}"#);
        profile(folder, 1, 9, &[]);
        assert_eq!(of_run(folder).unwrap(), None);
        let zero = profile(folder, 2, 5, &[&note(0)]);
        let one = profile(folder, 3, 5, &[&note(0), &note(1)]);
        profile(folder, 4, 0, &[&note(1)]);
        profile(
            folder,
            5,
            0,
            &[r#"{"kind":"rank","rank":7,"world_size":3}"#],
        );
        assert_eq!(
            of_run(folder).unwrap(),
            Some(RankProfiles {
                world: 3,
                paths: BTreeMap::from([(0, zero), (1, one)]),
            })
        );
    }

    #[test]
    fn one_rank_is_no_rank() {
        let folder = tempfile::tempdir().unwrap();
        profile(
            folder.path(),
            2,
            5,
            &[r#"{"kind":"rank","rank":0,"world_size":1}"#],
        );
        assert_eq!(of_run(folder.path()).unwrap(), None);
    }

    #[test]
    fn names_of_ranks_stand_before_the_extension() {
        let check = |target: &str, expected: &str| {
            assert_eq!(beside(Path::new(target), 3), Path::new(expected));
        };
        check("a/b.oomprofile", "a/b-rank3.oomprofile");
        check("b", "b-rank3");
    }
}
