//! From an out-of-memory text to its cause: what failed, who held the memory, why, and what will help.
//!
//! ```
//! use oomproof_explain::{CauseId, Input, explain};
//!
//! let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 GiB. GPU 0 has a total capacity \
//!     of 23.53 GiB of which 20.11 GiB is free. Of the allocated memory 2.90 GiB is allocated by PyTorch, and \
//!     102.00 MiB is reserved by PyTorch but unallocated.";
//! let found = explain(&Input { text, ..Input::default() });
//! assert_eq!(found.figures.tried_bytes.unwrap().to_string(), "96.00 GiB");
//! assert_eq!(found.causes[0].id, CauseId::SingleHuge);
//! assert!(found.causes[0].sure);
//! ```
//!
//! `docs/explain.md` describes the answer, the causes and the texts that are understood.
//!
//! **Invariant:** this crate does no IO, starts nothing and prints nothing. It says of no cause that it is sure unless
//! the evidence leaves no other, and knows no particular report.

mod agreement;
mod explanation;
mod holes;
mod of_run;
mod of_snapshot;

mod anchor_table;
mod failure;
mod fields;
mod figures;
mod filled;
mod format;
mod lines;
mod moment;
mod release;
mod script;
mod size;
mod smi;
mod squeezed;
mod summary;
mod trace;

mod balance;
mod case;
mod cause;
mod causes;
mod cues;
mod dialect;
mod judge;

mod held;
mod remedies;
mod remedy;
mod useless;

mod story;

pub use agreement::{Agreement, Compared, RecordKind};
pub use balance::Balance;
pub use cause::{Cause, CauseId};
pub use explanation::{Explanation, Input, SCHEMA, explain};
pub use failure::Failure;
pub use figures::{Figures, ProcessFigure};
pub use format::{Backend, Format};
pub use held::{Held, HeldBy};
pub use judge::Candidate;
pub use moment::Moment;
pub use of_run::{explain_run, explain_with_run};
pub use of_snapshot::{explain_snapshot, explain_with_snapshot};
pub use release::{Release, Releases};
pub use remedy::{Cost, Numerics, Remedy, SavesKind};
pub use script::{Suspect, Suspicion, suspects};
pub use smi::{Smi, SmiDevice, SmiProcess};
pub use summary::MemorySummary;
pub use trace::Frame;
pub use useless::Useless;

/// All causes there are.
pub fn causes() -> &'static [Cause] {
    causes::CAUSES
}
