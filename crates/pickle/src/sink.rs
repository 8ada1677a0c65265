//! Where the values go.

use crate::value::{Handle, TextNumber, Value};

/// Takes what a pickle builds, in the order in which it is finished: the parts before the whole.
///
/// A container is announced when the file begins it, then filled in one or more calls. The reader makes sure that a
/// handle is used as what it is, and that nothing is added to a container after it became part of another one, so
/// there are no cycles; a handle may be part of any number of others.
pub trait Sink {
    /// Why the sink does not want to go on.
    type Error;

    /// A text was read; the same text may come again, and may get the same number.
    fn text(&mut self, text: &str) -> Result<TextNumber, Self::Error>;

    /// The text behind a number, for messages.
    fn name(&self, text: TextNumber) -> &str;

    /// An empty dictionary.
    fn dict(&mut self, new: Handle) -> Result<(), Self::Error> {
        let _ = new;
        Ok(())
    }

    /// An empty list.
    fn list(&mut self, new: Handle) -> Result<(), Self::Error> {
        let _ = new;
        Ok(())
    }

    /// A tuple, which never changes.
    fn tuple(&mut self, new: Handle, items: &[Value]) -> Result<(), Self::Error> {
        let _ = (new, items);
        Ok(())
    }

    /// More items of a dictionary: a key, its value, a key, its value. The number of values is even; `offset` is where in
    /// the input the instruction stands that adds them.
    fn set_items(
        &mut self,
        dict: Handle,
        items: &[Value],
        offset: usize,
    ) -> Result<(), Self::Error> {
        let _ = (dict, items, offset);
        Ok(())
    }

    /// More items of a list, with the offset as in [`Sink::set_items`].
    fn append(&mut self, list: Handle, items: &[Value], offset: usize) -> Result<(), Self::Error> {
        let _ = (list, items, offset);
        Ok(())
    }
}
