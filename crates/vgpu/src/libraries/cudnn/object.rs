//! Objects that the caller makes, changes, asks and ends by handle.

use super::CudnnStatus;
use crate::session::session;
use crate::status::put;

/// Makes an object; `out` is null or a place for its handle, which is 0 on failure.
///
/// # Safety
/// `out` must be null or valid for writing.
pub(super) unsafe fn create<T: Send + 'static>(
    out: *mut u64,
    new: impl FnOnce() -> T,
) -> CudnnStatus {
    let session = session();
    let handle = session
        .filter(|_| !out.is_null())
        .map_or(0, |session| session.handles().add(new()));
    // SAFETY: promised by the caller.
    unsafe { put(out, handle) };
    match session {
        None => CudnnStatus::NOT_INITIALIZED,
        Some(_) if handle == 0 => CudnnStatus::NULL_POINTER,
        Some(_) => CudnnStatus::SUCCESS,
    }
}

/// Ends an object; ending none is allowed, as `free(NULL)` is.
pub(super) fn destroy<T: Send + 'static>(handle: u64) -> CudnnStatus {
    if handle == 0 {
        return CudnnStatus::SUCCESS;
    }
    look_table::<T, _>(|table| table.remove(handle).map(|_| ()))
        .map_or_else(|error| error, |()| CudnnStatus::SUCCESS)
}

fn look_table<T: Send + 'static, R>(
    look: impl FnOnce(&'static crate::handles::Handles<T>) -> Option<R>,
) -> Result<R, CudnnStatus> {
    let session = session().ok_or(CudnnStatus::NOT_INITIALIZED)?;
    look(session.handles::<T>()).ok_or(CudnnStatus::BAD_PARAM)
}

/// Looks at an object.
pub(super) fn look<T: Send + 'static, R>(
    handle: u64,
    look: impl FnOnce(&mut T) -> R,
) -> Result<R, CudnnStatus> {
    look_table::<T, R>(|table| table.with(handle, look))
}

/// Changes an object.
pub(super) fn change<T: Send + 'static>(handle: u64, change: impl FnOnce(&mut T)) -> CudnnStatus {
    look(handle, change).map_or_else(|error| error, |()| CudnnStatus::SUCCESS)
}

/// The functions that make and end objects of a type.
macro_rules! object {
    ($type:ident, $create:ident, $destroy:ident) => {
        #[doc = concat!("Makes a ", stringify!($type), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(out: *mut u64) -> super::CudnnStatus {
            // SAFETY: the caller passes a place for a handle or null.
            unsafe { super::object::create(out, <$type>::default) }
        }

        #[doc = concat!("Ends a ", stringify!($type), ".")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(object: u64) -> super::CudnnStatus {
            super::object::destroy::<$type>(object)
        }
    };
}

/// A copy of `count` C integers; `None` when there are none to copy.
///
/// # Safety
/// `from` must be null or valid for reading `count` integers.
pub(super) unsafe fn integers(from: *const i32, count: i32) -> Option<Vec<i32>> {
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= 8 && !from.is_null())?;
    // SAFETY: not null; the caller promises the length.
    Some(
        (0..count)
            .map(|index| unsafe { from.add(index).read_unaligned() })
            .collect(),
    )
}

/// Writes `room` C integers: `values`, then zeros.
///
/// # Safety
/// `to` must be null or valid for writing `room` integers.
pub(super) unsafe fn put_integers(to: *mut i32, room: i32, values: &[i32]) {
    for index in 0..usize::try_from(room).unwrap_or(0) {
        if !to.is_null() {
            // SAFETY: not null; the caller promises the length.
            unsafe { put(to.add(index), values.get(index).copied().unwrap_or(0)) };
        }
    }
}
