//! What the agent wrote in words. Notes are JSON from inside a foreign process: a field that is missing or of another
//! type counts as absent.

use serde_json::Value;

/// One note.
#[derive(Debug)]
pub(crate) struct Note {
    /// Number of its record.
    pub(crate) at: usize,
    pub(crate) kind: String,
    pub(crate) fields: Value,
}

impl Note {
    /// `None` when it is not a JSON object with a kind.
    pub(crate) fn parse(at: usize, json: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(json).ok()?;
        let kind = fields.get("kind")?.as_str()?.to_owned();
        Some(Self { at, kind, fields })
    }

    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }
}

/// `file:line` of an object that has them.
pub(crate) fn place(fields: &Value) -> Option<String> {
    let file = fields.get("file")?.as_str()?;
    let line = fields.get("line")?.as_u64()?;
    Some(format!("{file}:{line}"))
}
