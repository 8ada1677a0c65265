//! Sizes that a closed library chooses are not known exactly, and whoever is told one also says so in the profile.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::session::session;

/// Notes, once in a process, that `what` is an estimate; the text goes on after "is an estimate: ".
pub(super) fn assume(what: &'static str, text: &str) {
    static SAID: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let Some(session) = session() else { return };
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_default().insert(what) {
        let note = serde_json::json!({
            "kind": "assumption",
            "assumption": "library_scratch",
            "text": format!("{what} is an estimate: {text}"),
            "where": null,
        });
        session.note(&note.to_string());
    }
}
