//! The virtual GPU: a library that answers CUDA without a GPU, loaded before torch.
//!
//! PyTorch's own allocator, autograd and dispatcher run unchanged on it. Device memory is address space that is
//! accounted but never touched, kernels are not executed, and what the host reads is either known or reported as
//! assumed. The surface is the exported C functions with NVIDIA's names; a function that is not modelled answers
//! "not supported" and is named in the profile, never silent success.
//!
//! Reading order: [`session`] is the one virtual machine of the process, [`memory`] who holds what, [`contents`] which
//! bytes are known, [`kernels`] what a launch means, [`deferred`] what it will mean once its graph is launched,
//! [`allocator_events`] how PyTorch's allocator is heard, [`ranks`] what the processes of a run share, [`runtime`] and
//! [`driver`] the two CUDA interfaces, [`libraries`] the closed libraries above them.
//!
//! ```
//! // Without settings there is no device, and every call says so.
//! let mut count = 7;
//! let error = unsafe { oomproof_vgpu::cudaGetDeviceCount(&mut count) };
//! assert_eq!((error.0, count), (100, 0)); // cudaErrorNoDevice
//! ```
//!
//! **Invariant:** this crate knows nothing of Python, of verdicts or of the catalog; the settings say what the device
//! is, and the profile is all it leaves behind. All `unsafe` of the workspace is here.
#![allow(non_snake_case, reason = "exported functions bear the names of CUDA")]

mod session;

mod agent;
mod allocator_events;
mod arena;
mod clock;
mod contents;
mod deferred;
mod handles;
mod kernels;
mod ledger;
mod memory;
mod pools;
mod ranks;
mod recorder;
mod status;
mod unsupported;
mod visible;

mod driver;
mod libraries;
mod runtime;

pub use agent::*;
pub use allocator_events::*;
pub use driver::*;
pub use libraries::*;
pub use runtime::*;
pub use status::{CudaError, DriverError};
pub use unsupported::oomproof_unsupported;
