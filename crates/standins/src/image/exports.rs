//! What one image exports, in the order that the GNU hash table wants: by bucket.

use std::collections::BTreeSet;

use object::elf;

use crate::{Library, stub};

pub(super) const VARIABLE_ALIGNMENT: u64 = 16;

/// The slot through which stubs reach the device comes first in the data.
const SLOT_SIZE: u64 = 8;

/// The exports, sorted by bucket.
pub(super) struct Exports<'a> {
    sorted: Vec<Export<'a>>,
    buckets: u32,
    functions: u64,
    data_size: u64,
}

/// A symbol that the image exports.
pub(super) struct Export<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// Its place in the section of its kind.
    pub(super) offset: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Function { code: i32 },
    Variable { size: u64 },
}

impl<'a> Exports<'a> {
    /// All that the library has and the device has not.
    pub(super) fn of(library: &'a Library, implemented: &BTreeSet<String>) -> Self {
        let mut sorted = Vec::new();
        let mut text_size = 0;
        for (name, &code) in &library.functions {
            if !implemented.contains(name) {
                sorted.push(Export {
                    name,
                    kind: Kind::Function { code },
                    offset: text_size,
                });
                text_size += stub::STRIDE;
            }
        }
        let mut data_size = SLOT_SIZE;
        for (name, &size) in &library.variables {
            if !implemented.contains(name) {
                let offset = data_size.next_multiple_of(VARIABLE_ALIGNMENT);
                sorted.push(Export {
                    name,
                    kind: Kind::Variable { size },
                    offset,
                });
                data_size = offset + size;
            }
        }
        let buckets = (sorted.len() as u32 / 4).max(1);
        sorted.sort_by_key(|export| export.hash() % buckets);
        Self {
            sorted,
            buckets,
            functions: text_size / stub::STRIDE,
            data_size,
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Export<'a>> {
        self.sorted.iter()
    }

    pub(super) fn len(&self) -> u32 {
        self.sorted.len() as u32
    }

    pub(super) fn hash(&self, index: u32) -> u32 {
        self.sorted[index as usize].hash()
    }

    pub(super) fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Eight names to a word of 64 bits keep the filter sparse.
    pub(super) fn bloom_words(&self) -> u32 {
        (self.len() / 8).next_power_of_two()
    }

    pub(super) fn functions(&self) -> u64 {
        self.functions
    }

    /// The slot and the variables.
    pub(super) fn data_size(&self) -> u64 {
        self.data_size
    }
}

impl Export<'_> {
    fn hash(&self) -> u32 {
        elf::gnu_hash(self.name.as_bytes())
    }
}
