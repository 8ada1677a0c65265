//! Functions that are not modelled: each says "not supported", and the profile names it.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::Ordering;

use oomproof_profile::Record;
use oomproof_profile::layout::counter;

use crate::session::session;

/// Records that `function` of `library` was called though it is not modelled.
pub(crate) fn unsupported(function: &str, library: &str) {
    let Some(session) = session() else { return };
    session
        .header
        .counter(counter::UNSUPPORTED)
        .fetch_add(1, Ordering::Relaxed);
    let [site, ..] = session.header.state();
    let (function, library) = (session.text(function), session.text(library));
    session.record(&Record::Unsupported {
        nanos: session.nanos(),
        function,
        library,
        site,
    });
}

/// What every function of a stand-in library calls: records the call and returns `code`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_unsupported(
    function: *const c_char,
    library: *const c_char,
    code: c_int,
) -> c_int {
    if !function.is_null() && !library.is_null() {
        // SAFETY: the stand-ins pass C strings that lie in their own image.
        let (function, library) = unsafe { (CStr::from_ptr(function), CStr::from_ptr(library)) };
        unsupported(&function.to_string_lossy(), &library.to_string_lossy());
    }
    code
}
