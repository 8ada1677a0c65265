//! Texts, each stored once. A trace repeats the same file names and words a million times, so everything else keeps a
//! number of four bytes, and comparing two texts is comparing two numbers.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A text of one snapshot's [`Texts`]; worthless with those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub(crate) u32);

/// The texts of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    joined: String,
    /// Where each text ends in `joined`.
    ends: Vec<usize>,
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Texts {
    /// The text behind an id; empty for an id of other texts.
    pub fn get(&self, id: TextId) -> &str {
        text_at(&self.joined, &self.ends, id.0)
    }

    /// The id of `text`, which is stored if it is new.
    pub fn intern(&mut self, text: &str) -> TextId {
        let Self {
            joined,
            ends,
            ids,
            hasher,
        } = self;
        let hash = hasher.hash_one(text);
        let new = ends.len() as u32;
        let found = ids
            .entry(
                hash,
                |&id| text_at(joined, ends, id) == text,
                |&id| hasher.hash_one(text_at(joined, ends, id)),
            )
            .or_insert(new);
        let id = *found.get();
        if id == new {
            joined.push_str(text);
            ends.push(joined.len());
        }
        TextId(id)
    }

    /// How many different texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn text_at<'a>(joined: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    let start = match id.checked_sub(1) {
        Some(before) => ends.get(before).copied().unwrap_or(joined.len()),
        None => 0,
    };
    let end = ends.get(id).copied().unwrap_or(start);
    joined.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_each_text_once() {
        let mut texts = Texts::default();
        let words = ["alloc", "", "free_requested", "alloc", ""];
        let ids: Vec<TextId> = words.iter().map(|word| texts.intern(word)).collect();
        assert_eq!(texts.len(), 3);
        for (word, id) in words.iter().zip(&ids) {
            assert_eq!(texts.get(*id), *word);
        }
        assert_eq!(ids[0], ids[3]);
        assert_eq!(texts.get(TextId(77)), "");
    }
}
