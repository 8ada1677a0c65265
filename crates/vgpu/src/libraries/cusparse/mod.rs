//! cuSPARSE: products, sums and solutions of sparse matrices, which are not carried out, and the structure of small
//! ones, which is.
//!
//! How much memory a sparse result takes is decided on the device: by the row numbers of one matrix and the row lengths
//! of the other. Where these are known the count is computed; where they are not, a count is assumed and said.

mod description;
mod generic;
mod handle;
mod older;
mod product;
mod scratch;
mod structure;

pub use description::*;
pub use generic::*;
pub use handle::*;
pub use older::*;
pub use product::*;
pub use structure::*;
