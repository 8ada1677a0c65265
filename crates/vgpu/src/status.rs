//! Status codes of the CUDA runtime and driver, their names and texts, and the error a thread remembers.

use std::cell::Cell;
use std::ffi::CStr;

/// `cudaError_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct CudaError(pub i32);

/// `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct DriverError(pub i32);

macro_rules! statuses {
    ($($constant:ident = $code:literal, $runtime:literal, $driver:literal, $text:literal;)+) => {
        impl CudaError {
            $(#[doc = $text] pub const $constant: Self = Self($code);)+

            /// The name of the code in the runtime.
            pub(crate) fn name(self) -> &'static CStr {
                match self.0 { $($code => $runtime,)+ _ => c"cudaErrorUnknown" }
            }

            /// What the code means.
            pub(crate) fn text(self) -> &'static CStr {
                match self.0 {
                    $($code => { const TEXT: &CStr = c_text($text); TEXT })+
                    _ => c"unrecognized error code",
                }
            }
        }

        impl DriverError {
            $(#[doc = $text] pub const $constant: Self = Self($code);)+

            /// The name of the code in the driver; `None` for one that does not exist.
            pub(crate) fn name(self) -> Option<&'static CStr> {
                match self.0 { $($code => Some($driver),)+ _ => None }
            }
        }
    };
}

/// The C string in a text that ends with a NUL.
const fn c_text(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("every text in the table ends with its only NUL"),
    }
}

statuses! {
    SUCCESS = 0, c"cudaSuccess", c"CUDA_SUCCESS", "no error\0";
    INVALID_VALUE = 1, c"cudaErrorInvalidValue", c"CUDA_ERROR_INVALID_VALUE", "invalid argument\0";
    OUT_OF_MEMORY = 2, c"cudaErrorMemoryAllocation", c"CUDA_ERROR_OUT_OF_MEMORY", "out of memory\0";
    NOT_INITIALIZED = 3, c"cudaErrorInitializationError", c"CUDA_ERROR_NOT_INITIALIZED", "initialization error\0";
    INVALID_SYMBOL = 13, c"cudaErrorInvalidSymbol", c"CUDA_ERROR_INVALID_SYMBOL", "invalid device symbol\0";
    INVALID_MEMCPY_DIRECTION = 21, c"cudaErrorInvalidMemcpyDirection", c"CUDA_ERROR_INVALID_VALUE", "invalid copy direction for memcpy\0";
    INVALID_DEVICE_FUNCTION = 98, c"cudaErrorInvalidDeviceFunction", c"CUDA_ERROR_INVALID_SOURCE", "invalid device function\0";
    NO_DEVICE = 100, c"cudaErrorNoDevice", c"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected\0";
    INVALID_DEVICE = 101, c"cudaErrorInvalidDevice", c"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal\0";
    INVALID_CONTEXT = 201, c"cudaErrorDeviceUninitialized", c"CUDA_ERROR_INVALID_CONTEXT", "invalid device context\0";
    INVALID_HANDLE = 400, c"cudaErrorInvalidResourceHandle", c"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle\0";
    PEER_ACCESS_UNSUPPORTED = 217, c"cudaErrorPeerAccessUnsupported", c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices\0";
    ILLEGAL_STATE = 401, c"cudaErrorIllegalState", c"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state\0";
    NOT_FOUND = 500, c"cudaErrorSymbolNotFound", c"CUDA_ERROR_NOT_FOUND", "named symbol not found\0";
    NOT_READY = 600, c"cudaErrorNotReady", c"CUDA_ERROR_NOT_READY", "device not ready\0";
    PEER_ACCESS_ALREADY_ENABLED = 704, c"cudaErrorPeerAccessAlreadyEnabled", c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled\0";
    PEER_ACCESS_NOT_ENABLED = 705, c"cudaErrorPeerAccessNotEnabled", c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled\0";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"cudaErrorHostMemoryAlreadyRegistered", c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped\0";
    HOST_MEMORY_NOT_REGISTERED = 713, c"cudaErrorHostMemoryNotRegistered", c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region\0";
    NOT_SUPPORTED = 801, c"cudaErrorNotSupported", c"CUDA_ERROR_NOT_SUPPORTED", "operation not supported\0";
    CAPTURE_UNSUPPORTED = 900, c"cudaErrorStreamCaptureUnsupported", c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing\0";
    CAPTURE_INVALIDATED = 901, c"cudaErrorStreamCaptureInvalidated", c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture\0";
    CAPTURE_MERGE = 902, c"cudaErrorStreamCaptureMerge", c"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences\0";
    CAPTURE_UNMATCHED = 903, c"cudaErrorStreamCaptureUnmatched", c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began\0";
    CAPTURE_UNJOINED = 904, c"cudaErrorStreamCaptureUnjoined", c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work\0";
    CAPTURE_ISOLATION = 905, c"cudaErrorStreamCaptureIsolation", c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream\0";
    CAPTURE_IMPLICIT = 906, c"cudaErrorStreamCaptureImplicit", c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream\0";
    CAPTURED_EVENT = 907, c"cudaErrorCapturedEvent", c"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream\0";
    CAPTURE_WRONG_THREAD = 908, c"cudaErrorStreamCaptureWrongThread", c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread\0";
    GRAPH_EXEC_UPDATE_FAILURE = 910, c"cudaErrorGraphExecUpdateFailure", c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update\0";
    UNKNOWN = 999, c"cudaErrorUnknown", c"CUDA_ERROR_UNKNOWN", "unknown error\0";
}

thread_local! {
    static LAST: Cell<CudaError> = const { Cell::new(CudaError::SUCCESS) };
}

impl CudaError {
    /// Remembers an error for `cudaGetLastError`, as every failing runtime call does.
    #[must_use]
    pub(crate) fn remember(self) -> Self {
        if self != Self::SUCCESS {
            LAST.set(self);
        }
        self
    }

    /// The remembered error.
    pub(crate) fn last() -> Self {
        LAST.get()
    }

    /// The remembered error, which is then forgotten.
    pub(crate) fn take_last() -> Self {
        LAST.replace(Self::SUCCESS)
    }
}

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        Self(error.0)
    }
}

/// Writes an output argument that the caller may have left null.
///
/// # Safety
/// `out` must be null or valid for writing a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: promised by the caller.
        unsafe { out.write_unaligned(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_cuda() {
        assert_eq!(CudaError::OUT_OF_MEMORY.text(), c"out of memory");
        assert_eq!(
            CudaError::OUT_OF_MEMORY.name(),
            c"cudaErrorMemoryAllocation"
        );
        assert_eq!(CudaError(12345).text(), c"unrecognized error code");
        assert_eq!(DriverError::NO_DEVICE.name(), Some(c"CUDA_ERROR_NO_DEVICE"));
        assert_eq!(DriverError(12345).name(), None);
    }

    #[test]
    fn a_thread_remembers_its_last_error_once() {
        let _ = CudaError::INVALID_VALUE.remember();
        let _ = CudaError::SUCCESS.remember();
        assert_eq!(CudaError::last(), CudaError::INVALID_VALUE);
        assert_eq!(CudaError::take_last(), CudaError::INVALID_VALUE);
        assert_eq!(CudaError::take_last(), CudaError::SUCCESS);
    }
}
