//! cuBLASLt: descriptors that keep what is set, one algorithm for every product, and products that are not computed.

mod algorithm;
mod attributes;
mod handle;
mod matmul;

pub use algorithm::*;
pub use attributes::*;
pub use handle::*;
pub use matmul::*;
