//! Who holds which device memory: what the driver handed out, what PyTorch's allocator made of it, and what is known
//! of its bytes. One lock guards all three, because a block that changes hands must lose its contents at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use oomproof_profile::DriverAction;
use rustc_hash::FxHashMap;

use crate::arena::Arena;
use crate::contents::Contents;
use crate::deferred::Overwritten;
use crate::pools::{ALIGNMENT, Pool, Pools};
use crate::ranks::Board;

/// The driver gives memory out in pieces of this size.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// Smaller requests share pieces; their starts are aligned to this.
const SMALL_ALIGNMENT: u64 = 512;

/// How a range of device addresses came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cudaMalloc` and kin.
    Malloc,
    /// `cudaMallocAsync` and kin, from a pool.
    Pool,
    /// `cuMemAddressReserve`: addresses only.
    Reserved,
    /// Memory of another process, which it is counted for there.
    Foreign,
}

/// One range of device addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) len: u64,
    /// Bytes of the device it takes.
    pub(crate) charged: u64,
    pub(crate) device: usize,
    pub(crate) kind: Kind,
}

impl Range {
    /// Whether another process may be given it: pools and mappings are shared in other ways.
    pub(crate) fn is_shareable(self) -> bool {
        self.kind == Kind::Malloc
    }
}

/// Physical memory made by `cuMemCreate`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Physical {
    pub(crate) len: u64,
    pub(crate) device: usize,
    /// It is another process's, and counted for there.
    foreign: bool,
    /// Mappings that still use it keep it alive after its release.
    mappings: u32,
    released: bool,
}

/// Why CUDA knows of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostUse {
    /// `cudaHostAlloc`: mapped by us, and to be unmapped on `cudaFreeHost`.
    Allocated,
    /// `cudaHostRegister`: the program's own.
    Registered,
    /// `cudaMallocManaged`: mapped by us, and to be unmapped on `cudaFree`.
    Managed,
}

/// Host memory that CUDA knows of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    pub(crate) len: u64,
    pub(crate) usage: HostUse,
}

/// A block of PyTorch's allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) size: u64,
    /// Id of the text naming the kernel or library function that last wrote there, 0 for none.
    pub(crate) origin: u32,
    /// Bit per `Touch` already recorded.
    pub(crate) touched: u8,
}

/// Why the driver refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The device is full.
    OutOfMemory,
    /// The argument names nothing that exists.
    Invalid,
}

/// Something the profile should know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverEvent {
    pub(crate) action: DriverAction,
    pub(crate) device: usize,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) used: u64,
}

/// The memory of all devices.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    total: u64,
    /// Bytes of each device that are taken from the start or by this process.
    used: Vec<u64>,
    /// What is taken from the start.
    reserved: u64,
    /// What the other processes of the run hold.
    board: Option<Arc<Board>>,
    /// Bytes in requests too small for a piece of their own, per device.
    small: Vec<u64>,
    ranges: BTreeMap<u64, Range>,
    physical: HashMap<u64, Physical>,
    /// Start of a mapping -> its length and the physical memory behind it.
    mappings: BTreeMap<u64, (u64, u64)>,
    next_physical: u64,
    pub(crate) pools: Pools,
    host: BTreeMap<u64, HostRange>,
    /// Kernels are launched with the starts of blocks far more often than with addresses inside them.
    blocks: FxHashMap<u64, Block>,
    starts: BTreeSet<u64>,
    pub(crate) contents: Contents,
    /// Where what is overwritten is taken down instead, while work is captured.
    pub(crate) deferred: Option<Vec<Overwritten>>,
}

impl Memory {
    /// `devices` devices of `total` bytes, of which `used` are taken from the start.
    pub(crate) fn new(arena: Arena, devices: usize, total: u64, used: u64) -> Self {
        Self {
            arena,
            total,
            used: vec![used.min(total); devices],
            reserved: used.min(total),
            board: None,
            small: vec![0; devices],
            ranges: BTreeMap::new(),
            physical: HashMap::new(),
            mappings: BTreeMap::new(),
            next_physical: 1,
            pools: Pools::default(),
            host: BTreeMap::new(),
            blocks: FxHashMap::default(),
            starts: BTreeSet::new(),
            contents: Contents::default(),
            deferred: None,
        }
    }

    /// The devices are shared with the processes that `board` knows.
    pub(crate) fn beside(self, board: Arc<Board>) -> Self {
        Self {
            board: Some(board),
            ..self
        }
    }

    /// Bytes of the device that are taken from the start or by this process.
    pub(crate) fn used(&self, device: usize) -> u64 {
        self.used[device]
    }

    /// Bytes of the device that no process of the run holds.
    pub(crate) fn free(&self, device: usize) -> u64 {
        let others = self.board.as_ref().map_or(0, |board| board.others(device));
        (self.total - self.used[device]).saturating_sub(others)
    }

    /// The other processes of the run on a device, and how much each holds.
    pub(crate) fn neighbors(&self, device: usize) -> Vec<(u32, u64)> {
        self.board
            .as_ref()
            .map_or(Vec::new(), |board| board.holders(device))
    }

    /// Takes `len` bytes of the device for something without an address, such as a context; what does not fit is not taken.
    pub(crate) fn charge(&mut self, device: usize, len: u64) {
        let len = len.min(self.free(device));
        self.take(device, len);
    }

    /// Takes `len` bytes of the device if they are free.
    pub(crate) fn take(&mut self, device: usize, len: u64) -> bool {
        let before = self.used[device];
        let Some(after) = before.checked_add(len).filter(|after| *after <= self.total) else {
            return false;
        };
        let own = |used| used - self.reserved;
        let room = own(self.total);
        let fits = self
            .board
            .as_ref()
            .is_none_or(|board| board.claim(device, own(before), own(after), room));
        if fits {
            self.used[device] = after;
        }
        fits
    }

    /// Gives `len` bytes of the device back.
    pub(crate) fn give(&mut self, device: usize, len: u64) {
        self.used[device] -= len;
        if let Some(board) = &self.board {
            board.publish(device, self.used[device] - self.reserved);
        }
    }

    /// A new range of device memory.
    pub(crate) fn allocate(
        &mut self,
        device: usize,
        size: u64,
        kind: Kind,
    ) -> Result<(u64, DriverEvent), (Refusal, DriverEvent)> {
        let refused = |memory: &Self| {
            let event = DriverEvent {
                action: DriverAction::Refused,
                device,
                address: 0,
                size,
                used: memory.used[device],
            };
            (Refusal::OutOfMemory, event)
        };
        if size > self.total {
            return Err(refused(self));
        }
        let (len, charged, align) = if size < GRANULARITY {
            let len = size.next_multiple_of(SMALL_ALIGNMENT);
            let pieces = |bytes: u64| bytes.div_ceil(GRANULARITY);
            let more = pieces(self.small[device] + len) - pieces(self.small[device]);
            (len, more * GRANULARITY, SMALL_ALIGNMENT)
        } else {
            let len = size.next_multiple_of(GRANULARITY);
            (len, len, GRANULARITY)
        };
        if !self.take(device, charged) {
            return Err(refused(self));
        }
        let Some(start) = self.arena.take(len, align) else {
            self.give(device, charged);
            return Err(refused(self));
        };
        if size < GRANULARITY {
            self.small[device] += len;
        }
        self.ranges.insert(
            start,
            Range {
                len,
                charged,
                device,
                kind,
            },
        );
        self.contents.forget(start, len);
        let event = DriverEvent {
            action: DriverAction::Malloc,
            device,
            address: start,
            size: len,
            used: self.used[device],
        };
        Ok((start, event))
    }

    /// A new range of device memory from a pool, which takes more from its device when it must.
    pub(crate) fn allocate_from_pool(
        &mut self,
        handle: u64,
        size: u64,
    ) -> Result<(u64, DriverEvent), (Refusal, DriverEvent)> {
        let Some(pool) = self.pools.by_handle.get(&handle).copied() else {
            let event = self.event(DriverAction::Refused, 0, 0, size);
            return Err((Refusal::Invalid, event));
        };
        let device = pool.device;
        let refused = |memory: &Self| {
            let event = memory.event(DriverAction::Refused, device, 0, size);
            (Refusal::OutOfMemory, event)
        };
        if size > self.total {
            return Err(refused(self));
        }
        let len = size.next_multiple_of(ALIGNMENT);
        let needed = Pool::needs(pool.used + len);
        let more = needed.saturating_sub(pool.reserved);
        if pool.limit > 0 && needed > pool.limit || !self.take(device, more) {
            return Err(refused(self));
        }
        let Some(start) = self.arena.take(len, ALIGNMENT) else {
            self.give(device, more);
            return Err(refused(self));
        };
        let range = Range {
            len,
            charged: 0,
            device,
            kind: Kind::Pool,
        };
        self.ranges.insert(start, range);
        self.pools.owners.insert(start, handle);
        if let Some(pool) = self.pools.by_handle.get_mut(&handle) {
            pool.grow(len);
        }
        self.contents.forget(start, len);
        Ok((start, self.event(DriverAction::Malloc, device, start, len)))
    }

    /// Gives a range back to the pool that it came from, which keeps it.
    pub(crate) fn release_to_pool(&mut self, start: u64) -> Result<DriverEvent, Refusal> {
        let handle = self.pools.owners.remove(&start).ok_or(Refusal::Invalid)?;
        let range = self.ranges.remove(&start).ok_or(Refusal::Invalid)?;
        self.contents.forget(start, range.len);
        self.arena.give(start, range.len);
        if let Some(pool) = self.pools.by_handle.get_mut(&handle) {
            pool.used -= range.len;
        }
        Ok(self.event(DriverAction::Free, range.device, start, range.len))
    }

    /// A pool gives back what it does not use, but for `keep` bytes.
    pub(crate) fn trim_pool(&mut self, handle: u64, keep: u64) -> Option<DriverEvent> {
        let pool = self.pools.by_handle.get_mut(&handle)?;
        let (device, less) = (pool.device, pool.trim(keep));
        self.give(device, less);
        (less > 0).then(|| self.event(DriverAction::Release, device, 0, less))
    }

    fn event(&self, action: DriverAction, device: usize, address: u64, size: u64) -> DriverEvent {
        DriverEvent {
            action,
            device,
            address,
            size,
            used: self.used[device],
        }
    }

    /// Frees a range that `allocate` made; `kinds` are the ones this call may free.
    pub(crate) fn release(&mut self, start: u64, kinds: &[Kind]) -> Result<DriverEvent, Refusal> {
        let range = *self
            .ranges
            .get(&start)
            .filter(|range| kinds.contains(&range.kind))
            .ok_or(Refusal::Invalid)?;
        self.ranges.remove(&start);
        self.contents.forget(start, range.len);
        self.arena.give(start, range.len);
        let device = range.device;
        if range.len < GRANULARITY {
            let before = self.small[device].div_ceil(GRANULARITY);
            self.small[device] -= range.len;
            let after = self.small[device].div_ceil(GRANULARITY);
            self.give(device, (before - after) * GRANULARITY);
        } else {
            self.give(device, range.charged);
        }
        Ok(DriverEvent {
            action: DriverAction::Free,
            device,
            address: start,
            size: range.len,
            used: self.used[device],
        })
    }

    /// Addresses without memory behind them.
    pub(crate) fn reserve(&mut self, device: usize, len: u64, align: u64) -> Result<u64, Refusal> {
        if len == 0 || !len.is_multiple_of(GRANULARITY) {
            return Err(Refusal::Invalid);
        }
        let start = self
            .arena
            .take(len, align.max(GRANULARITY))
            .ok_or(Refusal::OutOfMemory)?;
        self.ranges.insert(
            start,
            Range {
                len,
                charged: 0,
                device,
                kind: Kind::Reserved,
            },
        );
        Ok(start)
    }

    /// Gives reserved addresses back; they must not be mapped any more.
    pub(crate) fn unreserve(&mut self, start: u64, len: u64) -> Result<(), Refusal> {
        let range = self
            .ranges
            .get(&start)
            .filter(|range| range.kind == Kind::Reserved && range.len == len);
        if range.is_none() || self.mappings.range(start..start + len).next().is_some() {
            return Err(Refusal::Invalid);
        }
        self.ranges.remove(&start);
        self.arena.give(start, len);
        Ok(())
    }

    /// Physical memory without an address.
    pub(crate) fn create(
        &mut self,
        device: usize,
        len: u64,
    ) -> Result<(u64, DriverEvent), (Refusal, DriverEvent)> {
        let event = |memory: &Self, action| DriverEvent {
            action,
            device,
            address: 0,
            size: len,
            used: memory.used[device],
        };
        if len == 0 || !len.is_multiple_of(GRANULARITY) {
            return Err((Refusal::Invalid, event(self, DriverAction::Refused)));
        }
        if !self.take(device, len) {
            return Err((Refusal::OutOfMemory, event(self, DriverAction::Refused)));
        }
        let handle = self.next_physical;
        self.next_physical += 1;
        self.physical.insert(
            handle,
            Physical {
                len,
                device,
                foreign: false,
                mappings: 0,
                released: false,
            },
        );
        Ok((handle, event(self, DriverAction::Create)))
    }

    /// Physical memory that another process made: it takes nothing more of the device.
    pub(crate) fn create_foreign(&mut self, device: usize, len: u64) -> u64 {
        let handle = self.next_physical;
        self.next_physical += 1;
        self.physical.insert(
            handle,
            Physical {
                len,
                device,
                foreign: true,
                mappings: 0,
                released: false,
            },
        );
        handle
    }

    /// Addresses for memory of another process.
    pub(crate) fn open_foreign(&mut self, device: usize, len: u64) -> Result<u64, Refusal> {
        let start = self
            .arena
            .take(len, GRANULARITY)
            .ok_or(Refusal::OutOfMemory)?;
        let range = Range {
            len,
            charged: 0,
            device,
            kind: Kind::Foreign,
        };
        self.ranges.insert(start, range);
        self.contents.forget(start, len);
        Ok(start)
    }

    /// Gives the addresses of another process's memory back.
    pub(crate) fn close_foreign(&mut self, start: u64) -> Result<(), Refusal> {
        let range = *self
            .ranges
            .get(&start)
            .filter(|range| range.kind == Kind::Foreign)
            .ok_or(Refusal::Invalid)?;
        self.ranges.remove(&start);
        self.contents.forget(start, range.len);
        self.arena.give(start, range.len);
        Ok(())
    }

    /// Physical memory by its handle, unless released.
    pub(crate) fn physical(&self, handle: u64) -> Option<Physical> {
        self.physical
            .get(&handle)
            .copied()
            .filter(|physical| !physical.released)
    }

    /// Drops a handle; the memory goes when its last mapping does.
    pub(crate) fn release_physical(&mut self, handle: u64) -> Result<Option<DriverEvent>, Refusal> {
        let physical = self
            .physical
            .get_mut(&handle)
            .filter(|physical| !physical.released)
            .ok_or(Refusal::Invalid)?;
        physical.released = true;
        Ok(self.drop_physical_if_unused(handle))
    }

    fn drop_physical_if_unused(&mut self, handle: u64) -> Option<DriverEvent> {
        let physical = *self.physical.get(&handle)?;
        if !physical.released || physical.mappings > 0 {
            return None;
        }
        self.physical.remove(&handle);
        if physical.foreign {
            return None;
        }
        self.give(physical.device, physical.len);
        Some(DriverEvent {
            action: DriverAction::Release,
            device: physical.device,
            address: 0,
            size: physical.len,
            used: self.used[physical.device],
        })
    }

    /// Puts physical memory behind reserved addresses.
    pub(crate) fn map(&mut self, start: u64, len: u64, handle: u64) -> Result<(), Refusal> {
        let end = start.checked_add(len).ok_or(Refusal::Invalid)?;
        let reserved = self
            .range_of(start)
            .is_some_and(|(base, range)| range.kind == Kind::Reserved && end <= base + range.len);
        let overlaps = self
            .mappings
            .range(..end)
            .next_back()
            .is_some_and(|(&at, &(size, _))| at + size > start);
        let physical = self
            .physical
            .get_mut(&handle)
            .filter(|physical| !physical.released && physical.len == len);
        let Some(physical) = physical.filter(|_| reserved && !overlaps) else {
            return Err(Refusal::Invalid);
        };
        physical.mappings += 1;
        self.mappings.insert(start, (len, handle));
        Ok(())
    }

    /// Takes the mappings in `[start, start + len)` away; they must fill it exactly.
    pub(crate) fn unmap(&mut self, start: u64, len: u64) -> Result<Vec<DriverEvent>, Refusal> {
        let end = start.checked_add(len).ok_or(Refusal::Invalid)?;
        let inside: Vec<(u64, u64, u64)> = self
            .mappings
            .range(start..end)
            .map(|(&at, &(size, handle))| (at, size, handle))
            .collect();
        if inside.iter().map(|(_, size, _)| size).sum::<u64>() != len {
            return Err(Refusal::Invalid);
        }
        let mut events = Vec::new();
        for (at, _, handle) in inside {
            self.mappings.remove(&at);
            if let Some(physical) = self.physical.get_mut(&handle) {
                physical.mappings -= 1;
            }
            events.extend(self.drop_physical_if_unused(handle));
        }
        self.contents.forget(start, len);
        Ok(events)
    }

    /// The physical memory mapped at `address`.
    pub(crate) fn handle_mapped_at(&self, address: u64) -> Option<u64> {
        let (&at, &(len, handle)) = self.mappings.range(..=address).next_back()?;
        (address < at + len).then_some(handle)
    }

    /// The range of device addresses that holds `address`, with its start.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, Range)> {
        let (&start, &range) = self.ranges.range(..=address).next_back()?;
        (address < start + range.len).then_some((start, range))
    }

    /// Whether `[address, address + len)` is memory: inside one allocation, or mapped throughout.
    pub(crate) fn is_memory(&self, address: u64, len: u64) -> bool {
        let Some((start, range)) = self.range_of(address) else {
            return false;
        };
        let Some(end) = address
            .checked_add(len)
            .filter(|end| *end <= start + range.len)
        else {
            return false;
        };
        if range.kind != Kind::Reserved {
            return true;
        }
        let mut at = address;
        while at < end || at == address {
            let Some((&from, &(size, _))) = self.mappings.range(..=at).next_back() else {
                return false;
            };
            if at >= from + size {
                return false;
            }
            at = from + size;
        }
        true
    }

    /// CUDA learns of host memory.
    pub(crate) fn add_host(&mut self, start: u64, range: HostRange) {
        self.host.insert(start, range);
    }

    /// CUDA forgets host memory that starts at `start`.
    pub(crate) fn remove_host(&mut self, start: u64, usage: HostUse) -> Option<HostRange> {
        self.host.get(&start).filter(|range| range.usage == usage)?;
        self.host.remove(&start)
    }

    /// Host memory that CUDA knows of and that holds `address`, with its start.
    pub(crate) fn host_of(&self, address: u64) -> Option<(u64, HostRange)> {
        let (&start, &range) = self.host.range(..=address).next_back()?;
        (address < start + range.len).then_some((start, range))
    }

    /// PyTorch's allocator handed out a block: it holds nothing.
    pub(crate) fn begin_block(&mut self, start: u64, size: u64) {
        self.contents.forget(start, size);
        self.starts.insert(start);
        let block = Block {
            size,
            origin: 0,
            touched: 0,
        };
        self.blocks.insert(start, block);
    }

    /// PyTorch's allocator took a block back: what it held is gone.
    pub(crate) fn end_block(&mut self, start: u64) {
        if let Some(block) = self.blocks.remove(&start) {
            self.starts.remove(&start);
            self.contents.forget(start, block.size);
        }
    }

    /// The block that holds `address`, with its start.
    pub(crate) fn block_of(&mut self, address: u64) -> Option<(u64, &mut Block)> {
        let start = if self.blocks.contains_key(&address) {
            address
        } else {
            *self.starts.range(..=address).next_back()?
        };
        let block = self.blocks.get_mut(&start)?;
        (address < start + block.size).then_some((start, block))
    }

    /// Something that is not carried out wrote from `address` on: to the end of its block, or of its allocation,
    /// nothing is known any more. Where PyTorch deals out blocks, what lies in none is an address that was left over from
    /// an earlier launch, since it may be found where an argument is longer than what it holds.
    pub(crate) fn overwritten(&mut self, address: u64, origin: u32) {
        let is_deferred = self.deferred.is_some();
        let end = if let Some((start, block)) = self.block_of(address) {
            if !is_deferred {
                block.origin = origin;
            }
            start + block.size
        } else if let Some((start, range)) = self.range_of(address)
            && self.starts.range(start..start + range.len).next().is_none()
        {
            start + range.len
        } else {
            return;
        };
        let (start, len) = (address, end - address);
        match &mut self.deferred {
            Some(taken_down) => taken_down.push(Overwritten { start, len, origin }),
            None => self.contents.forget(start, len),
        }
    }

    /// Nothing is known of these bytes any more.
    pub(crate) fn overwrite(&mut self, range: Overwritten) {
        if let Some((_, block)) = self.block_of(range.start) {
            block.origin = range.origin;
        }
        self.contents.forget(range.start, range.len);
    }

    /// What last wrote at `address`.
    pub(crate) fn origin(&mut self, address: u64) -> u32 {
        self.block_of(address).map_or(0, |(_, block)| block.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory() -> Memory {
        Memory::new(Arena::reserve(1 << 32), 1, 64 * MIB, 4 * MIB)
    }

    #[test]
    fn is_accounted_at_the_granularity_of_the_driver() {
        let mut memory = memory();
        let (large, _) = memory.allocate(0, 3 * MIB, Kind::Malloc).unwrap();
        assert_eq!(memory.used(0), 8 * MIB);
        let small: Vec<u64> = (0..3)
            .map(|_| memory.allocate(0, MIB, Kind::Malloc).unwrap().0)
            .collect();
        assert_eq!(memory.used(0), 12 * MIB);
        for address in small {
            memory.release(address, &[Kind::Malloc]).unwrap();
        }
        memory.release(large, &[Kind::Malloc]).unwrap();
        assert_eq!(memory.used(0), 4 * MIB);
    }

    #[test]
    fn refuses_as_the_driver_does() {
        let mut memory = memory();
        assert_eq!(
            memory.allocate(0, 62 * MIB, Kind::Malloc).unwrap_err().0,
            Refusal::OutOfMemory
        );
        assert_eq!(
            memory.allocate(0, u64::MAX, Kind::Malloc).unwrap_err().0,
            Refusal::OutOfMemory
        );
        let (start, _) = memory.allocate(0, 60 * MIB, Kind::Malloc).unwrap();
        assert_eq!(
            memory.release(start + 512, &[Kind::Malloc]).unwrap_err(),
            Refusal::Invalid
        );
        assert_eq!(
            memory.release(start, &[Kind::Pool]).unwrap_err(),
            Refusal::Invalid
        );
        assert!(memory.release(start, &[Kind::Malloc]).is_ok());
        assert_eq!(
            memory.release(start, &[Kind::Malloc]).unwrap_err(),
            Refusal::Invalid,
            "a double free"
        );
    }

    #[test]
    fn mapped_memory_outlives_its_handle() {
        let mut memory = memory();
        let space = memory.reserve(0, 8 * MIB, 0).unwrap();
        let (handle, _) = memory.create(0, 2 * MIB).unwrap();
        memory.map(space, 2 * MIB, handle).unwrap();
        assert_eq!(
            memory.map(space, 2 * MIB, handle),
            Err(Refusal::Invalid),
            "already mapped"
        );
        assert!(memory.is_memory(space, 2 * MIB));
        assert!(!memory.is_memory(space, 2 * MIB + 1));
        assert!(memory.release_physical(handle).unwrap().is_none());
        assert_eq!(memory.used(0), 6 * MIB);
        assert_eq!(
            memory.unreserve(space, 8 * MIB),
            Err(Refusal::Invalid),
            "still mapped"
        );
        assert_eq!(memory.unmap(space, 2 * MIB).unwrap().len(), 1);
        assert_eq!(memory.used(0), 4 * MIB);
        memory.unreserve(space, 8 * MIB).unwrap();
    }

    #[test]
    fn a_reused_block_holds_nothing() {
        let mut memory = memory();
        let (start, _) = memory.allocate(0, 4 * MIB, Kind::Malloc).unwrap();
        memory.begin_block(start, 1024);
        memory.contents.write(start, &[9; 16]);
        memory.end_block(start);
        memory.begin_block(start, 512);
        assert_eq!(memory.contents.unknown(start, 16), 16);
    }

    #[test]
    fn a_write_that_is_not_carried_out_is_remembered() {
        let mut memory = memory();
        let (start, _) = memory.allocate(0, 4 * MIB, Kind::Malloc).unwrap();
        memory.begin_block(start, 1024);
        memory.contents.write(start, &[9; 1024]);
        memory.overwritten(start + 512, 7);
        assert_eq!(memory.contents.unknown(start, 1024), 512);
        assert_eq!(memory.origin(start + 3), 7);
    }

    #[test]
    fn a_write_beside_all_blocks_is_none() {
        let mut memory = memory();
        let (start, _) = memory.allocate(0, 4 * MIB, Kind::Malloc).unwrap();
        memory.contents.write(start + 2048, &[9; 16]);
        memory.begin_block(start, 512);
        memory.overwritten(start + 1024, 7);
        assert_eq!(memory.contents.unknown(start + 2048, 16), 0);
        memory.end_block(start);
        memory.overwritten(start + 1024, 7);
        assert_eq!(memory.contents.unknown(start + 2048, 16), 16);
    }
}
