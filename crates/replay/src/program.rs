//! From the entries of a trace to what the program must have asked for.
//!
//! A trace mixes requests with what the allocator did about them. Only the requests are the program's own; everything
//! between two of them is the doing of the one that follows, which is how the entries are cut into steps here.

use std::collections::BTreeMap;

use oomproof_units::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::{Action, DEFAULT_POOL, Event, PoolId, Stack};
use crate::lifetimes::Lifetime;
use crate::start::{BlockState, Segment};
use crate::undecided::{Question, Undecided};

/// The number of a block of the program, in the order of allocation; those in use at the start come first.
pub(crate) type Tensor = u32;

/// Something that the program asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request that was granted.
    Allocate {
        tensor: Tensor,
        size: u64,
        stream: u64,
        pool: PoolId,
    },
    /// A request that failed.
    Fail {
        size: u64,
        stream: u64,
        pool: PoolId,
    },
    Free {
        tensor: Tensor,
        until: FreeUntil,
    },
    /// The other streams are done with a block, as the next request will notice.
    Ready { tensor: Tensor },
    EmptyCache,
    /// Nothing holds a private pool any more.
    ReleasePool { pool: PoolId },
}

/// When a block that the program gave back is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeUntil {
    Now,
    /// When other streams are done with it. Blocks of one queue become ready in the order in which they were freed.
    Ready { queue: u32 },
}

/// The requests of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// Index behind the last entry of each step; its entries begin where those of the step before end.
    pub(crate) ends: Vec<u32>,
    pub(crate) n_tensors: u32,
    /// Address and whether it is pending, of each tensor that is in use at the start.
    pub(crate) at_start: Vec<(u64, BlockState)>,
    /// From the request to the moment when it was free, of every tensor and failed request; entry `i` of the trace is
    /// event `i + 1`.
    pub(crate) lifetimes: Vec<Lifetime>,
    pub(crate) undecided: Undecided,
}

impl Program {
    /// Cuts `events` into steps; `start` and `end` are the layouts before and behind them.
    pub(crate) fn new(start: &[Segment], events: &[Event], end: &[Segment]) -> Self {
        let mut reading = Reading::new(start, events, end);
        reading.read();
        let Reading {
            mut program,
            undecided,
            ..
        } = reading;
        program.undecided = undecided;
        program.assign_queues();
        program
    }

    /// A queue stops at the first block that is not ready, so blocks share one only when they became ready in order.
    fn assign_queues(&mut self) {
        let mut last_of_queue: Vec<u32> = Vec::new();
        for step in &mut self.steps {
            let Step::Free {
                tensor,
                until: FreeUntil::Ready { queue },
            } = step
            else {
                continue;
            };
            let ready = self.lifetimes[*tensor as usize].ends;
            let found = last_of_queue.iter().position(|last| *last <= ready);
            let chosen = found.unwrap_or_else(|| {
                last_of_queue.push(0);
                last_of_queue.len() - 1
            });
            last_of_queue[chosen] = ready;
            *queue = chosen as u32;
        }
    }

    /// The entries of a step.
    pub(crate) fn entries_of(&self, step_idx: usize) -> std::ops::Range<usize> {
        let from = step_idx.checked_sub(1).map_or(0, |before| self.ends[before]);
        from as usize..self.ends[step_idx] as usize
    }
}

#[derive(Clone, Copy)]
struct Live {
    tensor: Tensor,
    is_pending: bool,
}

struct Reading<'a> {
    events: &'a [Event],
    program: Program,
    undecided: Undecided,
    live: FxHashMap<u64, Live>,
    /// Segments of private pools in the snapshot: start to end, pool, and the entry from which on they are so.
    private: BTreeMap<u64, (u64, PoolId, usize)>,
    released: FxHashSet<PoolId>,
    has_completions: bool,
    reserved: u64,
    most_reserved: u64,
}

impl<'a> Reading<'a> {
    fn new(start: &[Segment], events: &'a [Event], end: &[Segment]) -> Self {
        let mut program = Program::default();
        let mut live = FxHashMap::default();
        for block in start.iter().flat_map(|segment| &segment.blocks) {
            if block.state == BlockState::Free {
                continue;
            }
            let tensor = program.n_tensors;
            program.n_tensors += 1;
            program.at_start.push((block.address, block.state));
            program.lifetimes.push(Lifetime {
                size: Bytes::new(block.requested),
                begins: 0,
                ends: events.len() as u32 + 1,
            });
            let is_pending = block.state == BlockState::Pending;
            live.insert(block.address, Live { tensor, is_pending });
        }
        let reserved = start.iter().map(|segment| segment.size).sum();
        Self {
            events,
            program,
            undecided: Undecided::default(),
            live,
            private: private_segments(events, end),
            released: FxHashSet::default(),
            has_completions: events
                .iter()
                .any(|event| event.action == Action::FreeCompleted),
            reserved,
            most_reserved: most_reserved(reserved, events),
        }
    }

    fn read(&mut self) {
        let mut event_idx = 0;
        while event_idx < self.events.len() {
            let event = self.events[event_idx];
            let mut next = event_idx + 1;
            match event.action {
                Action::Alloc => self.allocate(event_idx),
                Action::OutOfMemory => {
                    let pool = self.pool_of(event_idx);
                    self.undecided.ask(Question::FailedRequestSize);
                    self.program.lifetimes.push(Lifetime {
                        size: Bytes::new(event.size),
                        begins: event_idx as u32 + 1,
                        ends: event_idx as u32 + 2,
                    });
                    let step = Step::Fail {
                        size: event.size,
                        stream: event.stream,
                        pool,
                    };
                    // A failed request takes a number too, so that lifetimes are found by it.
                    self.program.n_tensors += 1;
                    self.push(step, next);
                }
                Action::FreeRequested => next = self.free(event_idx),
                Action::FreeCompleted => self.complete(event_idx),
                _ if event.action.is_of_driver() => next = self.driver(event_idx),
                _ => {}
            }
            event_idx = next;
        }
    }

    fn push(&mut self, step: Step, end: usize) {
        self.program.steps.push(step);
        self.program.ends.push(end as u32);
    }

    /// A step without entries of its own, in front of what comes.
    fn push_silent(&mut self, step: Step) {
        let end = self.program.ends.last().copied().unwrap_or(0);
        self.push(step, end as usize);
    }

    fn allocate(&mut self, event_idx: usize) {
        let event = self.events[event_idx];
        let tensor = self.program.n_tensors;
        self.program.n_tensors += 1;
        self.program.lifetimes.push(Lifetime {
            size: Bytes::new(event.size),
            begins: event_idx as u32 + 1,
            ends: self.events.len() as u32 + 1,
        });
        let before = self.live.insert(
            event.address,
            Live {
                tensor,
                is_pending: false,
            },
        );
        if let Some(before) = before {
            self.undecided.ask(Question::MissingFree);
            self.ends_at(before.tensor, event_idx);
            self.push_silent(if before.is_pending {
                Step::Ready {
                    tensor: before.tensor,
                }
            } else {
                Step::Free {
                    tensor: before.tensor,
                    until: FreeUntil::Now,
                }
            });
        }
        let pool = self.pool_of(event_idx);
        let step = Step::Allocate {
            tensor,
            size: event.size,
            stream: event.stream,
            pool,
        };
        self.push(step, event_idx + 1);
    }

    fn free(&mut self, event_idx: usize) -> usize {
        let event = self.events[event_idx];
        let next = self.events.get(event_idx + 1);
        let completes = next.is_some_and(|next| {
            next.action == Action::FreeCompleted && next.address == event.address
        });
        let until = if completes || !self.has_completions {
            FreeUntil::Now
        } else {
            FreeUntil::Ready { queue: 0 }
        };
        let end = event_idx + 1 + usize::from(completes);
        let Some(live) = self.live.get_mut(&event.address) else {
            self.undecided.ask(Question::UnknownBlock);
            return end;
        };
        let tensor = live.tensor;
        if until == FreeUntil::Now {
            self.live.remove(&event.address);
            self.ends_at(tensor, end - 1);
        } else {
            live.is_pending = true;
            self.undecided.ask(Question::PendingFrees);
        }
        self.push(Step::Free { tensor, until }, end);
        end
    }

    /// A free that completes later than it was requested, which only a request or `empty_cache` notices.
    fn complete(&mut self, event_idx: usize) {
        let event = self.events[event_idx];
        let Some(live) = self.live.remove(&event.address) else {
            self.undecided.ask(Question::UnknownBlock);
            return;
        };
        self.ends_at(live.tensor, event_idx);
        if live.is_pending {
            self.push_silent(Step::Ready {
                tensor: live.tensor,
            });
        } else {
            // The entry of the request was left out of the trace.
            let step = Step::Free {
                tensor: live.tensor,
                until: FreeUntil::Now,
            };
            self.push(step, event_idx + 1);
        }
    }

    fn ends_at(&mut self, tensor: Tensor, event_idx: usize) {
        let lifetime = &mut self.program.lifetimes[tensor as usize];
        lifetime.ends = (event_idx as u32 + 1).max(lifetime.begins + 1);
    }

    /// Entries of the driver: they belong to the request behind them, unless the program gave memory back by itself.
    fn driver(&mut self, event_idx: usize) -> usize {
        let event = self.events[event_idx];
        if !event.action.gives_back() {
            self.account(event_idx);
            return event_idx + 1;
        }
        let run = self.events[event_idx..]
            .iter()
            .take_while(|other| other.action.gives_back() && other.stack == event.stack)
            .count();
        let end = event_idx + run;
        let is_empty_cache = self.is_empty_cache(event_idx, end);
        if let Some(pool) = self.released_pool(event_idx, end) {
            self.push_silent(Step::ReleasePool { pool });
        }
        for idx in event_idx..end {
            self.account(idx);
        }
        if is_empty_cache {
            self.push(Step::EmptyCache, end);
        }
        end
    }

    /// A private pool that gives memory back here for the first time: nothing holds it any more.
    fn released_pool(&mut self, from: usize, to: usize) -> Option<PoolId> {
        let pools = self.events[from..to].iter().filter_map(|event| event.pool);
        let pool = pools.into_iter().find(|pool| *pool != DEFAULT_POOL)?;
        self.released.insert(pool).then_some(pool)
    }

    fn account(&mut self, event_idx: usize) {
        let event = self.events[event_idx];
        if event.action.gives_back() {
            self.reserved = self.reserved.saturating_sub(event.size);
        } else {
            self.reserved += event.size;
        }
    }

    /// Whether the program called `empty_cache`, and not the allocator gave memory back for want of it.
    fn is_empty_cache(&mut self, from: usize, to: usize) -> bool {
        let event = self.events[from];
        if matches!(event.stack, Stack::EmptyCache(_)) {
            return true;
        }
        let later = &self.events[to..];
        let request = later.iter().find(|event| {
            !event.action.is_of_driver()
                && !matches!(event.action, Action::FreeCompleted | Action::Other)
        });
        let Some(request) = request
            .filter(|request| matches!(request.action, Action::Alloc | Action::OutOfMemory))
        else {
            return true;
        };
        match (event.stack, request.stack) {
            (Stack::Other(ours), Stack::Other(theirs)) => return ours != theirs,
            (Stack::Other(_), Stack::None) => return true,
            _ => {}
        }
        // Without a stack: the allocator gives memory back only when the device has none left.
        let needed = later
            .iter()
            .take_while(|event| event.action.is_of_driver())
            .find(|event| !event.action.gives_back())
            .map_or(0, |event| event.size);
        let fits = self.reserved + needed <= self.most_reserved;
        if fits && request.action == Action::Alloc {
            return true;
        }
        self.undecided.ask(Question::WhoReleased);
        false
    }

    fn pool_of(&mut self, event_idx: usize) -> PoolId {
        let event = self.events[event_idx];
        if let Some(pool) = event.pool {
            return pool;
        }
        if event.action != Action::Alloc {
            return DEFAULT_POOL;
        }
        match self.private.range(..=event.address).next_back() {
            Some((_, &(end, pool, from))) if event.address < end => {
                if event_idx >= from {
                    return pool;
                }
                self.undecided.ask(Question::PoolUnknown);
                DEFAULT_POOL
            }
            _ => DEFAULT_POOL,
        }
    }
}

/// Where the snapshot shows private pools, and from which entry on each of their segments was theirs.
fn private_segments(events: &[Event], end: &[Segment]) -> BTreeMap<u64, (u64, PoolId, usize)> {
    let mut found: BTreeMap<u64, (u64, PoolId, usize)> = end
        .iter()
        .filter(|segment| segment.pool != DEFAULT_POOL)
        .map(|segment| {
            let end = segment.address + segment.size;
            (segment.address, (end, segment.pool, 0))
        })
        .collect();
    if found.is_empty() || events.iter().any(|event| event.pool.is_some()) {
        return BTreeMap::new();
    }
    for (event_idx, event) in events.iter().enumerate() {
        if event.action == Action::SegmentFree
            && let Some((_, _, from)) = found.get_mut(&event.address)
        {
            *from = event_idx;
        }
    }
    found
}

fn most_reserved(at_start: u64, events: &[Event]) -> u64 {
    let (mut now, mut most) = (at_start, at_start);
    for event in events.iter().filter(|event| event.action.is_of_driver()) {
        if event.action.gives_back() {
            now = now.saturating_sub(event.size);
        } else {
            now += event.size;
            most = most.max(now);
        }
    }
    most
}
