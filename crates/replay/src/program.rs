//! From the entries of a trace to what the program must have asked for.
//!
//! A trace mixes requests with what the allocator did about them. Only the requests are the program's own; everything
//! between two of them is the doing of the one that follows, which is how the entries are cut into steps here.

use std::collections::BTreeMap;

use oomproof_allocator::Settings;
use oomproof_units::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::{Action, DEFAULT_POOL, Event, PoolId, Stack};
use crate::lifetimes::Lifetime;
use crate::start::{BlockState, Segment};
use crate::undecided::{Question, Undecided};

/// Requests up to this size are served from segments of the size below, and larger ones from larger segments.
const SMALL_SIZE: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 2 << 20;
const LARGE_PAGE: u64 = 20 << 20;

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
    Ready {
        tensor: Tensor,
    },
    EmptyCache,
    /// Nothing holds a private pool any more.
    ReleasePool {
        pool: PoolId,
    },
}

/// When a block that the program gave back is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeUntil {
    Now,
    /// When other streams are done with it. Blocks of one queue become ready in the order in which they were freed.
    Ready {
        queue: u32,
    },
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
    /// Cuts the entries of `traced` into steps.
    pub(crate) fn new(traced: &Traced<'_>) -> Self {
        let mut reading = Reading::new(traced);
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
        let from = step_idx
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        from as usize..self.ends[step_idx] as usize
    }
}

/// What a program is read from.
#[derive(Clone, Copy)]
pub(crate) struct Traced<'a> {
    /// The layout before the first entry.
    pub(crate) start: &'a [Segment],
    pub(crate) events: &'a [Event],
    /// The layout behind the last entry.
    pub(crate) end: &'a [Segment],
    /// What was in force.
    pub(crate) settings: &'a Settings,
    /// What the device had for PyTorch, when the user says so.
    pub(crate) available: Option<Bytes>,
}

/// Who gave memory back to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Program,
    Allocator,
    /// Taken as the allocator.
    Unsure,
}

#[derive(Clone, Copy)]
struct Live {
    tensor: Tensor,
    is_pending: bool,
}

struct Reading<'a> {
    events: &'a [Event],
    settings: &'a Settings,
    program: Program,
    undecided: Undecided,
    live: FxHashMap<u64, Live>,
    /// Segments of private pools in the snapshot: start to end, pool, and the entry from which on they are so.
    private: BTreeMap<u64, (u64, PoolId, usize)>,
    released: FxHashSet<PoolId>,
    /// Private pools that requests went to.
    seen_pools: FxHashSet<PoolId>,
    /// Blocks that became free when the allocator waited for them in the present request.
    waited_for: Vec<Tensor>,
    has_completions: bool,
    reserved: u64,
    /// At least so much the device had for PyTorch.
    available: u64,
}

impl<'a> Reading<'a> {
    fn new(traced: &Traced<'a>) -> Self {
        let Traced {
            start,
            events,
            end,
            settings,
            available,
        } = *traced;
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
            settings,
            program,
            undecided: Undecided::default(),
            live,
            private: private_segments(events, end),
            released: FxHashSet::default(),
            seen_pools: FxHashSet::default(),
            waited_for: Vec::new(),
            has_completions: has_completions(events, end),
            reserved,
            available: most_reserved(reserved, events).max(available.map_or(0, Bytes::get)),
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
        for tensor in std::mem::take(&mut self.waited_for) {
            self.program.steps.push(Step::Ready { tensor });
            self.program.ends.push(end as u32);
        }
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
        }) && !self.was_short_of(event_idx + 1);
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
        if live.is_pending && self.is_waited_for(event_idx) {
            self.waited_for.push(live.tensor);
        } else if live.is_pending {
            self.push_silent(Step::Ready {
                tensor: live.tensor,
            });
            let mut later = self.events[event_idx + 1..].iter();
            let next = later.find(|event| event.action != Action::Other);
            let is_noticed = next.is_some_and(|next| next.action != Action::FreeRequested);
            // The first entry may be the end of a free whose beginning was lost.
            if !is_noticed && event_idx > 0 {
                // Noticed by no request: the program emptied the cache, and nothing could be given back.
                self.push(Step::EmptyCache, event_idx + 1);
            }
        } else {
            // The entry of the request was left out of the trace.
            let step = Step::Free {
                tensor: live.tensor,
                until: FreeUntil::Now,
            };
            self.push(step, event_idx + 1);
        }
    }

    /// Whether the allocator waited for a block because the device was full, and did not find it free beforehand: then
    /// the block could not serve the request.
    fn is_waited_for(&self, event_idx: usize) -> bool {
        let mut later = (event_idx + 1..).zip(&self.events[event_idx + 1..]);
        let next =
            later.find(|(_, event)| !matches!(event.action, Action::FreeCompleted | Action::Other));
        next.is_some_and(|(idx, next)| {
            next.action == Action::OutOfMemory
                || (next.action.gives_back()
                    && self.who_released(idx, self.run_end(idx)) != Who::Program)
        })
    }

    /// Whether the request behind a completed free would have been served by that block and was not: then the allocator
    /// waited for it, right after it had been given back.
    fn was_short_of(&self, event_idx: usize) -> bool {
        let freed = self.events[event_idx];
        if !self.is_waited_for(event_idx) {
            return false;
        }
        let mut later = self.events[event_idx..].iter();
        let request =
            later.find(|event| matches!(event.action, Action::Alloc | Action::OutOfMemory));
        request.is_some_and(|request| {
            freed.size >= request.size
                && freed.stream == request.stream
                && (freed.size <= SMALL_SIZE) == (request.size <= SMALL_SIZE)
        })
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
        let end = self.run_end(event_idx);
        let who = self.who_released(event_idx, end);
        if who == Who::Unsure {
            self.undecided.ask(Question::WhoReleased);
        }
        if let Some(pool) = self.released_pool(event_idx, end) {
            self.push_silent(Step::ReleasePool { pool });
        }
        for idx in event_idx..end {
            self.account(idx);
        }
        if who == Who::Program {
            self.push(Step::EmptyCache, end);
        }
        end
    }

    /// Behind the last of the entries that give memory back together with this one.
    fn run_end(&self, event_idx: usize) -> usize {
        let stack = self.events[event_idx].stack;
        let run = self.events[event_idx..]
            .iter()
            .take_while(|other| other.action.gives_back() && other.stack == stack);
        event_idx + run.count()
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

    /// Whether the program called `empty_cache`, or the allocator gave memory back for want of it.
    fn who_released(&self, from: usize, to: usize) -> Who {
        let event = self.events[from];
        if matches!(event.stack, Stack::EmptyCache(_)) {
            return Who::Program;
        }
        let later = &self.events[to..];
        let request = later.iter().find(|event| {
            !event.action.is_of_driver()
                && !matches!(event.action, Action::FreeCompleted | Action::Other)
        });
        let Some(request) =
            request.filter(|request| matches!(request.action, Action::Alloc | Action::OutOfMemory))
        else {
            return Who::Program;
        };
        match (event.stack, request.stack) {
            (Stack::Other(ours), Stack::Other(theirs)) => {
                return if ours == theirs {
                    Who::Allocator
                } else {
                    Who::Program
                };
            }
            (Stack::Other(_), Stack::None) => return Who::Program,
            _ => {}
        }
        // Without a stack: the allocator gives memory back only when what is cached does not serve the request and the
        // device has none left.
        let max_split = self.settings.max_split_size.map_or(u64::MAX, Bytes::get);
        let most = if request.size < max_split {
            max_split
        } else {
            request.size + self.settings.max_non_split_rounding.get()
        };
        let serves = |released: &Event| {
            (request.size..most).contains(&released.size)
                && released.stream == request.stream
                && is_of_small_pool(released) == (request.size <= SMALL_SIZE)
        };
        let run = &self.events[from..to];
        if run.iter().any(serves) {
            return Who::Program;
        }
        // What is too large to be split goes first when memory is short, and by its size when the cache is emptied.
        let key = request.size.max(max_split);
        let oversize = |released: &Event| released.stream == request.stream && released.size >= key;
        if event.size < max_split && run.iter().any(oversize) {
            return Who::Program;
        }
        let needed = later
            .iter()
            .take_while(|event| event.action.is_of_driver())
            .find(|event| !event.action.gives_back())
            .map_or(0, |event| event.size);
        let fits = self.reserved + needed <= self.available;
        if fits && request.action == Action::Alloc {
            return Who::Program;
        }
        Who::Unsure
    }

    fn pool_of(&mut self, event_idx: usize) -> PoolId {
        let event = self.events[event_idx];
        if let Some(pool) = event.pool {
            if pool != DEFAULT_POOL && self.seen_pools.insert(pool) {
                self.undecided.ask(Question::PoolExtent);
            }
            return pool;
        }
        if event.action != Action::Alloc {
            return DEFAULT_POOL;
        }
        match self.private.range(..=event.address).next_back() {
            Some((_, &(end, pool, from))) if event.address < end => {
                if event_idx >= from {
                    if self.seen_pools.insert(pool) {
                        self.undecided.ask(Question::PoolExtent);
                    }
                    return pool;
                }
                self.undecided.ask(Question::PoolUnknown);
                DEFAULT_POOL
            }
            _ => DEFAULT_POOL,
        }
    }
}

/// Whether completed frees are recorded: a program can leave kinds of entries out.
fn has_completions(events: &[Event], end: &[Segment]) -> bool {
    let mut blocks = end.iter().flat_map(|segment| &segment.blocks);
    let is_completion = |event: &Event| event.action == Action::FreeCompleted;
    events.iter().any(is_completion) || blocks.any(|block| block.state == BlockState::Pending)
}

/// Whether memory that was given back had been of the small pool.
fn is_of_small_pool(released: &Event) -> bool {
    if released.action == Action::SegmentUnmap {
        !released.size.is_multiple_of(LARGE_PAGE)
    } else {
        released.size == SMALL_SEGMENT
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
