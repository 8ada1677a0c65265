//! Profiles as files: finding the one of a run, adding what only the launcher knows, moving it to its place.
//!
//! A killed process leaves its file at the length it was mapped with; only the bytes up to the committed length mean
//! anything, so whatever is added goes there and the length follows.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use oomproof_profile::{Phase, Profile, Record, RunSettings, encode, layout};
use serde_json::{Value, json};

use crate::failure::{Failure, Told};

/// How names of profiles end.
pub(crate) const EXTENSION: &str = "oomprofile";

/// The profiles that say something of what the script did on the device, in the order of their names: of process
/// `pid`, which was started, and of all that reserved memory or ran out of it.
pub(crate) fn of_script(folder: &Path, pid: u32) -> Result<Vec<PathBuf>, Failure> {
    let own = folder.join(format!("{pid}.{EXTENSION}"));
    let mut found = all(folder)?;
    found.retain(|path| {
        header(path).is_ok_and(|header| {
            let counter = |index| word(&header, layout::COUNTERS + 8 * index);
            *path == own
                || counter(layout::counter::PEAK_RESERVED) > 0
                || counter(layout::counter::OUT_OF_MEMORY) > 0
        })
    });
    found.sort();
    Ok(found)
}

/// All profiles in `folder`.
pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::io("read", folder, &error))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == EXTENSION)
        })
        .collect())
}

/// The profile in a file.
pub(crate) fn read(path: &Path) -> Result<Profile, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
    Profile::read(&bytes).map_err(|error| corrupt(path, &error.to_string()))
}

/// The notes of one kind in all profiles in `folder`; a profile that cannot be read has none.
pub(crate) fn notes_in(folder: &Path, kind: &str) -> Result<Vec<Value>, Failure> {
    let mut paths = all(folder)?;
    paths.sort();
    Ok(paths
        .iter()
        .filter_map(|path| read(path).ok())
        .flat_map(|profile| notes_of(&profile, kind))
        .collect())
}

/// The notes of one kind in a profile.
pub(crate) fn notes_of(profile: &Profile, kind: &str) -> Vec<Value> {
    let of_kind = |record: &Record| match record {
        Record::Note { json, .. } => serde_json::from_str(json)
            .ok()
            .filter(|note: &Value| note["kind"] == kind),
        _ => None,
    };
    profile.records.iter().filter_map(of_kind).collect()
}

/// The sentence about a profile that cannot be understood.
pub(crate) fn corrupt(path: &Path, why: &str) -> Failure {
    Failure::new(
        crate::exit::Exit::InputRefused,
        "corrupt_profile",
        format!("the profile {} cannot be read: {why}", path.display()),
    )
}

/// A profile of a process that never used the device.
pub(crate) fn write_empty(
    folder: &Path,
    pid: u32,
    settings: &RunSettings,
) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{pid}.{EXTENSION}"));
    fs::write(&path, layout::new_header(u64::from(pid)))
        .map_err(|error| Failure::io("write", &path, &error))?;
    append_notes(&path, &[json!({"kind": "settings", "settings": settings})])?;
    Ok(path)
}

/// Adds notes behind the last finished record.
pub(crate) fn append_notes(path: &Path, notes: &[Value]) -> Result<(), Failure> {
    let append = || -> io::Result<()> {
        let mut committed = word(&header(path)?, layout::COMMITTED);
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if committed > length || committed < layout::HEADER_LEN as u64 {
            return Ok(());
        }
        let mut records = Vec::new();
        for note in notes {
            encode(
                &Record::Note {
                    nanos: 0,
                    json: note.to_string(),
                },
                &mut records,
            );
        }
        file.set_len(committed)?;
        file.seek(SeekFrom::Start(committed))?;
        file.write_all(&records)?;
        committed += records.len() as u64;
        file.seek(SeekFrom::Start(layout::COMMITTED as u64))?;
        file.write_all(&committed.to_le_bytes())
    };
    append().map_err(|error| Failure::io("complete", path, &error))
}

/// What the agent of any process could not do, in its words; then there are no figures to trust.
pub(crate) fn agent_failure(folder: &Path) -> Option<Failure> {
    let path = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "failure")
        })
        .min()?;
    let text = fs::read_to_string(path).ok()?;
    let (text, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    let mut failure = Failure::environment("virtual_gpu", text.trim());
    if !hint.trim().is_empty() {
        failure = failure.hint(hint.trim());
    }
    failure.told = Told::ByAgent;
    Some(failure)
}

/// What a script that was ended by the clock was doing, in words: the agent's when it could still speak.
pub(crate) fn waiting_for(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
    let said = Profile::read(&bytes).ok().and_then(|profile| {
        profile
            .records
            .iter()
            .rev()
            .find_map(|record| match record {
                Record::Note { json, .. } => {
                    let note: Value = serde_json::from_str(json).ok()?;
                    Some(note["waiting_for"].as_str()?.to_owned())
                }
                _ => None,
            })
    });
    if let Some(said) = said {
        return Ok(said);
    }
    let header = header(path).map_err(|error| Failure::io("read", path, &error))?;
    let state = |index: usize| {
        let at = layout::STATE + 4 * index;
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let step = state(3);
    let phase = u8::try_from(state(2)).ok().and_then(Phase::from_code);
    Ok(match (phase, step) {
        (None | Some(Phase::Load), _) => "the first training step".to_owned(),
        (Some(Phase::Idle), step) => format!("the next training step, after step {step}"),
        (Some(phase), 0) => format!("the end of phase {phase}, before the first training step"),
        (Some(phase), step) => format!("the end of phase {phase} in step {step}"),
    })
}

/// The batch size of the first loader that the script made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoaderSize {
    /// As the script has it.
    pub size: u64,
    /// What was put in its place.
    pub replaced_by: Option<u64>,
    /// Samples of the data set, when it has a length.
    pub samples: Option<u64>,
}

/// The first loader's batch size that a profile tells of.
pub(crate) fn loader_size(path: &Path) -> Option<LoaderSize> {
    let profile = Profile::read(&fs::read(path).ok()?).ok()?;
    profile.records.iter().find_map(|record| {
        let Record::Note { json, .. } = record else {
            return None;
        };
        let note: Value = serde_json::from_str(json).ok()?;
        (note["kind"] == "batch_size").then_some(())?;
        Some(LoaderSize {
            size: note["size"].as_u64()?,
            replaced_by: note["replaced_by"].as_u64(),
            samples: note["samples"].as_u64(),
        })
    })
}

/// Moves the file at `from`, also to another file system; `to` appears whole or not at all.
pub(crate) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    let mut copy = tempfile::NamedTempFile::new_in(folder)?;
    io::copy(&mut fs::File::open(from)?, &mut copy)?;
    copy.persist(to).map_err(|error| error.error)?;
    fs::remove_file(from)
}

fn header(path: &Path) -> io::Result<Vec<u8>> {
    let mut header = vec![0; layout::HEADER_LEN];
    fs::File::open(path)?.read_exact(&mut header)?;
    Ok(header)
}

fn word(header: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(folder: &Path, pid: u32, peak_reserved: u64) -> PathBuf {
        let mut bytes = layout::new_header(u64::from(pid));
        let at = layout::COUNTERS + 8 * layout::counter::PEAK_RESERVED;
        bytes[at..at + 8].copy_from_slice(&peak_reserved.to_le_bytes());
        let path = folder.join(format!("{pid}.{EXTENSION}"));
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_process_counts_if_it_was_started_or_used_memory() {
        let folder = tempfile::tempdir().unwrap();
        let small = profile(folder.path(), 3, 10);
        let large = profile(folder.path(), 4, 1 << 40);
        let idle = profile(folder.path(), 6, 0);
        let failed = profile(folder.path(), 7, 0);
        let mut bytes = fs::read(&failed).unwrap();
        bytes[layout::COUNTERS + 8 * layout::counter::OUT_OF_MEMORY] = 1;
        fs::write(&failed, bytes).unwrap();
        fs::write(folder.path().join("5.oomprofile"), "short").unwrap();
        let check = |pid, expected: &[&PathBuf]| {
            let found = of_script(folder.path(), pid).unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{pid}");
        };
        check(3, &[&small, &large, &failed]);
        check(6, &[&small, &large, &idle, &failed]);
        check(9, &[&small, &large, &failed]);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(of_script(empty.path(), 3).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn notes_follow_the_last_finished_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = profile(folder.path(), 3, 0);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend([0xff; 1000]);
        fs::write(&path, bytes).unwrap();
        append_notes(&path, &[json!({"kind": "a"})]).unwrap();
        append_notes(&path, &[json!({"kind": "b"}), json!({"kind": "c"})]).unwrap();
        let read = Profile::read(&fs::read(&path).unwrap()).unwrap();
        let notes: Vec<String> = read
            .records
            .into_iter()
            .map(|record| match record {
                Record::Note { json, .. } => json,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            notes,
            [r#"{"kind":"a"}"#, r#"{"kind":"b"}"#, r#"{"kind":"c"}"#]
        );
    }

    #[test]
    fn the_clock_says_what_it_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let path = profile(folder.path(), 3, 0);
        let check = |phase: u32, step: u32, expected: &str| {
            let mut bytes = fs::read(&path).unwrap();
            let at = layout::STATE + 8;
            bytes[at..at + 4].copy_from_slice(&phase.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&step.to_le_bytes());
            fs::write(&path, bytes).unwrap();
            assert_eq!(waiting_for(&path).unwrap(), expected);
        };
        check(0, 0, "the first training step");
        check(1, 1, "the end of phase forward in step 1");
        check(
            4,
            0,
            "the end of phase evaluation, before the first training step",
        );
        check(6, 3, "the next training step, after step 3");
        check(99, 3, "the first training step");
    }

    #[test]
    fn moved_into_folders_that_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let from = profile(folder.path(), 3, 0);
        let to = folder.path().join("x/y/z.oomprofile");
        move_to(&from, &to).unwrap();
        assert!(to.is_file() && !from.exists());
    }
}
