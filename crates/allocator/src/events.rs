//! Frees, and blocks that other streams may still use.
//!
//! A block that was recorded for other streams stays active after its free until each of them has reached an event.
//! That is only looked at when something else is asked for, in the order of PyTorch's hash map of queues, and this
//! order decides which neighbors merge first.

use std::collections::{BTreeMap, VecDeque};

use oomproof_units::DeviceAddress;
use rustc_hash::FxHashMap;

use crate::allocator::Allocator;
use crate::block::BlockId;
use crate::driver::{Driver, Event};
use crate::out_of_memory::UseError;
use crate::pool::PoolIndex;
use crate::slot_order::SlotOrdered;
use crate::stream::Stream;
use crate::trace::{Action, TraceSink};

/// Who waits for what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    queues: SlotOrdered<Stream, VecDeque<(Event, BlockId)>>,
    /// Other streams that use a block.
    users: FxHashMap<BlockId, SlotOrdered<Stream, ()>>,
    /// Of these, what was recorded while a pool was filled.
    users_of_fillings: FxHashMap<BlockId, Vec<Stream>>,
    /// Blocks that were freed while no event could be recorded.
    deferred: Vec<BlockId>,
    /// Blocks that waited when a recording began: for what is not known.
    pub(crate) stranded: BTreeMap<u64, BlockId>,
}

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// The program gives a block back.
    pub fn free(&mut self, address: DeviceAddress) -> Result<(), UseError> {
        let id = self
            .held
            .remove(address.get())
            .ok_or(UseError::UnknownAddress(address))?;
        let block = &mut self.blocks[id];
        block.is_allocated = false;
        let block = *block;
        let half = block.half.half();
        let handle = self.streams.get(block.stream).handle;
        self.statistics.allocation.decrease(half, 1);
        self.statistics
            .allocated_bytes
            .decrease(half, block.size.cast_signed());
        self.trace(
            Action::FreeRequested,
            block.half.pool(),
            block.address,
            block.requested,
            handle,
        );
        if block.size >= self.settings.max_split() {
            self.statistics.oversize_allocations.decrease(1);
        }
        if !block.has_users {
            self.finish_free(id);
        } else if self.frees_are_deferred() {
            self.events.deferred.push(id);
        } else {
            self.record_events(id);
        }
        Ok(())
    }

    /// `Tensor.record_stream`: another stream uses a block too.
    pub fn record_stream(
        &mut self,
        address: DeviceAddress,
        stream: Stream,
    ) -> Result<(), UseError> {
        let id = self
            .held
            .get(address.get())
            .ok_or(UseError::UnknownAddress(address))?;
        if self.handle_of(id) == stream.handle {
            return Ok(());
        }
        self.blocks[id].has_users = true;
        let hash = stream.hash(self.device);
        let users = self.events.users.entry(id).or_default();
        users.entry(hash, stream, || ());
        if self.frees_are_deferred() {
            let recorded = self.events.users_of_fillings.entry(id).or_default();
            if !recorded.contains(&stream) {
                recorded.push(stream);
            }
        }
        Ok(())
    }

    /// One event for each other stream that uses a block.
    fn record_events(&mut self, id: BlockId) {
        let users = self.events.users.remove(&id).unwrap_or_default();
        self.blocks[id].has_users = false;
        for (stream, ()) in users.iter() {
            let event = self.driver.record_event(*stream);
            self.blocks[id].n_events += 1;
            let hash = stream.hash(self.device);
            if let Some(queue) = self.events.queues.entry(hash, *stream, VecDeque::new) {
                queue.push_back((event, id));
            }
        }
    }

    /// Blocks whose events have happened become free. Called by PyTorch at every request.
    pub fn process_events(&mut self) {
        self.settle_deferred();
        let mut at = 0;
        while !self.events.queues.is_empty()
            && let Some((slot, stream, queue)) = self.events.queues.next_from(at)
        {
            at = slot;
            let Some(&(event, id)) = queue.front() else {
                let _ = stream;
                self.events.queues.remove_at(slot);
                continue;
            };
            if !self.driver.is_done(event) {
                at = slot + 1;
                continue;
            }
            queue.pop_front();
            self.event_happened(id);
        }
    }

    /// Waits for every event, or only for those of one pool's blocks.
    pub(crate) fn wait_for_events(&mut self, only: Option<PoolIndex>) {
        self.settle_deferred();
        let mut at = 0;
        while let Some((slot, _, queue)) = self.events.queues.next_from(at) {
            let mut waited = std::mem::take(queue);
            let mut kept = VecDeque::new();
            while let Some((event, id)) = waited.pop_front() {
                let pool = self.blocks[id].half.pool();
                if only.is_some_and(|only| only != pool) {
                    kept.push_back((event, id));
                    continue;
                }
                self.driver.wait(event);
                self.event_happened(id);
            }
            if kept.is_empty() {
                self.events.queues.remove_at(slot);
                at = slot;
            } else {
                if let Some((_, _, queue)) = self.events.queues.next_from(slot) {
                    *queue = kept;
                }
                at = slot + 1;
            }
        }
        let stranded: Vec<u64> = self
            .events
            .stranded
            .iter()
            .filter(|(_, id)| only.is_none_or(|only| only == self.blocks[**id].half.pool()))
            .map(|(address, _)| *address)
            .collect();
        for address in stranded {
            // It was just listed.
            let _ = self.finish_pending(DeviceAddress::new(address));
        }
    }

    fn event_happened(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        block.n_events = block.n_events.saturating_sub(1);
        if block.n_events == 0 {
            self.finish_free(id);
        }
    }

    /// What was freed while a pool was filled is freed as if now.
    fn settle_deferred(&mut self) {
        let mut deferred = std::mem::take(&mut self.events.deferred);
        if deferred.len() > 1 && self.release.settles_in_any_order() {
            deferred = self.in_the_order_of_the_driver(&deferred);
        }
        for id in deferred {
            let recorded = self.events.users_of_fillings.remove(&id);
            if self.release.forgets_streams_of_captures()
                && let Some(users) = self.events.users.get_mut(&id)
            {
                for stream in recorded.unwrap_or_default() {
                    users.remove(stream.hash(self.device), &stream);
                }
            }
            self.record_events(id);
            if self.blocks[id].n_events == 0 {
                self.finish_free(id);
            }
        }
    }

    fn in_the_order_of_the_driver(&mut self, deferred: &[BlockId]) -> Vec<BlockId> {
        let by_address: BTreeMap<DeviceAddress, BlockId> = deferred
            .iter()
            .map(|id| (DeviceAddress::new(self.blocks[*id].address), *id))
            .collect();
        let mut addresses: Vec<DeviceAddress> = deferred
            .iter()
            .map(|id| DeviceAddress::new(self.blocks[*id].address))
            .collect();
        self.driver.order_deferred(&mut addresses);
        let ordered: BTreeMap<DeviceAddress, usize> = addresses
            .into_iter()
            .enumerate()
            .map(|(at, address)| (address, at))
            .collect();
        // A driver that repeats one address or names another cannot make blocks vanish.
        let mut sorted: Vec<(DeviceAddress, BlockId)> = by_address.into_iter().collect();
        sorted.sort_by_key(|(address, _)| ordered.get(address).copied());
        sorted.into_iter().map(|(_, id)| id).collect()
    }

    /// A block that was waiting when the state was taken from a snapshot is free now: the trace says so.
    pub fn finish_pending(&mut self, address: DeviceAddress) -> Result<(), UseError> {
        let id = self
            .events
            .stranded
            .remove(&address.get())
            .ok_or(UseError::UnknownAddress(address))?;
        self.event_happened(id);
        Ok(())
    }

    /// Joins a block with its free neighbors and puts it among the free ones.
    fn finish_free(&mut self, id: BlockId) {
        let block = self.blocks[id];
        let half = block.half.half();
        let handle = self.streams.get(block.stream).handle;
        self.trace(
            Action::FreeCompleted,
            block.half.pool(),
            block.address,
            block.requested,
            handle,
        );
        let mut n_split = 0;
        let mut split_bytes = 0;
        for neighbor in [block.prev, block.next] {
            if let Some(size) = self.merge(id, neighbor) {
                n_split -= 1;
                split_bytes -= size.cast_signed();
            }
        }
        self.insert_free(id);
        if !block.is_expandable() {
            if self.blocks[id].is_split() {
                n_split += 1;
                split_bytes += self.blocks[id].size.cast_signed();
            }
            self.statistics.inactive_split.change(half, n_split);
            self.statistics
                .inactive_split_bytes
                .change(half, split_bytes);
        }
        self.statistics.active.decrease(half, 1);
        self.statistics
            .active_bytes
            .decrease(half, block.size.cast_signed());
        self.statistics
            .requested_bytes
            .decrease(half, block.requested.cast_signed());
    }

    /// Takes a neighbor in, if it is free and as mapped as the block; how large it was.
    pub(crate) fn merge(&mut self, id: BlockId, neighbor: BlockId) -> Option<u64> {
        let neighbor = neighbor.some()?;
        let other = self.blocks[neighbor];
        if other.is_active() || other.is_mapped != self.blocks[id].is_mapped {
            return None;
        }
        if other.is_mapped {
            self.remove_free(neighbor);
        } else {
            self.remove_unmapped(neighbor);
        }
        if other.next == id {
            let block = &mut self.blocks[id];
            block.address = other.address;
            block.prev = other.prev;
            if let Some(prev) = other.prev.some() {
                self.blocks[prev].next = id;
            }
        } else {
            self.blocks[id].next = other.next;
            if let Some(next) = other.next.some() {
                self.blocks[next].prev = id;
            }
        }
        self.blocks[id].size += other.size;
        self.blocks.remove(neighbor);
        Some(other.size)
    }
}
