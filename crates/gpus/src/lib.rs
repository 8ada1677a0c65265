//! The catalog of GPUs: what each reports to programs, how sure that is, and where it is known from.
//!
//! ```
//! use oomproof_gpus::{context_bytes, context_bytes_all_kernels, find};
//!
//! let gpu = find("RTX 4090")?;
//! assert_eq!(gpu.name, "NVIDIA GeForce RTX 4090");
//! assert_eq!(gpu.total.to_string(), "23.52 GiB");
//!
//! let context = context_bytes(gpu, 13_020);
//! assert!(context.low < context.likely && context.likely < context.high);
//!
//! let unknown = find("rtx-4091").unwrap_err();
//! assert_eq!(unknown.to_string(), "there is no GPU named `rtx-4091` in the catalog");
//! assert_eq!(unknown.suggestions().first(), Some(&"rtx-4090"));
//! # Ok::<(), oomproof_gpus::UnknownGpu>(())
//! ```
//!
//! `docs/gpus.md` says how the figures were gathered and how wide the estimates are.
//!
//! **Invariant:** this crate is data and lookups; it does no IO and never asks a real device.

mod catalog;
mod context;
mod gpu;
mod limits;
mod lookup;
mod rates;

pub use catalog::all;
pub use context::{CONTEXT_SOURCES, context_bytes, context_bytes_all_kernels};
pub use gpu::{Certainty, Ecc, Gpu};
pub use limits::Architecture;
pub use lookup::{UnknownGpu, find};
pub use rates::{Rate, Rates};
