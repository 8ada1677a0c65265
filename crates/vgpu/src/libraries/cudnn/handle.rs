//! A cuDNN handle and the version of the library.

use super::CudnnStatus;
use crate::clock::{Cost, Timing};
use crate::session::{Session, session};
use crate::status::put;

/// State of one handle.
struct Handle {
    stream: u64,
}

/// The session, if `handle` is a cuDNN handle.
pub(super) fn session_of(handle: u64) -> Result<&'static Session, CudnnStatus> {
    let session = session().ok_or(CudnnStatus::NOT_INITIALIZED)?;
    if session.handles::<Handle>().has(handle) {
        Ok(session)
    } else {
        Err(CudnnStatus::BAD_PARAM)
    }
}

/// The session of a handle, and what is known of the time of work of this cost on it.
pub(super) fn timing_of(
    handle: u64,
    cost: Option<Cost>,
) -> Result<(&'static Session, Timing), CudnnStatus> {
    let session = session().ok_or(CudnnStatus::NOT_INITIALIZED)?;
    let stream = super::object::look::<Handle, _>(handle, |handle| handle.stream);
    let stream = Some(stream.map_err(|_| CudnnStatus::BAD_PARAM)?);
    Ok((session, Timing { stream, cost }))
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreate(handle: *mut u64) -> CudnnStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { super::object::create(handle, || Handle { stream: 0 }) }
}

/// Ends a handle.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroy(handle: u64) -> CudnnStatus {
    super::object::destroy::<Handle>(handle)
}

/// Chooses the stream.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetStream(handle: u64, stream: u64) -> CudnnStatus {
    super::object::change::<Handle>(handle, |handle| handle.stream = stream)
}

/// The stream of a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetStream(handle: u64, stream: *mut u64) -> CudnnStatus {
    let kept = super::object::look::<Handle, _>(handle, |handle| handle.stream);
    // SAFETY: the caller passes a place for a stream or null.
    unsafe { put(stream, kept.unwrap_or(0)) };
    match kept {
        Ok(_) if stream.is_null() => CudnnStatus::NULL_POINTER,
        Ok(_) => CudnnStatus::SUCCESS,
        Err(error) => error,
    }
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    session().map_or(0, |session| session.settings.cudnn_version as usize)
}

/// The version of the CUDA runtime that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    session().map_or(0, |session| session.settings.cuda_version as usize)
}

/// A version number in its parts; before 9 the major number was followed by three digits.
fn parts(version: u32) -> [i32; 3] {
    let thousands = if version >= 90_000 { 10_000 } else { 1000 };
    [
        version / thousands,
        version % thousands / 100,
        version % 100,
    ]
    .map(|part| part as i32)
}

/// A part of the version: 0 major, 1 minor, 2 patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetProperty(kind: i32, value: *mut i32) -> CudnnStatus {
    let version = session().map(|session| parts(session.settings.cudnn_version));
    let part = version.and_then(|parts| parts.get(usize::try_from(kind).ok()?).copied());
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(value, part.unwrap_or(0)) };
    match part {
        _ if version.is_none() => CudnnStatus::NOT_INITIALIZED,
        Some(_) if value.is_null() => CudnnStatus::NULL_POINTER,
        Some(_) => CudnnStatus::SUCCESS,
        None => CudnnStatus::BAD_PARAM,
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn versions_are_read_as_cudnn_writes_them() {
        assert_eq!(parts(92_600), [9, 26, 0]);
        assert_eq!(parts(91_002), [9, 10, 2]);
        assert_eq!(parts(8907), [8, 9, 7]);
    }
}
