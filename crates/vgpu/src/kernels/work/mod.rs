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

/// Carries out a kernel, unless something it needs is not known; says whether it did.
pub(super) fn carry_out(work: &Work, launch: &Launch, memory: &mut Memory, origin: u32) -> bool {
    let mut access = Access::new(memory);
    if work(launch, &mut access).is_none() {
        return false;
    }
    let written = access.finish();
    for (address, bytes) in written.writes {
        let assumption = written.assumption;
        super::finish(memory, address, Some(Known { bytes, assumption }), origin);
    }
    true
}
