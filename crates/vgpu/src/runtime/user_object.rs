//! Objects of the program that graphs keep alive.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::current::{answer, current, output};
use super::graph::retain;
use crate::status::CudaError;

type Destructor = unsafe extern "C" fn(*mut c_void);

/// An object with what ends it, which is called when the last reference goes.
struct Owned {
    object: usize,
    destroy: Destructor,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the program's own object and function, called once.
        unsafe { (self.destroy)(self.object as *mut c_void) }
    }
}

/// One reference to an object.
#[derive(Clone)]
pub(crate) struct Retained(#[expect(dead_code, reason = "held, not read")] Arc<Owned>);

/// The references that the program holds itself.
struct UserObject {
    object: Arc<Owned>,
    count: u32,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaUserObjectCreate(
    handle: *mut u64,
    object: *mut c_void,
    destroy: Option<Destructor>,
    count: c_uint,
    _flags: c_uint,
) -> CudaError {
    answer(|| {
        let handle = output(handle)?;
        let made = current().and_then(|current| {
            let destroy = destroy.ok_or(CudaError::INVALID_VALUE)?;
            if count == 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            let object = Arc::new(Owned {
                object: object as usize,
                destroy,
            });
            Ok(current.session.handles().add(UserObject { object, count }))
        });
        handle.set(made.unwrap_or(0));
        made.map(drop)
    })
}

/// Takes `count` of the program's references; the object's last one ends it.
fn take(handle: u64, count: c_uint) -> Result<Arc<Owned>, CudaError> {
    let objects = current()?.session.handles::<UserObject>();
    let (object, is_last) = objects
        .with(handle, |user| {
            user.count = user.count.saturating_sub(count);
            (user.object.clone(), user.count == 0)
        })
        .ok_or(CudaError::INVALID_VALUE)?;
    if is_last {
        objects.remove(handle);
    }
    Ok(object)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaUserObjectRetain(handle: u64, count: c_uint) -> CudaError {
    answer(|| {
        let objects = current()?.session.handles::<UserObject>();
        objects
            .with(handle, |user| user.count = user.count.saturating_add(count))
            .ok_or(CudaError::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaUserObjectRelease(handle: u64, count: c_uint) -> CudaError {
    answer(|| take(handle, count).map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphRetainUserObject(
    graph: u64,
    handle: u64,
    count: c_uint,
    flags: c_uint,
) -> CudaError {
    /// `cudaGraphUserObjectMove`: the references are the caller's own.
    const MOVE: c_uint = 1;
    answer(|| {
        let session = current()?.session;
        let object = if flags & MOVE != 0 {
            take(handle, count)?
        } else {
            session
                .handles::<UserObject>()
                .with(handle, |user| user.object.clone())
                .ok_or(CudaError::INVALID_VALUE)?
        };
        retain(session, graph, Retained(object))
    })
}
