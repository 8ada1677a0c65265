//! Bounds in proportion to the input. One byte of a pickle can push a value of sixteen bytes, so without them a file of
//! one gigabyte could ask for sixteen; a real file spends many bytes on each of these things.

/// How many things of each kind a pickle may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Values on the stack at one time, of 16 bytes each.
    pub stack: usize,
    /// Marks at one time: how deeply containers nest.
    pub depth: usize,
    /// Entries of the memo, of 8 bytes each.
    pub memo: usize,
    /// Dictionaries, lists and tuples together; one byte each here, and what the sink keeps of them.
    pub objects: usize,
}

impl Limits {
    /// The bounds for an input of so many bytes. Together they let the reader use at most 4.25 times the input and 2 MiB;
    /// Python's own pickler and the one inside torch stay below a quarter of each.
    pub fn for_length(len: usize) -> Self {
        Self {
            stack: 65_536 + len / 8,
            depth: 1000,
            memo: 65_536 + len / 4,
            objects: 65_536 + len / 4,
        }
    }
}
