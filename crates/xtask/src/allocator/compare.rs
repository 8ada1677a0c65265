//! A program on the crate `oomproof-allocator`, beside what PyTorch wrote down of the same one.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use oomproof_allocator::{
    Accepts, Action, AllocateError, Allocator, BlockState, Card, Configuration, Driver, Event,
    Filling, Half, MemoryInfo, Pages, PoolId, PoolOptions, Release, Request, Segment, SegmentKind,
    SegmentRequest, Settings, Stream, Structures, TraceEntry,
};
use oomproof_units::{Bytes, DeviceAddress};
use serde::Deserialize;
use serde_json::{Value, json};

use super::program::{Figures, Program, Step};

/// What `run_programs.py` wrote of one program.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    /// `torch.__version__`.
    pub(crate) torch: String,
    /// How its process ended, when it did not come to its end.
    died: Option<i64>,
    #[serde(default)]
    first_address: u64,
    #[serde(default)]
    free: u64,
    #[serde(default)]
    total: u64,
    /// Handle and number.
    #[serde(default)]
    streams: Vec<(u64, u64)>,
    /// What each step gave.
    #[serde(default)]
    outcomes: Vec<Value>,
}

/// A card whose streams finish when they are told to.
struct Device {
    card: Card,
    is_finished: bool,
    /// Addresses in the order in which PyTorch freed them in the end, of which the first ones are past.
    freed: Vec<u64>,
    n_past: usize,
}

impl Driver for Device {
    fn allocate(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        self.card.allocate(request)
    }
    fn release(&mut self, address: DeviceAddress, size: Bytes) {
        self.card.release(address, size);
    }
    fn reserve(&mut self, request: SegmentRequest) -> Option<DeviceAddress> {
        self.card.reserve(request)
    }
    fn unreserve(&mut self, address: DeviceAddress, size: Bytes) {
        self.card.unreserve(address, size);
    }
    fn map(&mut self, pages: Pages) -> bool {
        self.card.map(pages)
    }
    fn unmap(&mut self, pages: Pages) {
        self.card.unmap(pages);
    }
    fn record_event(&mut self, stream: Stream) -> Event {
        self.card.record_event(stream)
    }
    fn is_done(&mut self, _: Event) -> bool {
        self.is_finished
    }
    fn wait(&mut self, _: Event) {}
    fn memory_info(&self) -> MemoryInfo {
        self.card.memory_info()
    }
    /// PyTorch's own order here depends on where its heap lies, so it is looked up.
    fn order_deferred(&mut self, blocks: &mut [DeviceAddress]) {
        let coming = &self.freed[self.n_past.min(self.freed.len())..];
        blocks.sort_by_key(|block| coming.iter().position(|freed| *freed == block.get()));
    }
}

/// The crate's side of a program.
struct Replay {
    release: Release,
    allocator: Allocator<Device, Vec<TraceEntry>>,
    streams: Vec<Stream>,
    held: HashMap<u64, DeviceAddress>,
    pools: HashMap<u64, PoolId>,
}

/// The first step whose outcome differs, PyTorch's and the crate's; `None` when all are equal.
pub(crate) fn difference(
    program: &Program,
    record: &Record,
    structures: Structures,
) -> Result<Option<String>> {
    if let Some(status) = record.died {
        return Ok(Some(format!("PyTorch's process died with status {status}")));
    }
    let release: Release = record.torch.parse()?;
    let card = Card::new(
        Bytes::new(record.total),
        Bytes::new(record.total.saturating_sub(record.free)),
    )
    .starting_at(DeviceAddress::new(record.first_address));
    let configuration = Configuration {
        structures,
        ..Configuration::new(release).with_settings(Settings::parse(&program.settings, release)?)
    };
    let device = Device {
        card,
        is_finished: true,
        freed: freed(record),
        n_past: 0,
    };
    let mut replay = Replay {
        release,
        allocator: Allocator::with_trace(configuration, device, Vec::new()),
        streams: record
            .streams
            .iter()
            .map(|(handle, id)| Stream {
                handle: *handle,
                id: *id,
            })
            .collect(),
        held: HashMap::new(),
        pools: HashMap::new(),
    };
    if program.steps.len() != record.outcomes.len() {
        return Ok(Some("PyTorch did not reach the end".to_owned()));
    }
    for (at, (step, theirs)) in program.steps.iter().zip(&record.outcomes).enumerate() {
        replay.look_ahead();
        let ours = replay.outcome(step, theirs)?;
        if let Some(text) = first_difference(theirs, &ours) {
            let deleted = replay.allocator.pool_deleted_in_use();
            let excuse = deleted.map_or(String::new(), |id| {
                format!(" (after PyTorch deleted pool {id} in use)")
            });
            let step = Value::from(step.clone());
            return Ok(Some(format!("step {at} {step}{excuse}: {text}")));
        }
    }
    Ok(None)
}

/// Addresses of all that was freed, from the last snapshot.
fn freed(record: &Record) -> Vec<u64> {
    let mut outcomes = record.outcomes.iter().rev();
    let last = outcomes.find_map(|outcome| outcome["trace"].as_array());
    last.into_iter()
        .flatten()
        .filter(|entry| entry[0] == "free_completed")
        .filter_map(|entry| entry[1].as_u64())
        .collect()
}

impl Replay {
    /// Lets the device know how much of what PyTorch freed has been freed here too.
    fn look_ahead(&mut self) {
        let is_freed = |entry: &&TraceEntry| entry.action == Action::FreeCompleted;
        let n_past = self.allocator.sink().iter().filter(is_freed).count();
        self.allocator.driver_mut().n_past = n_past;
    }

    fn outcome(&mut self, step: &Step, theirs: &Value) -> Result<Value> {
        let outcome = match step {
            Step::Alloc { slot, size, stream } => {
                return Ok(self.alloc(*slot, *size, *stream, theirs));
            }
            Step::Free { slot } => {
                if let Some(address) = self.held.remove(slot) {
                    self.allocator.free(address)?;
                }
                Value::Null
            }
            Step::Record { slot, stream } => {
                if let Some(address) = self.held.get(slot) {
                    self.allocator
                        .record_stream(*address, self.streams[*stream])?;
                }
                Value::Null
            }
            Step::Empty => match self.allocator.empty_cache() {
                Ok(()) => Value::Null,
                Err(error) => failed(&error, theirs),
            },
            Step::Settings(text) => match self.allocator.apply_settings(text) {
                Ok(()) => Value::Null,
                Err(error) => failed(&error, theirs),
            },
            Step::Fraction(fraction) => {
                self.allocator.set_memory_fraction(*fraction);
                Value::Null
            }
            Step::Finished(is_finished) => {
                self.allocator.driver_mut().is_finished = *is_finished;
                Value::Null
            }
            Step::Reset(Figures::Peaks) => {
                self.allocator.reset_peaks();
                Value::Null
            }
            Step::Reset(Figures::Sums) => {
                self.allocator.reset_accumulated();
                Value::Null
            }
            Step::Mempool {
                pool,
                use_on_oom,
                no_split,
            } => {
                // PyTorch numbers its pools itself.
                let id = |at: usize| theirs.get(at).and_then(Value::as_u64).unwrap_or_default();
                let id = PoolId(id(0), id(1));
                self.pools.insert(*pool, id);
                let options = PoolOptions {
                    use_on_oom: *use_on_oom,
                    no_split: *no_split,
                    has_own_allocator: false,
                };
                self.allocator.hold_pool(id, options)?;
                json!([id.0, id.1])
            }
            Step::Begin { pool } => {
                let id = self.id(*pool);
                self.allocator
                    .begin_pool(id, Accepts::All, Filling::Context)?;
                Value::Null
            }
            Step::End { pool } => {
                self.allocator.end_pool(self.id(*pool))?;
                Value::Null
            }
            Step::Release { pool } => {
                self.allocator.release_pool(self.id(*pool))?;
                Value::Null
            }
            Step::Statistics => {
                let flat: BTreeMap<String, i64> = self
                    .allocator
                    .statistics()
                    .flat(self.release)
                    .into_iter()
                    .filter(|(_, value)| *value != 0)
                    .collect();
                json!(flat)
            }
            Step::Keys => {
                let flat = self.allocator.statistics().flat(self.release);
                json!(flat.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
            }
            Step::Snapshot => self.snapshot(theirs),
        };
        Ok(outcome)
    }

    fn id(&self, pool: u64) -> PoolId {
        self.pools
            .get(&pool)
            .copied()
            .unwrap_or(PoolId(0, 1000 + pool))
    }

    fn alloc(&mut self, slot: u64, size: u64, stream: usize, theirs: &Value) -> Value {
        let request = Request::new(Bytes::new(size)).on(self.streams[stream]);
        match self.allocator.allocate(request) {
            Ok(address) => {
                if size > 0 {
                    self.held.insert(slot, address);
                }
                json!(address.get())
            }
            Err(AllocateError::OutOfMemory(figures)) => {
                let text = theirs
                    .get("oom")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                json!({"oom": figures.message(self.release, processes(text))})
            }
            Err(AllocateError::Internal(error)) => failed(&error, theirs),
            Err(error) => json!({"oom": format!("CUDA out of memory. {error}")}),
        }
    }

    fn snapshot(&mut self, theirs: &Value) -> Value {
        let has_pools = theirs["trace"]
            .as_array()
            .is_some_and(|trace| trace.iter().any(|entry| !entry[4].is_null()));
        let trace: Vec<Value> = self
            .allocator
            .sink()
            .iter()
            .map(|entry| {
                let pool = has_pools.then_some([entry.pool.0, entry.pool.1]);
                let (address, size) = (entry.address.get(), entry.size.get());
                json!([entry.action.name(), address, size, entry.stream, pool])
            })
            .collect();
        let segments: Vec<Value> = self.allocator.snapshot().iter().map(segment).collect();
        json!({"segments": segments, "trace": trace})
    }
}

/// Errors other than for lack of memory have texts of their own, which are not compared.
fn failed(error: &dyn std::error::Error, theirs: &Value) -> Value {
    if theirs.get("error").is_some() {
        theirs.clone()
    } else {
        json!({"error": error.to_string()})
    }
}

/// The part of a message that names processes.
fn processes(text: &str) -> &str {
    let start = text.find(" is free. ").map_or(0, |at| at + 10);
    let rest = &text[start..];
    let end = rest.rfind(" memory in use. ").map_or(0, |at| at + 16);
    &rest[..end]
}

fn segment(segment: &Segment) -> Value {
    let blocks: Vec<Value> = segment
        .blocks
        .iter()
        .map(|block| {
            let state = match block.state {
                BlockState::Allocated => "active_allocated",
                BlockState::PendingFree => "active_pending_free",
                BlockState::Inactive => "inactive",
            };
            json!([
                block.address.get(),
                block.size.get(),
                block.requested.get(),
                state
            ])
        })
        .collect();
    json!({
        "address": segment.address.get(),
        "total_size": segment.size.get(),
        "stream": segment.stream.handle,
        "allocated_size": segment.allocated().get(),
        "active_size": segment.active().get(),
        "requested_size": segment.requested().get(),
        "is_large": segment.half == Half::Large,
        "pool": [segment.pool.0, segment.pool.1],
        "is_expandable": segment.kind != SegmentKind::Fixed,
        "blocks": blocks,
    })
}

/// Where two values first differ.
fn first_difference(theirs: &Value, ours: &Value) -> Option<String> {
    if theirs == ours {
        return None;
    }
    match (theirs, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            // A trace says more of how a difference came about than the segments that it left.
            keys.sort_by_key(|key| *key != "trace");
            keys.into_iter().find_map(|key| {
                let inner = first_difference(&theirs[key], &ours[key])?;
                Some(format!("{key}: {inner}"))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.iter().any(|item| !item.is_number()) => {
            let n_items = left.len().max(right.len());
            (0..n_items).find_map(|at| {
                let inner = first_difference(&theirs[at], &ours[at])?;
                Some(format!("[{at}] {inner}"))
            })
        }
        _ => Some(format!("PyTorch {theirs}, ours {ours}")),
    }
}
