//! Which containers there are, and whether they may still change. A container that became part of another one may not:
//! that is what makes cycles impossible, and real picklers never need it.

use crate::value::{Handle, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dict = 0,
    List = 1,
    Tuple = 2,
}

const CLOSED: u8 = 0x80;

/// One byte for each container of the pickle.
#[derive(Default)]
pub(crate) struct Objects {
    states: Vec<u8>,
}

impl Objects {
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    #[inline]
    pub(crate) fn add(&mut self, kind: Kind) -> Handle {
        let handle = Handle(self.states.len() as u32);
        self.states.push(kind as u8);
        handle
    }

    /// These become part of something.
    #[inline]
    pub(crate) fn close(&mut self, items: &[Value]) {
        for item in items {
            if let Value::Object(Handle(index)) = *item {
                self.states[index as usize] |= CLOSED;
            }
        }
    }

    #[inline]
    pub(crate) fn is_closed(&self, handle: Handle) -> bool {
        self.states[handle.0 as usize] & CLOSED != 0
    }

    /// The value as an open container of this kind.
    #[inline]
    pub(crate) fn open(&self, value: Value, kind: Kind) -> Open {
        match value {
            Value::Object(handle) => match self.states[handle.0 as usize] {
                state if state == kind as u8 => Open::Yes(handle),
                state if state == kind as u8 | CLOSED => Open::Closed,
                _ => Open::OtherKind,
            },
            _ => Open::OtherKind,
        }
    }
}

pub(crate) enum Open {
    Yes(Handle),
    Closed,
    OtherKind,
}
