//! NCCL: communicators and collectives between the ranks of a run.
//!
//! Scripts decide on what they exchange: sizes of objects, checks that all have the same model, metadata of pipelines.
//! So small messages really travel, with what is known of their bytes, and the arithmetic on known ones is done. Large
//! ones do not, and what they would have brought is unknown. A call returns when its result is there, which is earlier
//! than a stream would have it and never later than a program may rely on.

mod buffers;
mod collectives;
mod communicator;
mod exchange;
mod group;
mod number;
mod parcel;
mod registration;
mod status;

use std::ffi::c_int;

use crate::session::session;
use crate::status::put;

pub use collectives::*;
pub use communicator::*;
pub use group::*;
pub use registration::*;
pub use status::*;

/// The version of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> NcclResult {
    let known = session().map(|session| session.settings.nccl_version);
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(version, known.unwrap_or(0).cast_signed()) };
    match known {
        None => NcclResult::INTERNAL_ERROR,
        Some(_) if version.is_null() => NcclResult::INVALID_ARGUMENT,
        Some(_) => NcclResult::SUCCESS,
    }
}

#[cfg(test)]
mod tests;
