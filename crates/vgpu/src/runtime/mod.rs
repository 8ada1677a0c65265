//! The CUDA runtime: one file per kind of object, functions under their own names.

mod capture;
mod current;
mod graph;

mod copy;
mod device;
mod error;
mod event;
mod graph_calls;
mod host;
mod ipc;
mod launch;
mod library;
mod managed;
mod memory;
mod peer;
mod pool;
mod properties;
mod stream;
mod stream_capture;
mod user_object;

pub use copy::*;
pub use device::*;
pub use error::*;
pub use event::*;
pub use graph_calls::*;
pub use host::*;
pub use ipc::*;
pub use launch::*;
pub use library::*;
pub use managed::*;
pub use memory::*;
pub use peer::*;
pub use pool::*;
pub use stream::*;
pub use stream_capture::*;
pub use user_object::*;

pub(crate) use capture::{submit, submit_to_all};
pub(crate) use copy::{Direction, copy_bytes, copy_bytes_on, set_bytes_on};
pub(crate) use current::{Current, current, set_current, with_device};
pub(crate) use host::{allocate_host, free_host, register_host, unregister_host};
pub(crate) use launch::{REGISTERS, blocks_per_multiprocessor};
pub(crate) use memory::{allocate, pointer_kind, release};
pub(crate) use properties::{attribute, binary_version};
pub(crate) use stream::is_stream;
