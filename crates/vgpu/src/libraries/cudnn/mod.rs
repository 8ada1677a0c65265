//! cuDNN: descriptors that keep what is set, graphs that are all supported by one engine, and operations that are not
//! carried out.
//!
//! Memory depends on three things only: the scratch sizes that cuDNN asks for, which are estimates and each in one
//! named function with its reason; the layout of recurrent weights, which is exact; and which memory an operation
//! would have written.

#[macro_use]
mod object;
#[macro_use]
mod operation;

mod backend;
mod batch_norm;
mod convolution;
mod ctc_loss;
mod dropout;
mod engines;
mod execute;
mod handle;
mod pooling;
mod rnn;
mod rnn_layout;
mod spatial_transformer;
mod status;
mod tensor;
mod workspace;

pub use backend::*;
pub use batch_norm::*;
pub use convolution::*;
pub use ctc_loss::*;
pub use dropout::*;
pub use execute::*;
pub use handle::*;
pub use pooling::*;
pub use rnn::*;
pub use spatial_transformer::*;
pub use status::*;
pub use tensor::*;
