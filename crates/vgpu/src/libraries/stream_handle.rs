//! Libraries of which only the handle is modelled: it is made, works on a stream, and ends.

/// The status type of such a library, and the four functions of its handle.
macro_rules! stream_handle {
    ($status:ident: $create:ident, $destroy:ident, $set_stream:ident, $get_stream:ident) => {
        #[doc = concat!("Status codes of the library of `", stringify!($create), "`.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $status(pub i32);

        impl $status {
            /// Success.
            pub const SUCCESS: Self = Self(0);
            /// The handle does not exist.
            pub const NOT_INITIALIZED: Self = Self(1);
            /// A pointer is missing.
            pub const INVALID_VALUE: Self = Self(3);
        }

        /// State of one handle.
        struct Handle {
            stream: u64,
        }

        /// Makes a handle.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(handle: *mut u64) -> $status {
            let session = $crate::session::session();
            let new = session
                .filter(|_| !handle.is_null())
                .map_or(0, |session| session.handles().add(Handle { stream: 0 }));
            // SAFETY: the caller passes a place for a handle or null.
            unsafe { $crate::status::put(handle, new) };
            match session {
                None => $status::NOT_INITIALIZED,
                Some(_) if new == 0 => $status::INVALID_VALUE,
                Some(_) => $status::SUCCESS,
            }
        }

        /// Ends a handle.
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(handle: u64) -> $status {
            let session = $crate::session::session();
            match session.and_then(|session| session.handles::<Handle>().remove(handle)) {
                Some(_) => $status::SUCCESS,
                None => $status::NOT_INITIALIZED,
            }
        }

        /// Chooses the stream.
        #[unsafe(no_mangle)]
        pub extern "C" fn $set_stream(handle: u64, stream: u64) -> $status {
            let change = |handle: &mut Handle| handle.stream = stream;
            let session = $crate::session::session();
            match session.and_then(|session| session.handles().with(handle, change)) {
                Some(()) => $status::SUCCESS,
                None => $status::NOT_INITIALIZED,
            }
        }

        /// The stream of a handle.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_stream(handle: u64, stream: *mut u64) -> $status {
            let look = |handle: &mut Handle| handle.stream;
            let session = $crate::session::session();
            let kept = session.and_then(|session| session.handles().with(handle, look));
            // SAFETY: the caller passes a place for a stream or null.
            unsafe { $crate::status::put(stream, kept.unwrap_or(0)) };
            match kept {
                None => $status::NOT_INITIALIZED,
                Some(_) if stream.is_null() => $status::INVALID_VALUE,
                Some(_) => $status::SUCCESS,
            }
        }
    };
}

pub(super) use stream_handle;
