//! cuBLAS: nothing is multiplied, so all that matters is which handle is valid, which memory a call would have
//! written, and which memory it was given as scratch.
//!
//! The functions that compute are tables of signatures; the rest is the state of a handle. What is exported here and
//! missing from the tables (rotations set up on the host, grouped products, logging) is left to the stand-ins.

#[macro_use]
mod launch;

mod batched;
mod handle;
mod matrix_matrix;
mod matrix_vector;
mod reductions;
mod status;
mod transfers;

mod vectors;

pub use batched::*;
pub use handle::*;
pub(super) use handle::{is_cublas_handle, version, version_number};
pub use matrix_matrix::*;
pub use matrix_vector::*;
pub use reductions::*;
pub use status::*;
pub use transfers::*;

pub use vectors::*;
