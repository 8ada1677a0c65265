//! The profile: the file a virtual run leaves behind, and everything else reads.
//!
//! The virtual device writes it through a shared mapping, record after record, so that a killed process
//! loses nothing; `analysis` reads it. This crate is the layout both agree on: the fixed [header](layout),
//! the [records](Record), and the [settings](RunSettings) of the run, which travel as JSON.
//!
//! ```
//! use oomproof_profile::{Phase, Profile, Record, encode, layout};
//!
//! let mut file = layout::new_header(4242);
//! encode(&Record::Phase { nanos: 7, phase: Phase::Forward, step: 1 }, &mut file);
//! layout::set_committed(&mut file);
//!
//! let profile = Profile::read(&file)?;
//! assert_eq!(profile.pid, 4242);
//! assert_eq!(profile.records.len(), 1);
//! # Ok::<(), oomproof_profile::ReadError>(())
//! ```
//!
//! **Invariant:** this crate does no IO, maps nothing and knows nothing of CUDA; sizes in records are plain
//! integers because they are also written by a library that lives inside foreign processes.

pub mod layout;

mod decode;
mod encode;
mod names;
mod record;
mod settings;
mod values;

pub use decode::{Profile, ReadError};
pub use encode::encode;
pub use names::{Basis, DriverAction, Phase, Role, Touch};
pub use record::{AllocatorEvent, OutOfMemory, Record, UnknownRead};
pub use settings::{
    ArithmeticRates, DeviceSettings, MeasuredRates, Range, RunSettings, WarmSettings,
};
pub use values::{AssumedRead, AssumedValue, Routing, Values};
