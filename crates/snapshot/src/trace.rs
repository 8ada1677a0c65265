//! The entries of one device in columns. Most questions need two or three fields of millions of entries, and a row of
//! all of them would be twice as long as the columns are wide.

use oomproof_units::{Bytes, DeviceAddress, Micros};

use crate::entry::{Action, Entry, PoolId, StreamHandle};
use crate::stack_table::StackId;
use crate::text_table::TextId;
use crate::uniform_column::UniformColumn;

/// The entries of one device, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    actions: Vec<Action>,
    addresses: Vec<DeviceAddress>,
    sizes: Vec<Bytes>,
    stacks: Vec<StackId>,
    times: TimeColumn,
    streams: UniformColumn<StreamHandle>,
    pools: UniformColumn<Option<PoolId>>,
    compile_contexts: UniformColumn<Option<TextId>>,
    user_metadata: UniformColumn<Option<TextId>>,
    internal_metadata: UniformColumn<Option<TextId>>,
}

impl Trace {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Nothing was recorded for this device.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// One entry.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn entry(&self, index: usize) -> Entry {
        Entry {
            action: self.actions[index],
            address: self.addresses[index],
            size: self.sizes[index],
            stream: self.streams.get(index),
            time: self.times.get(index),
            stack: self.stacks[index],
            pool: self.pools.get(index),
            compile_context: self.compile_contexts.get(index),
            user_metadata: self.user_metadata.get(index),
            internal_metadata: self.internal_metadata.get(index),
        }
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> + DoubleEndedIterator + '_ {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// The actions alone.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The addresses alone; for [`Action::OutOfMemory`] the device's free bytes.
    pub fn addresses(&self) -> &[DeviceAddress] {
        &self.addresses
    }

    /// The sizes alone.
    pub fn sizes(&self) -> &[Bytes] {
        &self.sizes
    }

    /// The stacks alone.
    pub fn stacks(&self) -> &[StackId] {
        &self.stacks
    }

    pub(crate) fn push(&mut self, entry: &Entry) {
        self.actions.push(entry.action);
        self.addresses.push(entry.address);
        self.sizes.push(entry.size);
        self.stacks.push(entry.stack);
        self.times.push(entry.time);
        self.streams.push(entry.stream);
        self.pools.push(entry.pool);
        self.compile_contexts.push(entry.compile_context);
        self.user_metadata.push(entry.user_metadata);
        self.internal_metadata.push(entry.internal_metadata);
    }
}

/// Times of entries; nothing is stored while no entry has one.
#[derive(Clone, Debug)]
enum TimeColumn {
    Absent(usize),
    /// Microseconds, [`NO_TIME`] for none.
    Each(Vec<u64>),
}

const NO_TIME: u64 = u64::MAX;

impl Default for TimeColumn {
    fn default() -> Self {
        Self::Absent(0)
    }
}

impl TimeColumn {
    fn push(&mut self, time: Option<Micros>) {
        if let (Self::Absent(len), Some(_)) = (&*self, time) {
            *self = Self::Each(vec![NO_TIME; *len]);
        }
        match self {
            Self::Absent(len) => *len += 1,
            Self::Each(times) => times.push(time.map_or(NO_TIME, Micros::get)),
        }
    }

    fn get(&self, index: usize) -> Option<Micros> {
        match self {
            Self::Absent(_) => None,
            Self::Each(times) => Some(times[index])
                .filter(|&time| time != NO_TIME)
                .map(Micros::new),
        }
    }
}
