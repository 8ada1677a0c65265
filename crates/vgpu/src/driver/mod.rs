//! The CUDA driver: one file per kind of object, functions under their own names.

mod answer;

mod context;
mod device;
mod entry;
mod event;
mod graph;
mod ipc;
mod memory;
mod module;
mod pool;
mod stream;
mod virtual_memory;

pub(crate) use entry::calling_library;

pub use context::*;
pub use device::*;
pub use entry::*;
pub use event::*;
pub use graph::*;
pub use ipc::*;
pub use memory::*;
pub use module::*;
pub use pool::*;
pub use stream::*;
pub use virtual_memory::*;
