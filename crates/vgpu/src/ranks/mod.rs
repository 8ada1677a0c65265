//! What the processes of one run share: who they are, what each holds of each device, and small messages.
//!
//! Ranks are processes that may die at any moment, also while they write, so nothing here is ever locked: figures are
//! atomics in a mapped page that each process alone writes to its own part of, and a message is a file that appears
//! whole or not at all.

mod board;
mod liveness;
mod mailbox;

pub(crate) use board::{Board, MAX_DEVICES};
pub(crate) use liveness::Process;
pub(crate) use mailbox::{Mailbox, Missing};
