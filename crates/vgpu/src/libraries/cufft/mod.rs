//! cuFFT: plans, whose work area is an estimate, and transforms that are not carried out.

mod plan;

pub use plan::*;
