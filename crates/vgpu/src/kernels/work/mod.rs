//! Kernels that are really carried out, when all they read is known and small: what scripts branch on or size tensors
//! by is then right.
//!
//! A kernel is recognized by its C++ name, which tells the types of its arguments; each file knows one family. A
//! family computes what the kernel is specified to compute, not how it does it: a sort in eight passes is done as eight
//! stable sorts by digit, but blocks, tiles and shared memory do not exist here. Where a name or a layout is not
//! known for certain, the kernel is not carried out, and what it writes is unknown: a wrong value is worse than none.

mod access;
mod argument;
mod arguments_of;
mod arrange;
mod count;
mod cub;
mod elementwise;
mod index;
mod iterator;
mod lists;
mod offsets;
mod philox;
mod random;
mod reduction;
mod slices;
mod softmax;
mod sort;
mod swamped;

use super::signature::Signature;
use crate::contents::Known;
use crate::memory::Memory;

pub(crate) use access::Access;
pub(crate) use argument::Launch;

/// What a kernel does; `None` when something that it needs is not known.
pub(crate) type Work = Box<dyn Fn(&Launch, &mut Access) -> Option<()> + Send + Sync>;

/// The families, each of which knows its kernels.
const FAMILIES: [fn(&Signature) -> Option<Work>; 12] = [
    elementwise::recognize,
    elementwise::recognize_indexed,
    reduction::recognize,
    index::recognize,
    arrange::recognize,
    count::recognize,
    cub::recognize,
    sort::recognize,
    slices::recognize,
    softmax::recognize,
    lists::recognize,
    random::recognize,
];

/// What the kernel does, if it can be carried out.
pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    FAMILIES.iter().find_map(|family| family(signature))
}

/// What became of a kernel's output.
pub(super) enum Outcome {
    /// Something that the kernel needs is not known.
    Unknown,
    /// Only this has a value, by its address.
    Partial(Vec<(u64, Known)>),
    Done,
}

/// Carries out a kernel as far as what it needs is known.
pub(super) fn carry_out(work: &Work, launch: &Launch, memory: &mut Memory, origin: u32) -> Outcome {
    let mut access = Access::new(memory);
    if work(launch, &mut access).is_none() {
        return Outcome::Unknown;
    }
    let written = access.finish();
    let assumption = written.assumption;
    let known = |(address, bytes)| (address, Known { bytes, assumption });
    let writes = written.writes.into_iter().map(known);
    if written.is_partial {
        return Outcome::Partial(writes.collect());
    }
    for (address, known) in writes {
        super::finish(memory, address, Some(known), origin);
    }
    Outcome::Done
}
