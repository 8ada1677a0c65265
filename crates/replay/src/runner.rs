//! A program, request by request, through the allocator.

use oomproof_allocator::{
    Accepts, AllocateError, Allocator, BlockState as AllocatorBlockState, Configuration, Driver,
    Event as StreamEvent, Filling, Half, InternalError, OutOfMemory, Request,
    Segment as AllocatorSegment, SegmentBlock, SegmentKind, StateError, Stream, TraceSink,
};
use oomproof_units::{Bytes, DeviceAddress};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::Device;
use crate::event::{DEFAULT_POOL, Event, PoolId};
use crate::playback::Playback;
use crate::program::{FreeUntil, Program, Step, Tensor};
use crate::recording::pool_id;
use crate::start::{BlockState, Segment};
use crate::waiting::Waiting;

/// Handles of streams of which only the effect is recorded; no driver hands these out.
const UNSEEN_STREAMS: u64 = 0xffff_0000_0000_0000;

/// A driver whose streams get on as the trace says.
pub(crate) trait Directed: Driver {
    fn waiting(&mut self) -> &mut Waiting;
    /// The entries that the recording has for the next step.
    fn begin_step(&mut self, _: &[Event]) {}
}

impl Directed for Device {
    fn waiting(&mut self) -> &mut Waiting {
        Self::waiting(self)
    }
}

impl Directed for Playback {
    fn waiting(&mut self) -> &mut Waiting {
        Self::waiting(self)
    }

    fn begin_step(&mut self, entries: &[Event]) {
        Self::begin_step(self, entries);
    }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// A request failed.
    Refused(Box<OutOfMemory>),
    /// A request succeeded that had failed in the recording.
    GrantedAfterAll,
    /// A request was refused without asking the device.
    Rejected,
    /// PyTorch of this release fails with an internal error here.
    Internal(InternalError),
}

pub(crate) struct Runner<'a, D, S> {
    pub(crate) allocator: Allocator<D, S>,
    program: &'a Program,
    /// Where each tensor lies now; 0 for none.
    addresses: Vec<u64>,
    /// Tensors that wait for other streams since before the trace.
    stranded: FxHashSet<Tensor>,
    events: FxHashMap<Tensor, Vec<StreamEvent>>,
    /// Events of frees that had been put off while a pool was filled: whose they are is not known.
    unclaimed: Vec<StreamEvent>,
    filling: Option<PoolId>,
    /// Private pools that were begun or are part of the start.
    known_pools: FxHashSet<PoolId>,
}

impl<'a, D: Directed, S: TraceSink> Runner<'a, D, S> {
    pub(crate) fn new(
        program: &'a Program,
        start: &[Segment],
        configuration: Configuration,
        driver: D,
        sink: S,
    ) -> Result<Self, StateError> {
        let state: Vec<AllocatorSegment> = start.iter().map(allocator_segment).collect();
        let allocator = Allocator::from_state(configuration, driver, sink, &state)?;
        let mut addresses = vec![0; program.n_tensors as usize];
        let mut stranded = FxHashSet::default();
        for (tensor, &(address, state)) in program.at_start.iter().enumerate() {
            addresses[tensor] = address;
            if state == BlockState::Pending {
                stranded.insert(tensor as Tensor);
            }
        }
        let pools = start.iter().map(|segment| segment.pool);
        Ok(Self {
            allocator,
            program,
            addresses,
            stranded,
            events: FxHashMap::default(),
            unclaimed: Vec::new(),
            filling: None,
            known_pools: pools.filter(|pool| *pool != DEFAULT_POOL).collect(),
        })
    }

    /// Does one step; `entries` is what the recording has of it.
    pub(crate) fn step(&mut self, step_idx: usize, entries: &[Event]) -> Outcome {
        self.allocator.driver_mut().begin_step(entries);
        match self.program.steps[step_idx] {
            Step::Allocate {
                tensor,
                size,
                stream,
                pool,
            } => match self.allocate(size, stream, pool) {
                Ok(address) => {
                    self.addresses[tensor as usize] = address.get();
                    Outcome::Done
                }
                Err(error) => refused(error),
            },
            Step::Fail { size, stream, pool } => match self.allocate(size, stream, pool) {
                Ok(address) => {
                    // The recorded program went on without it.
                    let _ = self.allocator.free(address);
                    Outcome::GrantedAfterAll
                }
                Err(error) => refused(error),
            },
            Step::Free { tensor, until } => {
                self.free(tensor, until);
                Outcome::Done
            }
            Step::Ready { tensor } => {
                self.ready(tensor);
                Outcome::Done
            }
            Step::EmptyCache => {
                self.fill(DEFAULT_POOL);
                match self.allocator.empty_cache() {
                    Ok(()) => Outcome::Done,
                    Err(error) => Outcome::Internal(error),
                }
            }
            Step::ReleasePool { pool } => {
                self.fill(DEFAULT_POOL);
                if self.known_pools.remove(&pool) {
                    let _ = self.allocator.release_pool(pool_id(pool));
                }
                Outcome::Done
            }
        }
    }

    fn allocate(
        &mut self,
        size: u64,
        stream: u64,
        pool: PoolId,
    ) -> Result<DeviceAddress, AllocateError> {
        self.fill(pool);
        let request = Request::new(Bytes::new(size)).on(Stream::from_handle(stream));
        self.allocator.allocate(request)
    }

    /// Requests go to `pool` from now on.
    fn fill(&mut self, pool: PoolId) {
        let wanted = (pool != DEFAULT_POOL).then_some(pool);
        if wanted == self.filling {
            return;
        }
        if let Some(before) = self.filling.take() {
            let _ = self.allocator.end_pool(pool_id(before));
        }
        let Some(pool) = wanted else { return };
        // PyTorch numbers the pools of captures in the first place and those of the program in the second.
        let filling = if pool.0 == 0 {
            Filling::Context
        } else {
            Filling::Capture
        };
        let id = pool_id(pool);
        if self.allocator.begin_pool(id, Accepts::All, filling).is_ok() {
            self.filling = Some(pool);
            if !self.known_pools.insert(pool) {
                // Each pool has one user here, from its first request on.
                let _ = self.allocator.release_pool(id);
            }
        }
    }

    fn free(&mut self, tensor: Tensor, until: FreeUntil) {
        let address = DeviceAddress::new(self.addresses[tensor as usize]);
        if address.get() == 0 {
            return;
        }
        let FreeUntil::Ready { queue } = until else {
            let _ = self.allocator.free(address);
            return;
        };
        let others = self.allocator.driver_mut().waiting().take();
        self.unclaimed.extend(others);
        let slot = u64::from(queue);
        let stream = Stream::from_pool(UNSEEN_STREAMS + slot, slot);
        let _ = self.allocator.record_stream(address, stream);
        let _ = self.allocator.free(address);
        let events = self.allocator.driver_mut().waiting().take();
        if !events.is_empty() {
            self.events.insert(tensor, events);
        }
    }

    fn ready(&mut self, tensor: Tensor) {
        if self.stranded.remove(&tensor) {
            let address = DeviceAddress::new(self.addresses[tensor as usize]);
            let _ = self.allocator.finish_pending(address);
            return;
        }
        let waiting = self.allocator.driver_mut().waiting();
        let events = self.events.remove(&tensor).unwrap_or_else(|| {
            let mut all = std::mem::take(&mut self.unclaimed);
            all.extend(waiting.take());
            all
        });
        for event in events {
            waiting.finish(event);
        }
        // The next request would notice, and several at once in an order that hangs on streams which are not recorded.
        self.allocator.process_events();
    }
}

fn refused(error: AllocateError) -> Outcome {
    match error {
        AllocateError::OutOfMemory(figures) => Outcome::Refused(figures),
        AllocateError::Rejected(_) | AllocateError::TooLarge => Outcome::Rejected,
        AllocateError::Internal(error) => Outcome::Internal(error),
    }
}

fn allocator_segment(segment: &Segment) -> AllocatorSegment {
    AllocatorSegment {
        address: DeviceAddress::new(segment.address),
        size: Bytes::new(segment.size),
        stream: Stream::from_handle(segment.stream),
        half: if segment.is_small {
            Half::Small
        } else {
            Half::Large
        },
        pool: pool_id(segment.pool),
        kind: if segment.is_expandable {
            let space = segment
                .space
                .map(|(start, size)| (DeviceAddress::new(start), Bytes::new(size)));
            SegmentKind::Expandable { space }
        } else {
            SegmentKind::Fixed
        },
        blocks: segment
            .blocks
            .iter()
            .map(|block| SegmentBlock {
                address: DeviceAddress::new(block.address),
                size: Bytes::new(block.size),
                requested: Bytes::new(block.requested),
                state: match block.state {
                    BlockState::Allocated => AllocatorBlockState::Allocated,
                    BlockState::Pending => AllocatorBlockState::PendingFree,
                    BlockState::Free => AllocatorBlockState::Inactive,
                },
            })
            .collect(),
    }
}
