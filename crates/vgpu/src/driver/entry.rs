//! Functions by name: `cuGetProcAddress` and the runtime's entry points.
//!
//! A name stands for the newest variant of a function up to the CUDA version that the caller was built for. What this
//! library lacks is found in the stand-in libraries behind it, whose functions say "not supported" when called.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use super::answer::{answer, started};
use crate::status::{CudaError, DriverError, put};

/// Variants by base name: the CUDA version that made a suffix the meaning of the plain name. Everything older than
/// CUDA 12 is taken as given; a function that is not listed has `_v2` as its only other variant, or none.
const VARIANTS: &[(&str, u32, &str)] = &[
    (
        "cuStreamGetCaptureInfo",
        12_030,
        "cuStreamGetCaptureInfo_v3",
    ),
    (
        "cuStreamGetCaptureInfo",
        11_030,
        "cuStreamGetCaptureInfo_v2",
    ),
    ("cuGetProcAddress", 12_000, "cuGetProcAddress_v2"),
    ("cuDeviceGetUuid", 11_040, "cuDeviceGetUuid_v2"),
    ("cuEventElapsedTime", 12_080, "cuEventElapsedTime_v2"),
    ("cuMemPrefetchAsync", 12_020, "cuMemPrefetchAsync_v2"),
    ("cuMemAdvise", 12_020, "cuMemAdvise_v2"),
    ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags"),
];

fn find(symbol: &str) -> Option<*mut c_void> {
    let symbol = CString::new(symbol).ok()?;
    // SAFETY: a search by name in what is loaded.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The function that `name` means for a program of CUDA `version`.
fn entry_point(name: &str, version: u32) -> Option<*mut c_void> {
    if !name.starts_with("cu") {
        return None;
    }
    let versioned = VARIANTS
        .iter()
        .find(|(base, since, _)| *base == name && *since <= version);
    versioned
        .and_then(|(_, _, symbol)| find(symbol))
        .or_else(|| {
            find(&format!("{name}_v2")).filter(|_| !VARIANTS.iter().any(|(base, ..)| *base == name))
        })
        .or_else(|| find(name))
}

/// `found` is what `CUdriverProcAddressQueryResult` and its twin of the runtime call success; 1 is "not found".
///
/// # Safety
/// `name` must be null or a C string, the others null or valid.
unsafe fn look_up(
    name: *const c_char,
    address: *mut *mut c_void,
    version: u32,
    result: *mut c_int,
) -> Result<(), DriverError> {
    let function = if name.is_null() {
        None
    } else {
        // SAFETY: promised by the caller.
        entry_point(&unsafe { CStr::from_ptr(name) }.to_string_lossy(), version)
    };
    // SAFETY: promised by the caller.
    unsafe {
        put(address, function.unwrap_or(std::ptr::null_mut()));
        put(result, c_int::from(function.is_none()));
    }
    started()?;
    if name.is_null() || address.is_null() {
        return Err(DriverError::INVALID_VALUE);
    }
    function.map(drop).ok_or(DriverError::NOT_FOUND)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    address: *mut *mut c_void,
    version: c_int,
    _flags: u64,
    result: *mut c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    answer(|| unsafe { look_up(name, address, version as u32, result) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    address: *mut *mut c_void,
    version: c_int,
    _flags: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    answer(|| unsafe { look_up(name, address, version as u32, std::ptr::null_mut()) })
}

/// The runtime reports a name that is not found in the result, not as an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDriverEntryPointByVersion(
    name: *const c_char,
    address: *mut *mut c_void,
    version: c_uint,
    _flags: u64,
    result: *mut c_int,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    match unsafe { look_up(name, address, version, result) } {
        Ok(()) => CudaError::SUCCESS,
        Err(DriverError::NOT_FOUND) if !result.is_null() => CudaError::SUCCESS,
        Err(error) => CudaError::from(error).remember(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    address: *mut *mut c_void,
    flags: u64,
    result: *mut c_int,
) -> CudaError {
    let version = crate::session::session().map_or(0, |session| session.settings.cuda_version);
    // SAFETY: as for the CUDA function.
    unsafe { cudaGetDriverEntryPointByVersion(name, address, version, flags, result) }
}

/// Private tables of the driver are not imitated. Only a CUDA runtime that is linked statically into a library asks for
/// them; it can not work without, so the library is named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(
    table: *mut *const c_void,
    _id: *const c_void,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { put(table, std::ptr::null()) };
    if let (Some(session), Some(library)) = (crate::session::session(), calling_library()) {
        session.note_once(
            &serde_json::json!({ "kind": "foreign_runtime", "library": library }).to_string(),
        );
    }
    DriverError::NOT_FOUND
}

/// The file of the innermost library on this thread's stack that is not this one.
pub(crate) fn calling_library() -> Option<String> {
    let file_of = |address: *mut c_void| {
        // SAFETY: `dladdr` only looks the address up, and fills the struct when it returns other than 0.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            let known = libc::dladdr(address, &raw mut found) != 0 && !found.dli_fname.is_null();
            known.then(|| {
                CStr::from_ptr(found.dli_fname)
                    .to_string_lossy()
                    .into_owned()
            })
        }
    };
    let own = file_of(calling_library as *mut c_void)?;
    let mut stack = [std::ptr::null_mut(); 16];
    // SAFETY: the array has room for the frames asked for.
    let n_frames = unsafe { libc::backtrace(stack.as_mut_ptr(), stack.len() as c_int) };
    stack[..n_frames.max(0) as usize]
        .iter()
        .filter_map(|address| file_of(*address))
        .find(|file| *file != own)
}
