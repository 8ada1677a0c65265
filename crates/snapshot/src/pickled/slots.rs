//! What each container of the pickle turned out to be. Eight bytes for each, because there is one for every entry: the
//! container itself is gone as soon as it became a row.

use oomproof_pickle::{Handle, Value};

use crate::stack_table::{FrameId, StackId};

/// One container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A dictionary that has nothing in it yet.
    EmptyDict,
    /// A list that has nothing in it yet.
    EmptyList,
    /// A dictionary that may still become one of the kinds below: an index of `pending`.
    Pending(u32),
    /// A dictionary that is not one of the kinds below and cannot become one: an index of `pending`.
    Dict(u32),
    /// A row of its kind.
    Row(Kind, u32),
    /// A list of frames, stored as the stack it is.
    Stack(StackId),
    /// Any other list whose items are of one kind: an index of `lists`.
    List(u32),
    /// A pair of numbers: an index of `pairs`.
    Pair(u32),
    /// Nothing that a snapshot has.
    Other,
}

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Frame,
    Entry,
    Segment,
    Block,
    Annotation,
    History,
    /// A list of its own; the item is its handle.
    List,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Frame => "a frame",
            Self::Entry => "an entry of a trace",
            Self::Segment => "a segment",
            Self::Block => "a block",
            Self::Annotation => "an annotation",
            Self::History => "a history",
            Self::List => "a list",
        }
    }
}

/// The items of a list that holds rows of one kind.
#[derive(Debug)]
pub(super) struct List {
    pub(super) kind: Kind,
    pub(super) items: Vec<u32>,
}

/// The containers so far.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    pub(super) lists: Vec<List>,
    /// Keys and values of dictionaries that are no rows.
    pub(super) pending: Vec<Vec<Value>>,
    pub(super) pairs: Vec<(u64, u64)>,
}

impl Slots {
    #[inline]
    pub(super) fn add(&mut self, new: Handle, slot: Slot) {
        debug_assert_eq!(new.0 as usize, self.all.len());
        self.all.push(slot);
    }

    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Slot {
        self.all[handle.0 as usize]
    }

    #[inline]
    pub(super) fn set(&mut self, handle: Handle, slot: Slot) {
        self.all[handle.0 as usize] = slot;
    }

    /// The slot of a value; `None` if it is no container.
    #[inline]
    pub(super) fn of(&self, value: Value) -> Option<Slot> {
        match value {
            Value::Object(handle) => Some(self.get(handle)),
            _ => None,
        }
    }

    /// A list that begins with these items.
    pub(super) fn new_list(&mut self, kind: Kind, items: Vec<u32>) -> Slot {
        self.lists.push(List { kind, items });
        Slot::List(self.lists.len() as u32 - 1)
    }

    /// A dictionary that is no row yet.
    pub(super) fn new_pending(&mut self, items: &[Value]) -> Slot {
        self.pending.push(items.to_vec());
        Slot::Pending(self.pending.len() as u32 - 1)
    }

    /// The rows of a list of this kind; an empty list is a list of any kind.
    pub(super) fn rows(&self, value: Value, kind: Kind) -> Option<&[u32]> {
        match self.of(value)? {
            Slot::EmptyList => Some(&[]),
            Slot::List(index) => {
                let list = &self.lists[index as usize];
                (list.kind == kind).then_some(list.items.as_slice())
            }
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 8);
const _: () = assert!(size_of::<FrameId>() == 4);
