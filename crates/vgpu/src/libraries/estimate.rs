//! Sizes that a closed library chooses are not known exactly: whoever is told one also gets a range and a source into
//! the profile.
//!
//! PyTorch allocates scratch memory itself, with the likely size, so the peak that it reports holds a guess. How high
//! the peak can really be depends on what else is allocated at that moment, and only this process knows that; so the
//! profile is told what else was allocated, whenever the range reaches further than all before.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use oomproof_profile::layout::counter;

use crate::session::{Session, session};

/// A range is told when it reaches this much further, so that a million calls do not make a million notes.
const WORTH_TELLING: u64 = 64 << 10;

/// Bytes of scratch memory: at least, likely and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    pub(super) low: u64,
    pub(super) likely: u64,
    pub(super) high: u64,
}

/// Notes, once in a process, that `what` is an estimate with a range that counts in the verdict; the text goes on after
/// "is an estimate: ".
pub(super) fn assume(what: &'static str, text: &str) {
    say(
        what,
        "library_scratch",
        &format!("{what} is an estimate: {text}"),
    );
}

/// Notes, once in a process, that nothing bounds `what` from above and that it is left out.
pub(super) fn leave_out(what: &'static str) {
    say(
        what,
        "library_memory_left_out",
        &format!("{what} is not known and is left out of all figures"),
    );
}

/// Notes an assumption of this kind, once in a process for each `what`.
pub(super) fn say(what: &'static str, assumption: &str, text: &str) {
    static SAID: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let Some(session) = session() else { return };
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_default().insert(what) {
        let note = serde_json::json!({
            "kind": "assumption",
            "assumption": assumption,
            "text": text,
            "where": null,
        });
        session.note(&note.to_string());
    }
}

/// Scratch memory of this range is asked for and not yet allocated.
pub(super) fn foresee(session: &Session, scratch: Scratch) {
    level(session, allocated(session), scratch);
}

/// Scratch memory of this range is in use, with its likely size.
pub(super) fn in_use(session: &Session, scratch: Scratch) {
    level(
        session,
        allocated(session).saturating_sub(scratch.likely),
        scratch,
    );
}

fn allocated(session: &Session) -> u64 {
    session
        .header
        .counter(counter::ALLOCATED)
        .load(Ordering::Relaxed)
}

fn level(session: &Session, without: u64, scratch: Scratch) {
    static HIGHEST: AtomicU64 = AtomicU64::new(0);
    static LARGEST: AtomicU64 = AtomicU64::new(0);
    static DOUBT: AtomicU64 = AtomicU64::new(0);
    let rises = |seen: &AtomicU64, now: u64| {
        let worth_telling = now >= seen.load(Ordering::Relaxed).saturating_add(WORTH_TELLING);
        if worth_telling {
            seen.fetch_max(now, Ordering::Relaxed);
        }
        worth_telling
    };
    let Scratch { low, likely, high } = scratch;
    if low >= high {
        return;
    }
    let higher = rises(&HIGHEST, without.saturating_add(high));
    let larger = rises(&LARGEST, high);
    let vaguer = rises(&DOUBT, likely.saturating_sub(low));
    if higher || larger || vaguer {
        let note = serde_json::json!({
            "kind": "scratch", "allocated_without": without, "low": low, "likely": likely, "high": high,
        });
        session.note(&note.to_string());
    }
}
