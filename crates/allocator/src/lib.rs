//! PyTorch's caching allocator, exactly: addresses, splits, merges, segments, statistics, traces and refusals, for the
//! releases from 2.0 on.
//!
//! ```
//! use oomproof_allocator::{Allocator, Card, Configuration, Release, Request};
//! use oomproof_units::Bytes;
//!
//! let card = Card::new(Bytes::from_gib(24), Bytes::from_mib(500));
//! let mut allocator = Allocator::new(Configuration::new(Release::new(2, 8)?), card);
//!
//! let address = allocator.allocate(Request::new(Bytes::from_mib(3)))?;
//! assert_eq!(allocator.statistics().allocated_bytes.all.current, 3 << 20);
//! assert_eq!(allocator.statistics().reserved_bytes.all.current, 20 << 20);
//!
//! allocator.free(address)?;
//! allocator.empty_cache()?;
//! assert_eq!(allocator.segments(), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading order: [`Release`] whose rules hold, [`Settings`] what the user told it, [`Driver`] what is below,
//! [`Allocator`] the way of a request, [`Statistics`] and [`TraceEntry`] what is told of it. The rules in words, with
//! examples that run, are in `specs/`.
//!
//! **Invariant:** does no IO, reads no clock, and does not know where requests come from; out of memory is a result.
//! What it is asked is not trusted: an address or a pool that does not exist is an error and changes nothing.

mod release;
mod settings;
mod sizes;

mod card;
mod driver;
mod stream;

mod allocator;
mod events;
mod expandable;
mod private_pools;
mod release_memory;
mod segments;
mod state_error;

mod block;
mod free_blocks;
mod held_blocks;
mod pool;
mod slot_order;
mod unmapped;

mod out_of_memory;
mod statistics;
mod trace;

pub use allocator::{Allocator, Configuration, Request, Structures};
pub use card::{Card, Progress};
pub use driver::{Driver, Event, MemoryInfo, Pages, SegmentRequest};
pub use free_blocks::FreeStructure;
pub use held_blocks::AddressStructure;
pub use out_of_memory::{AllocateError, InternalError, OutOfMemory, Processes, UseError};
pub use pool::{Accepts, Filling, PoolId, PoolOptions};
pub use release::{Release, ReleaseError};
pub use segments::{BlockState, Segment, SegmentBlock, SegmentKind};
pub use settings::{Backend, Reserve, Settings, SettingsError};
pub use state_error::StateError;
pub use statistics::{ByPool, Half, Level, Statistics};
pub use stream::Stream;
pub use trace::{Action, NoTrace, TraceEntry, TraceSink};
