//! What the pickle stored to use again. Files have one entry for nearly every dictionary, so an entry is eight bytes;
//! numbers, which nobody stores, are kept apart.

use crate::value::{Handle, TextNumber, Value};

#[derive(Clone, Copy)]
enum Entry {
    Vacant,
    Text(TextNumber),
    Object(Handle),
    Other(u32),
}

/// The memo of one pickle.
#[derive(Default)]
pub(crate) struct Memo {
    entries: Vec<Entry>,
    others: Vec<Value>,
}

impl Memo {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, value: Value) {
        let entry = self.entry(value);
        self.entries.push(entry);
    }

    /// Stores at a number of the pickle's choice, which the caller has checked.
    pub(crate) fn put(&mut self, index: usize, value: Value) {
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::Vacant);
        }
        self.entries[index] = self.entry(value);
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<Value> {
        match *self.entries.get(index as usize)? {
            Entry::Vacant => None,
            Entry::Text(text) => Some(Value::Text(text)),
            Entry::Object(handle) => Some(Value::Object(handle)),
            Entry::Other(other) => self.others.get(other as usize).copied(),
        }
    }

    #[inline]
    fn entry(&mut self, value: Value) -> Entry {
        match value {
            Value::Text(text) => Entry::Text(text),
            Value::Object(handle) => Entry::Object(handle),
            _ => {
                self.others.push(value);
                Entry::Other(self.others.len() as u32 - 1)
            }
        }
    }
}
