//! A recorded trace through PyTorch's allocator once more: under the settings it was recorded with, to see that the
//! replay is the same, and under others, to see what they would have changed.
//!
//! ```
//! use oomproof_replay::{Lifetime, pack, peak_of_live_bytes};
//! use oomproof_units::Bytes;
//!
//! let of = |mib, begins, ends| Lifetime { size: Bytes::from_mib(mib), begins, ends };
//! let blocks = [of(4, 0, 2), of(2, 1, 4), of(6, 3, 5)];
//! let (floor, _) = peak_of_live_bytes(&blocks);
//! assert_eq!(floor, Bytes::from_mib(8));
//! assert_eq!(pack(&blocks, 1_000).height, floor);
//! ```
//!
//! **Invariant:** this crate does no IO, reads no clock and prints nothing; it knows PyTorch's allocator only through
//! `allocator` and recorded traces only through `snapshot`.

mod event;
mod program;
mod recorded_settings;
mod recording;
mod start;
mod undecided;

mod device;
mod playback;
mod runner;
mod waiting;

mod capacity;
mod conf;
mod matching;
mod replay;
mod trial;
mod written;

mod lifetimes;
mod packing;
mod packing_check;

mod difference;
mod growth;
mod place;

pub use capacity::Available;
pub use conf::variable;
pub use difference::{Basis, Difference, DifferenceRow, difference};
pub use growth::Growth;
pub use lifetimes::{Lifetime, peak_of_live_bytes};
pub use matching::{FirstDifference, Match, Share};
pub use packing::{Packing, pack};
pub use packing_check::{PackingError, check_packing};
pub use place::{Place, site};
pub use replay::{DeviceReplay, Knowledge, Replay, ReplayError, Search, Tried};
pub use trial::{Stop, Trial};
pub use undecided::{Question, Undecided};
