//! PyTorch's memory snapshots, of all releases and in all wrappings, as one model in columns.
//!
//! ```
//! use oomproof_snapshot::{Action, Entry, PoolId, SnapshotBuilder, StreamHandle};
//! use oomproof_units::{Bytes, DeviceAddress};
//!
//! let mut builder = SnapshotBuilder::new();
//! let line = builder.frame("train.py", 12, "<module>");
//! let stack = builder.stack(&[line]);
//! builder.entry(0, &Entry {
//!     action: Action::Alloc,
//!     address: DeviceAddress::new(0x7f00_0000_0000),
//!     size: Bytes::new(4096),
//!     stream: StreamHandle::DEFAULT,
//!     time: None,
//!     stack,
//!     pool: Some(PoolId::DEFAULT),
//!     compile_context: None,
//!     user_metadata: None,
//!     internal_metadata: None,
//! });
//! let snapshot = builder.finish();
//! let entry = snapshot.traces()[0].entry(0);
//! let frame = snapshot.stacks().frames(entry.stack).next().unwrap();
//! assert_eq!(snapshot.text(frame.file), "train.py");
//! ```
//!
//! **Invariant:** the only crate that knows PyTorch's keys; it knows nothing of how the allocator decides, does no IO
//! and does not trust what it is given: memory is bounded by the length of the input.

mod annotation;
mod builder;
mod chrome_trace;
mod container;
mod entry;
mod from_profile;
mod limits;
mod liveness;
mod origin;
mod pickled;
mod read;
mod schema;
mod segment;
mod settings;
mod snapshot;
mod stack_table;
mod summary;
mod summary_text;
mod text_table;
mod trace;
mod uniform_column;
mod writer;

pub use annotation::Annotation;
pub use builder::SnapshotBuilder;
pub use entry::{Action, Entry, PoolId, StreamHandle};
pub use limits::Limits;
pub use liveness::{Peak, PeakPart};
pub use origin::{Container, MinorRelease, Origin, ReleaseRange};
pub use pickled::Misfit;
pub use read::ReadError;
pub use schema::Schema;
pub use segment::{Block, BlockState, Segment, SegmentInfo, SegmentKind, Segments};
pub use settings::{RecordedSettings, SettingValue};
pub use snapshot::Snapshot;
pub use stack_table::{Frame, FrameId, FrameNote, StackId, Stacks};
pub use summary::{CutEvidence, DeviceSummary, Failure, Summary, TraceStart};
pub use text_table::{TextId, Texts};
pub use trace::Trace;
pub use writer::write_snapshot;
