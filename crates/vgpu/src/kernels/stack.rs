//! How far the memory of the calling thread's stack reaches, so that an argument whose length is not known for certain
//! can be looked at without leaving it.

use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    /// First and last address, once asked for; both zero when the system does not tell.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

fn bounds() -> (usize, usize) {
    if let Some(bounds) = STACK.get() {
        return bounds;
    }
    let mut bounds = (0, 0);
    // SAFETY: the attributes are initialized by the first call, read by the second, and given back by the third.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) == 0 {
            let (mut start, mut len) = (std::ptr::null_mut(), 0);
            if libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut len) == 0
            {
                bounds = (start as usize, start as usize + len);
            }
            libc::pthread_attr_destroy(&raw mut attributes);
        }
    }
    STACK.set(Some(bounds));
    bounds
}

/// Bytes from `at` to the end of this thread's stack; 0 when it is not on the stack.
pub(crate) fn reach(at: *const c_void) -> usize {
    let (start, end) = bounds();
    if (start..end).contains(&(at as usize)) {
        end - at as usize
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_reaches_to_its_end_and_nothing_else_is_on_it() {
        let local = 0u64;
        let reach_of_local = reach((&raw const local).cast());
        assert!(reach_of_local >= 8);
        // SAFETY: inside of the stack, as was just said.
        let last = unsafe { (&raw const local).cast::<u8>().add(reach_of_local - 1) };
        assert_eq!(reach(last.cast()), 1);
        let boxed = Box::new(0u64);
        assert_eq!(reach((&raw const *boxed).cast()), 0);
    }
}
