//! One profile in, one verdict out: roles, phases, the peak, who holds it, growth, and whether it fits.
//!
//! **Invariant:** this crate does no IO, starts nothing and prints nothing; what it is given it does not trust.

mod answer;
mod assumptions;
mod circumstances;
mod conclude;
mod exit_code;
mod growth;
mod holding;
mod legend;
mod levels;
mod notes;
mod oom;
mod roles;
mod survival;
mod timeline;
mod unsupported;
mod verdict;

pub use circumstances::{Circumstances, EndedBy, Strictness};
pub use conclude::AnalysisError;
pub use verdict::{
    Answer, Assumption, Device, Estimate, ModuleShare, Oom, Peak, PhasePeak, Reason, ReasonKind,
    SCHEMA, Script, SiteShare, Unsupported, Verdict,
};
