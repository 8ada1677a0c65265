//! The closed libraries above CUDA, as far as PyTorch's memory and control flow depend on them.
//!
//! None of them computes. A call is checked as the real library checks it, every output argument is written on every
//! path, and device memory that the call would have written is no longer known. Functions that are missing here are
//! answered "not supported" by the stand-ins, which name them; a call that succeeds here is one whose effect on
//! memory is known. Handles and device addresses are numbers that nobody follows, so they are `u64` as in the ABI.

mod cublas;
mod cublaslt;
mod cudnn;
mod cufft;
mod cupti;
mod cusolver;
mod cusparse;
mod cusparselt;
mod estimate;
mod nccl;
mod nvjpeg;
mod nvml;
mod nvrtc;
mod pointers;
mod product;
mod stream_handle;
#[cfg(test)]
pub(crate) mod testing;

pub use cublas::*;
pub use cublaslt::*;
pub use cudnn::*;
pub use cufft::*;
pub use cupti::*;
pub use cusolver::*;
pub use cusparse::*;
pub use cusparselt::*;
pub use nccl::*;
pub use nvjpeg::*;
pub use nvml::*;
pub use nvrtc::*;
