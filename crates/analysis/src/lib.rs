//! One profile in, one verdict out.
//!
//! **Invariant:** this crate does no IO, starts nothing and prints nothing; what it is given it does not trust.

mod circumstances;
mod verdict;

pub use circumstances::{Circumstances, EndedBy, Strictness};
pub use verdict::{
    Answer, Assumption, Device, Estimate, ModuleShare, Oom, Peak, PhasePeak, Reason, ReasonKind,
    SCHEMA, Script, SiteShare, Unsupported, Verdict,
};
