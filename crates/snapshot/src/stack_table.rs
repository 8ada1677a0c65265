//! Stacks of frames, each stored once. Most entries of a trace come from few lines, and a stack is compared, grouped and
//! counted far more often than it is printed, so it is a number; its frames lie side by side in one column.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::text_table::{TextId, Texts};

/// A frame of one snapshot's [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub(crate) u32);

/// A stack of one snapshot's [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub(crate) u32);

impl StackId {
    /// The stack without frames: nothing was recorded.
    pub const EMPTY: Self = Self(0);

    /// A number below [`Stacks::len`], for tables with a row for each stack.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FrameId {
    /// A number below [`Stacks::n_frames`], for tables with a row for each frame.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One frame: a place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The file's name, as it was recorded; `??` for machine code without symbols.
    pub file: TextId,
    /// The line, from 1; 0 when it is not known.
    pub line: u32,
    /// The function's name.
    pub function: TextId,
}

/// A field of a frame besides the usual three, such as `fx_node_name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNote {
    /// The field's name.
    pub key: TextId,
    /// What it says.
    pub value: TextId,
}

/// The frames and stacks of a snapshot.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    /// Sorted by frame.
    notes: Vec<(FrameId, FrameNote)>,
    frame_ids: HashTable<u32>,
    joined: Vec<FrameId>,
    /// Where each stack ends in `joined`; the first is the empty stack.
    ends: Vec<u32>,
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks = Self {
            frames: Vec::new(),
            notes: Vec::new(),
            frame_ids: HashTable::new(),
            joined: Vec::new(),
            ends: Vec::new(),
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        stacks.intern(&[]);
        stacks
    }
}

impl Stacks {
    /// The frames of a stack, innermost first; none for an id of other stacks.
    pub fn frames(
        &self,
        stack: StackId,
    ) -> impl ExactSizeIterator<Item = Frame> + DoubleEndedIterator + '_ {
        self.frame_ids(stack).iter().map(|&id| self.frame(id))
    }

    /// The ids of the frames of a stack, innermost first.
    pub fn frame_ids(&self, stack: StackId) -> &[FrameId] {
        stack_at(&self.joined, &self.ends, stack.0)
    }

    /// One frame.
    ///
    /// # Panics
    /// If the id is one of other stacks and out of range here.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.0 as usize]
    }

    /// What else was recorded of a frame.
    pub fn notes(&self, id: FrameId) -> impl Iterator<Item = FrameNote> + '_ {
        notes_at(&self.notes, id)
    }

    /// The frames of a stack with their texts, to compare with those of another snapshot.
    pub(crate) fn describe(&self, texts: &Texts, stack: StackId) -> Vec<String> {
        let describe = |&id: &FrameId| {
            let frame = self.frame(id);
            let mut text = format!(
                "{}:{}:{}",
                texts.get(frame.file),
                frame.line,
                texts.get(frame.function)
            );
            for note in self.notes(id) {
                for part in [" ", texts.get(note.key), "=", texts.get(note.value)] {
                    text.push_str(part);
                }
            }
            text
        };
        self.frame_ids(stack).iter().map(describe).collect()
    }

    /// How many different stacks there are, with the empty one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never true: the empty stack is always there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many different frames there are.
    pub fn n_frames(&self) -> usize {
        self.frames.len()
    }

    /// The id of a frame, which is stored if it is new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        self.intern_noted_frame(frame, &[])
    }

    /// The id of a frame with notes, which is stored if it is new.
    pub fn intern_noted_frame(&mut self, frame: Frame, notes: &[FrameNote]) -> FrameId {
        let new = self.frames.len() as u32;
        let Self {
            frames,
            notes: all_notes,
            frame_ids,
            hasher,
            ..
        } = self;
        // Notes count too: many frames that differ in nothing else would share one hash.
        let hash = hash_of(hasher, frame, notes.iter().copied());
        let found = frame_ids
            .entry(
                hash,
                |&id| {
                    frames[id as usize] == frame
                        && notes_at(all_notes, FrameId(id)).eq(notes.iter().copied())
                },
                |&id| {
                    let notes = notes_at(all_notes, FrameId(id));
                    hash_of(hasher, frames[id as usize], notes)
                },
            )
            .or_insert(new);
        let id = FrameId(*found.get());
        if id.0 == new {
            frames.push(frame);
            all_notes.extend(notes.iter().map(|&note| (id, note)));
        }
        id
    }

    /// The id of a stack, innermost frame first, which is stored if it is new.
    pub fn intern(&mut self, stack: &[FrameId]) -> StackId {
        let Self {
            joined,
            ends,
            ids,
            hasher,
            ..
        } = self;
        let hash = hasher.hash_one(stack);
        let new = ends.len() as u32;
        let found = ids
            .entry(
                hash,
                |&id| stack_at(joined, ends, id) == stack,
                |&id| hasher.hash_one(stack_at(joined, ends, id)),
            )
            .or_insert(new);
        let id = *found.get();
        if id == new {
            joined.extend_from_slice(stack);
            ends.push(joined.len() as u32);
        }
        StackId(id)
    }
}

fn hash_of(
    hasher: &DefaultHashBuilder,
    frame: Frame,
    notes: impl Iterator<Item = FrameNote>,
) -> u64 {
    let mut state = hasher.build_hasher();
    frame.hash(&mut state);
    for note in notes {
        note.hash(&mut state);
    }
    state.finish()
}

fn notes_at(notes: &[(FrameId, FrameNote)], id: FrameId) -> impl Iterator<Item = FrameNote> + '_ {
    let start = notes.partition_point(|&(frame, _)| frame < id);
    notes[start..]
        .iter()
        .take_while(move |&&(frame, _)| frame == id)
        .map(|&(_, note)| note)
}

fn stack_at<'a>(joined: &'a [FrameId], ends: &[u32], id: u32) -> &'a [FrameId] {
    let id = id as usize;
    let start = match id.checked_sub(1) {
        Some(before) => ends.get(before).copied().unwrap_or(joined.len() as u32),
        None => 0,
    };
    let end = ends.get(id).copied().unwrap_or(start);
    joined.get(start as usize..end as usize).unwrap_or_default()
}
