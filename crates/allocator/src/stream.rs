//! A stream has two names: free blocks are ordered by its handle, and events wait in an order that hashes its number.

/// A CUDA stream as PyTorch's allocator sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The handle, as in the `stream` column of traces; 0 is the default stream.
    pub handle: u64,
    /// PyTorch's number of it (`torch.cuda.Stream.stream_id`), of which 48 bits count.
    pub id: u64,
}

impl Stream {
    /// The default stream.
    pub const DEFAULT: Self = Self { handle: 0, id: 0 };

    /// A stream that was not made by PyTorch, or whose number is not known: its handle is its number.
    pub const fn from_handle(handle: u64) -> Self {
        Self { handle, id: handle }
    }

    /// The stream of normal priority that PyTorch handed out as its `slot`-th, counted from 0.
    pub const fn from_pool(handle: u64, slot: u64) -> Self {
        Self {
            handle,
            id: 3 + 32 * slot,
        }
    }

    /// PyTorch's hash of it on a device.
    pub(crate) const fn hash(self, device: u8) -> u64 {
        (1 << 56) | ((device as u64) << 48) | (self.id & 0xffff_ffff_ffff)
    }
}

/// Handles in the order in which they were first used, so that a block holds four bytes for its stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    known: Vec<Stream>,
}

impl Streams {
    /// The index of a stream; its number is the one it first came with.
    pub(crate) fn index(&mut self, stream: Stream) -> u32 {
        let found = self
            .known
            .iter()
            .position(|known| known.handle == stream.handle);
        let index = found.unwrap_or_else(|| {
            self.known.push(stream);
            self.known.len() - 1
        });
        index as u32
    }

    pub(crate) fn get(&self, index: u32) -> Stream {
        self.known[index as usize]
    }
}
