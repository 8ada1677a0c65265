//! A forked child that goes on as a run of its own, with settings of its own.
//!
//! It must not be told from a process that had these settings from its first line on. So its profile begins with what
//! its parent recorded before the fork, settings apart, and time goes on where the parent stopped. That can only be
//! while the device has not been used: memory, handles and clocks are then as in a new process.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oomproof_profile::{Profile, Record};

use super::{
    FORKED, SESSION, Session, any_session, not_created, open_board, profile_of_this_process,
    read_settings, session, settings_note,
};
use crate::recorder::Recorder;

/// Goes on with the settings in `path`, or says why that cannot be.
pub(crate) fn restart(path: &Path) -> Result<(), String> {
    let Some(parent) = any_session() else {
        return Err("there is no session to go on from".to_owned());
    };
    if !FORKED.load(Ordering::Relaxed) {
        return Err("this process is not a forked child".to_owned());
    }
    if session().is_none() {
        return Err("the device was in use when the process forked".to_owned());
    }
    let (text, settings) = read_settings(path)?;
    let file = profile_of_this_process(&settings);
    // A lock that another thread of the parent held is never released here.
    let busy = || "another thread used the device when the process forked".to_owned();
    let mut recorder = parent.recorder.try_lock().map_err(|_| busy())?;
    let interned = parent.interned.try_lock().map_err(|_| busy())?.clone();
    parent
        .memory
        .try_lock()
        .map_err(|_| busy())?
        .arena
        .unreserve();

    let past = recorder
        .recorded()
        .map_err(|error| format!("what the parent recorded cannot be read: {error}"))?;
    let records = Profile::read(&past)
        .map_err(|error| format!("what the parent recorded is not understood: {error}"))?
        .records;
    recorder
        .restart(&file)
        .map_err(|error| not_created(&file, &error))?;
    let recorder = recorder.take();
    recorder.header().go_on_from(&past);
    let board = open_board(&settings)?;
    let stopped_at = records.iter().filter_map(nanos).max().unwrap_or(0);
    let mut child = Session::new(settings, recorder, board);
    child.start = Instant::now()
        .checked_sub(Duration::from_nanos(stopped_at))
        .unwrap_or_else(Instant::now);
    child.interned = interned.into();
    if parent.ledger.is_kept() {
        child.ledger.begin(child.settings.device_count as usize);
    }
    if let Some(visible) = parent.visible.get() {
        let _ = child.visible.set(visible.clone());
    }
    let began = SystemTime::now()
        .checked_sub(Duration::from_nanos(stopped_at))
        .and_then(|began| began.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos() as u64);
    repeat(
        &records,
        &text,
        began,
        &mut child
            .recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    SESSION.store(Box::into_raw(Box::new(child)), Ordering::Release);
    FORKED.store(false, Ordering::Relaxed);
    Ok(())
}

/// Records what the parent recorded, with other settings, as of a process that began at `began`.
fn repeat(records: &[Record], settings: &str, began: u64, recorder: &mut Recorder) {
    let mut is_settings = true;
    for record in records {
        let Record::Note { nanos, json } = record else {
            recorder.append(record);
            continue;
        };
        let json = if std::mem::take(&mut is_settings) {
            settings_note(settings)
        } else {
            own_process(json, began).unwrap_or_else(|| json.clone())
        };
        recorder.append(&Record::Note {
            nanos: *nanos,
            json,
        });
    }
}

/// The note on whose child a process is and when it began, for this process.
fn own_process(json: &str, began: u64) -> Option<String> {
    let mut note: serde_json::Value = serde_json::from_str(json).ok()?;
    if note["kind"] != "process" {
        return None;
    }
    note["parent"] = std::os::unix::process::parent_id().into();
    note["started_unix_nanos"] = began.into();
    Some(note.to_string())
}

/// When a record was made; no session knows of what comes later than it in a child that has not used the device.
const fn nanos(record: &Record) -> Option<u64> {
    match record {
        Record::Phase { nanos, .. }
        | Record::Label { nanos, .. }
        | Record::Note { nanos, .. }
        | Record::Driver { nanos, .. } => Some(*nanos),
        _ => None,
    }
}
