//! Numbers that carry their meaning: sizes in bytes, addresses on a device, times.
//!
//! ```
//! use oomproof_units::Bytes;
//!
//! let card: Bytes = "24GiB".parse()?;
//! assert_eq!(card, Bytes::from_gib(24));
//! assert_eq!(Bytes::from_mib(8236).to_string(), "8.04 GiB");
//! # Ok::<(), oomproof_units::ParseBytesError>(())
//! ```
//!
//! **Invariant:** this crate knows nothing of PyTorch, CUDA, files or clocks.

mod address;
mod bytes;
mod parse;
mod time;

pub use address::DeviceAddress;
pub use bytes::Bytes;
pub use parse::ParseBytesError;
pub use time::{Micros, Nanos};
