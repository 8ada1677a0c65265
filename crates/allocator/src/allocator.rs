//! The allocator of one device: its parts, and the way from a request to a block.
//!
//! The order of the steps is the answer: each may release memory, reorder free blocks or advance a counter that later
//! requests depend on, so nothing here may be skipped when its result is not needed.

use oomproof_units::{Bytes, DeviceAddress};

use crate::block::{Block, BlockId, Blocks, ExpandableId};
use crate::driver::{Driver, SegmentRequest};
use crate::events::Events;
use crate::expandable::Expandable;
use crate::free_blocks::{FreeBlocks, FreeKey, FreeStructure};
use crate::held_blocks::{AddressStructure, HeldBlocks};
use crate::out_of_memory::{AllocateError, InternalError, OutOfMemory};
use crate::pool::{HalfIndex, Pool, PoolHalf, PoolId, PoolIndex, PoolOptions};
use crate::private_pools::Fillings;
use crate::release::{Release, TieBreak};
use crate::settings::Settings;
use crate::sizes;
use crate::slot_order::SlotOrdered;
use crate::statistics::{ByPool, Half, Statistics};
use crate::stream::{Stream, Streams};
use crate::trace::{Action, NoTrace, TraceEntry, TraceSink};
use crate::unmapped::Unmapped;

/// How the allocator keeps its books. No choice changes an answer, which tests hold it to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Structures {
    /// How free blocks are kept.
    pub free_blocks: FreeStructure,
    /// How blocks are found by address.
    pub addresses: AddressStructure,
}

/// What an allocator is made with.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The number of the device.
    pub device: u8,
    /// Whose rules hold.
    pub release: Release,
    /// What `PYTORCH_CUDA_ALLOC_CONF` says.
    pub settings: Settings,
    /// How the books are kept.
    pub structures: Structures,
}

impl Configuration {
    /// The first device, PyTorch's default settings.
    pub fn new(release: Release) -> Self {
        Self {
            device: 0,
            release,
            settings: Settings::default(),
            structures: Structures::default(),
        }
    }

    /// The same with other settings.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }
}

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How much.
    pub size: Bytes,
    /// The stream that will use it.
    pub stream: Stream,
}

impl Request {
    /// Memory for the default stream.
    pub const fn new(size: Bytes) -> Self {
        Self {
            size,
            stream: Stream::DEFAULT,
        }
    }

    /// The same for another stream.
    #[must_use]
    pub const fn on(self, stream: Stream) -> Self {
        Self { stream, ..self }
    }
}

/// PyTorch's caching allocator of one device, above a [`Driver`]; a [`TraceSink`] hears what it does.
#[derive(Debug)]
pub struct Allocator<D, S = NoTrace> {
    pub(crate) device: u8,
    pub(crate) release: Release,
    tie_break: TieBreak,
    pub(crate) settings: Settings,
    structures: Structures,
    pub(crate) driver: D,
    pub(crate) sink: S,
    pub(crate) blocks: Blocks,
    pub(crate) halves: Vec<PoolHalf>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) pool_ids: SlotOrdered<PoolId, PoolIndex>,
    /// Private pools that nobody uses any more, but that may hold memory.
    pub(crate) freeable: SlotOrdered<PoolId, PoolIndex>,
    pub(crate) use_on_oom: SlotOrdered<PoolId, ()>,
    pub(crate) fillings: Fillings,
    pub(crate) streams: Streams,
    pub(crate) held: HeldBlocks,
    pub(crate) events: Events,
    pub(crate) expandables: Vec<Option<Expandable>>,
    pub(crate) statistics: Statistics,
    pub(crate) limit: Option<u64>,
    pub(crate) reserved: u64,
    pub(crate) pool_deleted_in_use: Option<PoolId>,
    next_number: i32,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) requested: u64,
    /// The size of the block.
    pub(crate) size: u64,
    /// The size of a new segment.
    pub(crate) segment: u64,
    pub(crate) half: HalfIndex,
    pub(crate) stream: u32,
    pub(crate) handle: u64,
}

/// Which attempt at the device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    AfterRelease,
}

/// What came of asking the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    Block(BlockId),
    NoRoom,
    Rejected,
}

impl<D: Driver> Allocator<D> {
    /// An allocator that has done nothing yet and keeps no trace.
    pub fn new(configuration: Configuration, driver: D) -> Self {
        Self::with_trace(configuration, driver, NoTrace)
    }
}

impl<D: Driver, S: TraceSink> Allocator<D, S> {
    /// An allocator that has done nothing yet.
    pub fn with_trace(configuration: Configuration, driver: D, sink: S) -> Self {
        let Configuration {
            device,
            release,
            settings,
            structures,
        } = configuration;
        let statistics = Statistics {
            max_split_size: settings
                .max_split_size
                .map_or(-1, |size| size.get().cast_signed()),
            ..Statistics::default()
        };
        let fraction = settings.memory_fraction;
        let mut allocator = Self {
            device,
            release,
            tie_break: release.tie_break(),
            settings,
            structures,
            driver,
            sink,
            blocks: Blocks::default(),
            halves: Vec::new(),
            pools: Vec::new(),
            pool_ids: SlotOrdered::default(),
            freeable: SlotOrdered::default(),
            use_on_oom: SlotOrdered::default(),
            fillings: Fillings::default(),
            streams: Streams::default(),
            held: HeldBlocks::new(structures.addresses),
            events: Events::default(),
            expandables: Vec::new(),
            statistics,
            limit: None,
            reserved: 0,
            pool_deleted_in_use: None,
            next_number: 0,
        };
        allocator.add_pool(PoolId::DEFAULT, PoolOptions::default());
        if let Some(fraction) = fraction {
            allocator.set_memory_fraction(fraction);
        }
        allocator
    }

    /// Memory for a request, or why there is none. No bytes are at address 0.
    pub fn allocate(&mut self, request: Request) -> Result<DeviceAddress, AllocateError> {
        let requested = request.size.get();
        if requested == 0 {
            return Ok(DeviceAddress::default());
        }
        if requested >= sizes::EXBIBYTE {
            return Err(AllocateError::TooLarge);
        }
        if !self.frees_are_deferred() {
            self.process_events();
        }
        let size = sizes::rounded(requested, &self.settings, self.release);
        let handle = request.stream.handle;
        let half = if size <= sizes::SMALL_SIZE {
            Half::Small
        } else {
            Half::Large
        };
        let mut wanted = Wanted {
            requested,
            size,
            segment: sizes::segment(size, &self.settings),
            half: HalfIndex::of(self.pool_for(handle), half),
            stream: self.streams.index(request.stream),
            handle,
        };
        let block = match self.find_free(&wanted) {
            Some(block) => block,
            None => self.find_elsewhere(&mut wanted)?,
        };
        Ok(DeviceAddress::new(self.hand_out(block, &wanted)))
    }

    /// What is tried, in turn, when no free block fits.
    fn find_elsewhere(&mut self, wanted: &mut Wanted) -> Result<BlockId, AllocateError> {
        if self.collects_garbage() {
            self.collect_garbage();
        }
        match self.grow(wanted, Attempt::First) {
            Grown::Block(block) => return Ok(block),
            Grown::Rejected => return Err(AllocateError::Rejected(Bytes::new(wanted.requested))),
            Grown::NoRoom => {}
        }
        let helps_early = self.release.pools_help_before_release();
        if helps_early && let Some(block) = self.find_in_pools_for_oom(wanted)? {
            return Ok(block);
        }
        if self.release_oversize(wanted)?
            && let Grown::Block(block) = self.grow(wanted, Attempt::First)
        {
            return Ok(block);
        }
        if !self.frees_are_deferred() {
            self.release_cached()?;
            if let Grown::Block(block) = self.grow(wanted, Attempt::AfterRelease) {
                return Ok(block);
            }
        }
        if !helps_early && let Some(block) = self.find_in_pools_for_oom(wanted)? {
            return Ok(block);
        }
        Err(AllocateError::OutOfMemory(Box::new(
            self.out_of_memory(wanted),
        )))
    }

    fn out_of_memory(&mut self, wanted: &Wanted) -> OutOfMemory {
        let memory = self.driver.memory_info();
        let pool = self.pools[wanted.half.pool().0 as usize].id;
        self.sink.record(TraceEntry {
            action: Action::OutOfMemory,
            address: DeviceAddress::new(memory.free.get()),
            size: Bytes::new(wanted.size),
            stream: wanted.handle,
            pool,
        });
        self.statistics.num_ooms += 1;
        let figure = |level: i64| Bytes::new(level.max(0).cast_unsigned());
        OutOfMemory {
            device: self.device,
            requested: Bytes::new(wanted.requested),
            rounded: Bytes::new(wanted.size),
            tried: Bytes::new(wanted.segment),
            total: memory.total,
            free: memory.free,
            limit: self.limit.map(Bytes::new),
            allocated: figure(self.statistics.allocated_bytes.all.current),
            reserved: figure(self.statistics.reserved_bytes.all.current),
            free_in_private_pools: self.free_in_private_pools(),
            expandable_segments: self
                .settings
                .expandable_segments
                .then(|| Bytes::new(self.asked_reserve())),
        }
    }

    /// Whether searches count as time, and old segments are released.
    pub(crate) fn collects_garbage(&self) -> bool {
        self.limit.is_some() && self.settings.garbage_collection_threshold > 0.0
    }

    /// The block that fits best, taken out of the free ones.
    pub(crate) fn find_free(&mut self, wanted: &Wanted) -> Option<BlockId> {
        if self.collects_garbage() {
            self.halves[wanted.half.0 as usize].searches += 1;
        }
        let free = &self.halves[wanted.half.0 as usize].free;
        let mut key = free.at_least(wanted.handle, wanted.size)?;
        if self.blocks[key.block].is_expandable() {
            key = self.choose_expandable(wanted, key)?;
        }
        let size = self.blocks[key.block].size;
        let max_split = self.settings.max_split();
        if wanted.size < max_split && size >= max_split {
            return None;
        }
        let most = wanted
            .size
            .saturating_add(self.settings.non_split_rounding());
        if wanted.size >= max_split && size >= most {
            return None;
        }
        self.halves[wanted.half.0 as usize]
            .free
            .remove(wanted.handle, key);
        Some(key.block)
    }

    /// Among expandable blocks, the one that leaves the segment's end alone; with the setting off, none of them.
    fn choose_expandable(&self, wanted: &Wanted, first: FreeKey) -> Option<FreeKey> {
        let free = &self.halves[wanted.half.0 as usize].free;
        let mut key = first;
        if !self.is_expandable_in(wanted.half.pool()) {
            while self.blocks[key.block].is_expandable() {
                key = free.after(wanted.handle, key)?;
            }
            return Some(key);
        }
        let reach = |block: BlockId| {
            let next = self.blocks[block].next.some();
            let room = next
                .map(|next| &self.blocks[next])
                .filter(|next| !next.is_mapped)
                .map_or(0, |next| next.size);
            self.blocks[block].size.saturating_add(room)
        };
        while self.blocks[key.block].is_expandable()
            && let Some(next) = free.after(wanted.handle, key)
            && reach(next.block) < reach(key.block)
        {
            key = next;
        }
        Some(key)
    }

    /// Whether new memory of a pool is mapped into expandable segments.
    pub(crate) fn is_expandable_in(&self, pool: PoolIndex) -> bool {
        self.settings.expandable_segments && !self.pools[pool.0 as usize].options.has_own_allocator
    }

    fn is_to_be_split(&self, size: u64, wanted: &Wanted) -> bool {
        let remaining = size - wanted.size;
        let pool = wanted.half.pool();
        if self.release.has_no_split() && self.pools[pool.0 as usize].options.no_split {
            return false;
        }
        if wanted.half.half() == Half::Small || self.is_expandable_in(pool) {
            return remaining >= sizes::MIN_BLOCK;
        }
        wanted.size < self.settings.max_split() && remaining > sizes::SMALL_SIZE
    }

    /// Gives a block, or its front, to the program.
    fn hand_out(&mut self, found: BlockId, wanted: &Wanted) -> u64 {
        let half = wanted.half.half();
        let whole = self.blocks[found];
        let was_split = whole.is_split();
        let mut taken = found;
        if self.is_to_be_split(whole.size, wanted) {
            taken = self.split_front(found, wanted.size);
            if !whole.is_expandable() {
                if was_split {
                    let size = wanted.size.cast_signed();
                    self.statistics.inactive_split_bytes.decrease(half, size);
                } else {
                    let rest = (whole.size - wanted.size).cast_signed();
                    self.statistics.inactive_split_bytes.increase(half, rest);
                    self.statistics.inactive_split.increase(half, 1);
                }
            }
        } else if was_split && !whole.is_expandable() {
            let size = whole.size.cast_signed();
            self.statistics.inactive_split_bytes.decrease(half, size);
            self.statistics.inactive_split.decrease(half, 1);
        }
        let block = &mut self.blocks[taken];
        block.is_allocated = true;
        block.requested = wanted.requested;
        let (address, size) = (block.address, block.size);
        self.held.insert(address, taken);
        self.trace(
            Action::Alloc,
            wanted.half.pool(),
            address,
            wanted.requested,
            wanted.handle,
        );
        let bytes = size.cast_signed();
        let statistics = &mut self.statistics;
        statistics.allocation.increase(half, 1);
        statistics.allocated_bytes.increase(half, bytes);
        statistics.active.increase(half, 1);
        statistics.active_bytes.increase(half, bytes);
        statistics
            .requested_bytes
            .increase(half, wanted.requested.cast_signed());
        if size >= self.settings.max_split() {
            statistics.oversize_allocations.increase(1);
        }
        address
    }

    /// A new block for the first `size` bytes of one that is in no free set; the rest goes there.
    fn split_front(&mut self, rest: BlockId, size: u64) -> BlockId {
        let whole = self.blocks[rest];
        let front = self.add_block(Block {
            size,
            next: rest,
            ..whole
        });
        if let Some(prev) = whole.prev.some() {
            self.blocks[prev].next = front;
        }
        let block = &mut self.blocks[rest];
        block.prev = front;
        block.address += size;
        block.size -= size;
        self.insert_free(rest);
        front
    }

    /// A block that begins to exist beside or inside another, whose number it inherits unless each has its own.
    pub(crate) fn add_block(&mut self, block: Block) -> BlockId {
        let number = match self.tie_break {
            TieBreak::BlockNumber => self.take_number(),
            TieBreak::Address | TieBreak::SegmentThenAddress => block.number,
        };
        self.blocks.add(Block { number, ..block })
    }

    /// The block of a new segment.
    pub(crate) fn add_segment_block(&mut self, block: Block) -> BlockId {
        let number = self.take_number();
        self.blocks.add(Block { number, ..block })
    }

    fn take_number(&mut self) -> i32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    #[inline]
    fn key(&self, id: BlockId) -> FreeKey {
        let block = &self.blocks[id];
        let (number, address) = match self.tie_break {
            TieBreak::Address => (0, block.address),
            TieBreak::BlockNumber => (block.number, 0),
            TieBreak::SegmentThenAddress => (block.number, block.address),
        };
        FreeKey {
            size: block.size,
            number,
            address,
            block: id,
        }
    }

    pub(crate) fn handle_of(&self, id: BlockId) -> u64 {
        self.streams.get(self.blocks[id].stream).handle
    }

    pub(crate) fn insert_free(&mut self, id: BlockId) {
        let key = self.key(id);
        let handle = self.handle_of(id);
        let half = &mut self.halves[self.blocks[id].half.0 as usize];
        self.blocks[id].age_base = half.searches;
        half.free.insert(handle, key);
    }

    pub(crate) fn remove_free(&mut self, id: BlockId) {
        let key = self.key(id);
        let handle = self.handle_of(id);
        let half = self.blocks[id].half;
        self.halves[half.0 as usize].free.remove(handle, key);
    }

    /// Asks the device for memory.
    pub(crate) fn grow(&mut self, wanted: &Wanted, attempt: Attempt) -> Grown {
        if attempt == Attempt::AfterRelease {
            self.statistics.num_alloc_retries += 1;
        }
        let after = self.reserved.saturating_add(wanted.segment);
        if self.limit.is_some_and(|limit| after > limit) {
            return Grown::NoRoom;
        }
        if self.settings.throw_on_cudamalloc_oom && after > self.fraction_of_settings() {
            self.statistics.num_oom_rejections += 1;
            return Grown::Rejected;
        }
        let pool = wanted.half.pool();
        let may_expand = !pool.is_private() || self.release.expands_private_pools();
        let block = if self.is_expandable_in(pool) && may_expand {
            self.grow_expandable(wanted)
        } else {
            self.new_segment(wanted)
        };
        let Some(block) = block else {
            return Grown::NoRoom;
        };
        self.pools[pool.0 as usize].device_allocations += 1;
        Grown::Block(block)
    }

    fn fraction_of_settings(&self) -> u64 {
        let total = self.driver.memory_info().total;
        share(self.settings.memory_fraction.unwrap_or(1.0), total)
    }

    fn new_segment(&mut self, wanted: &Wanted) -> Option<BlockId> {
        let size = wanted.segment;
        let pool = wanted.half.pool();
        let address = self.driver.allocate(SegmentRequest {
            size: Bytes::new(size),
            stream: self.streams.get(wanted.stream),
            pool: self.pools[pool.0 as usize].id,
        })?;
        let block = self.add_segment_block(Block {
            address: address.get(),
            size,
            requested: 0,
            age_base: 0,
            prev: BlockId::NONE,
            next: BlockId::NONE,
            half: wanted.half,
            stream: wanted.stream,
            number: 0,
            expandable: ExpandableId::NONE,
            n_events: 0,
            is_allocated: false,
            is_mapped: true,
            has_users: false,
            is_in_use: true,
        });
        self.statistics.segment.increase(wanted.half.half(), 1);
        self.count_reserved(wanted.half, size);
        if size >= self.settings.max_split() {
            self.statistics.oversize_segments.increase(1);
        }
        self.trace(
            Action::SegmentAlloc,
            pool,
            address.get(),
            size,
            wanted.handle,
        );
        Some(block)
    }

    /// The device gave `size` bytes.
    pub(crate) fn count_reserved(&mut self, half: HalfIndex, size: u64) {
        self.reserved = self.reserved.saturating_add(size);
        let bytes = size.cast_signed();
        self.statistics.reserved_bytes.increase(half.half(), bytes);
        self.statistics.num_device_alloc += 1;
        if let Some(by) = self.reserved_by_private_pool(half.pool()) {
            by.increase(half.half(), bytes);
        }
    }

    /// The device got `size` bytes back.
    pub(crate) fn count_returned(&mut self, half: HalfIndex, size: u64) {
        self.reserved = self.reserved.saturating_sub(size);
        let bytes = size.cast_signed();
        self.statistics.reserved_bytes.decrease(half.half(), bytes);
        self.statistics.num_device_free += 1;
        if let Some(by) = self.reserved_by_private_pool(half.pool()) {
            by.decrease(half.half(), bytes);
        }
    }

    fn reserved_by_private_pool(&mut self, pool: PoolIndex) -> Option<&mut ByPool> {
        if !pool.is_private() {
            return None;
        }
        let id = self.pools[pool.0 as usize].id;
        let list = &mut self.statistics.reserved_bytes_by_private_pools;
        let at = list
            .binary_search_by_key(&id, |(id, _)| *id)
            .unwrap_or_else(|at| {
                list.insert(at, (id, ByPool::default()));
                at
            });
        list.get_mut(at).map(|(_, by)| by)
    }

    #[inline]
    pub(crate) fn trace(
        &mut self,
        action: Action,
        pool: PoolIndex,
        address: u64,
        size: u64,
        stream: u64,
    ) {
        self.sink.record(TraceEntry {
            action,
            address: DeviceAddress::new(address),
            size: Bytes::new(size),
            stream,
            pool: self.pools[pool.0 as usize].id,
        });
    }

    pub(crate) fn add_pool(&mut self, id: PoolId, options: PoolOptions) -> PoolIndex {
        let index = PoolIndex(self.pools.len() as u32);
        self.pools.push(Pool::new(id, options));
        for _ in 0..2 {
            self.halves.push(PoolHalf {
                free: FreeBlocks::new(self.structures.free_blocks),
                unmapped: Unmapped::default(),
                searches: 0,
            });
        }
        index
    }

    /// Reads other settings into those that hold, as `torch.cuda.memory._set_allocator_settings` does.
    pub fn apply_settings(&mut self, text: &str) -> Result<(), crate::settings::SettingsError> {
        self.settings.apply(text, self.release)
    }

    /// `torch.cuda.set_per_process_memory_fraction`.
    pub fn set_memory_fraction(&mut self, fraction: f64) {
        let is_no_limit = fraction >= 1.0 && self.release.whole_fraction_is_no_limit();
        let total = self.driver.memory_info().total;
        self.limit = (!is_no_limit).then(|| share(fraction, total));
    }

    /// What `torch.cuda.memory_stats()` says.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// `torch.cuda.reset_peak_memory_stats()`.
    pub fn reset_peaks(&mut self) {
        self.statistics.reset_peaks();
    }

    /// `torch.cuda.reset_accumulated_memory_stats()`.
    pub fn reset_accumulated(&mut self) {
        self.statistics.reset_accumulated();
    }

    /// The first private pool that PyTorch deleted while it still had memory, which its count of expandable mappings
    /// can make it do. What PyTorch does with that memory afterwards is undefined, and need not be what is said here.
    pub fn pool_deleted_in_use(&self) -> Option<PoolId> {
        self.pool_deleted_in_use
    }

    /// The rules that hold.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The settings that hold.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The device below.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The device below, to tell it something.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// What hears the trace.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// What hears the trace, to take out what it has.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// `torch.cuda.empty_cache()`: gives back every segment that is wholly free.
    pub fn empty_cache(&mut self) -> Result<(), InternalError> {
        self.release_cached()
    }
}

#[expect(
    clippy::cast_sign_loss,
    reason = "a conversion saturates, so a negative share is nothing"
)]
pub(crate) fn share(fraction: f64, total: Bytes) -> u64 {
    (fraction * total.get() as f64) as u64
}
