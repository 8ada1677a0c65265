//! Blocks of expandable segments without memory behind them, by stream and address.

use std::collections::BTreeSet;

use crate::block::BlockId;

/// Keys are the handle of a stream and an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unmapped {
    blocks: BTreeSet<(u64, u64, BlockId)>,
}

impl Unmapped {
    pub(crate) fn insert(&mut self, handle: u64, address: u64, block: BlockId) {
        self.blocks.insert((handle, address, block));
    }

    pub(crate) fn remove(&mut self, handle: u64, address: u64, block: BlockId) {
        self.blocks.remove(&(handle, address, block));
    }

    pub(crate) fn of_stream(&self, handle: u64) -> impl Iterator<Item = BlockId> {
        self.blocks
            .range((handle, 0, BlockId::FIRST)..)
            .take_while(move |(of, _, _)| *of == handle)
            .map(|(_, _, block)| *block)
    }
}
