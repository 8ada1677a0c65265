//! Lists, and dictionaries that are filled in several steps: what they are shows only when something becomes part of them
//! or they become part of something.

use oomproof_pickle::{Handle, Value};

use crate::pickled::fields::Fields;
use crate::pickled::misfit::Misfit;
use crate::pickled::sink::Rows;
use crate::pickled::slots::{Kind, Slot};
use crate::stack_table::FrameId;

impl Rows {
    /// Turns a dictionary that was filled in several steps into the row it is.
    pub(super) fn settle(&mut self, handle: Handle, offset: usize) -> Result<Slot, Misfit> {
        let slot = self.slots.get(handle);
        let Slot::Pending(index) = slot else {
            return Ok(slot);
        };
        let items = std::mem::take(&mut self.slots.pending[index as usize]);
        if let Some(row) = self.row(Fields::new(&items), offset)? {
            self.slots.set(handle, row);
            return Ok(row);
        }
        self.slots.pending[index as usize] = items;
        // It is not looked at again, however often the pickle refers to it.
        self.slots.set(handle, Slot::Dict(index));
        Ok(Slot::Dict(index))
    }

    /// What kind of list an item belongs in, and the row that stands for it there.
    #[inline]
    pub(super) fn item(
        &mut self,
        value: Value,
        offset: usize,
    ) -> Result<Option<(Kind, u32)>, Misfit> {
        let Value::Object(handle) = value else {
            return Ok(None);
        };
        Ok(match self.settle(handle, offset)? {
            Slot::Row(kind, row) => Some((kind, row)),
            Slot::EmptyList | Slot::List(_) => Some((Kind::List, handle.0)),
            _ => None,
        })
    }

    /// The stack of the first batch of a list of frames, which is nearly always all of it.
    #[inline]
    pub(super) fn first_frames(
        &mut self,
        items: &[Value],
        offset: usize,
    ) -> Result<Option<Slot>, Misfit> {
        self.frames.clear();
        for &item in items {
            match self.item(item, offset)? {
                Some((Kind::Frame, row)) => self.frames.push(FrameId(row)),
                _ => return Ok(None),
            }
        }
        Ok(Some(Slot::Stack(self.stacks.intern(&self.frames))))
    }

    /// Adds rows to a list. One item of another kind makes it a list of nothing.
    pub(super) fn extend(
        &mut self,
        list: Handle,
        index: u32,
        items: &[Value],
        offset: usize,
    ) -> Result<(), Misfit> {
        let kind = self.slots.lists[index as usize].kind;
        for &item in items {
            match self.item(item, offset)? {
                Some((found, row)) if found == kind => {
                    self.slots.lists[index as usize].items.push(row);
                }
                _ => {
                    self.slots.lists[index as usize].items = Vec::new();
                    self.slots.set(list, Slot::Other);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
