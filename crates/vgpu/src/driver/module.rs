//! Modules, functions and their launches: what Triton and NVRTC programs use. Images are not looked into; a function
//! is its name.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use super::answer::{answer, current, give};
use crate::clock;
use crate::kernels::{launched, register};
use crate::memory::Kind;
use crate::runtime::{
    Current, REGISTERS, binary_version, blocks_per_multiprocessor, is_stream, submit,
};
use crate::status::{DriverError, put};

/// A module or library; its functions and variables by name.
#[derive(Default)]
struct Module {
    functions: HashMap<CString, u64>,
    globals: HashMap<CString, u64>,
}

/// A function of a module.
struct Function {
    module: u64,
    max_dynamic_shared: c_int,
}

fn load(module: *mut u64, image: *const c_void) -> DriverError {
    let loaded = current().and_then(
        |Current {
             session, machine, ..
         }| {
            if image.is_null() {
                return Err(DriverError::INVALID_VALUE);
            }
            session.ensure_context(machine);
            Ok(session.handles::<Module>().add(Module::default()))
        },
    );
    // SAFETY: `module` is an output argument of a CUDA call.
    unsafe { give(module, loaded) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: *mut u64, path: *const c_char) -> DriverError {
    load(module, path.cast())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> DriverError {
    load(module, image)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut u64,
    image: *const c_void,
    _n_options: c_uint,
    _options: *const c_int,
    _values: *const *mut c_void,
) -> DriverError {
    load(module, image)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadFatBinary(
    module: *mut u64,
    image: *const c_void,
) -> DriverError {
    load(module, image)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: u64) -> DriverError {
    answer(|| {
        current()?
            .session
            .handles::<Module>()
            .remove(module)
            .map(drop)
            .ok_or(DriverError::INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadData(
    library: *mut u64,
    code: *const c_void,
    _jit_options: *const c_int,
    _jit_values: *const *mut c_void,
    _n_jit: c_uint,
    _options: *const c_int,
    _values: *const *mut c_void,
    _n_options: c_uint,
) -> DriverError {
    load(library, code)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLibraryUnload(library: u64) -> DriverError {
    cuModuleUnload(library)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetModule(module: *mut u64, library: u64) -> DriverError {
    let found = current().and_then(|current| {
        if current.session.handles::<Module>().has(library) {
            Ok(library)
        } else {
            Err(DriverError::INVALID_HANDLE)
        }
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(module, found) }
}

/// Names live as long as the process, because kernels are known by them after their module is gone.
fn lasting(name: &CStr) -> &'static CStr {
    static NAMES: Mutex<Option<HashMap<CString, &'static CStr>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names
        .get_or_insert_default()
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(name.to_owned().into_boxed_c_str()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut u64,
    module: u64,
    name: *const c_char,
) -> DriverError {
    let found = current().and_then(|Current { session, .. }| {
        if name.is_null() {
            return Err(DriverError::INVALID_VALUE);
        }
        // SAFETY: the caller passes a C string.
        let name = lasting(unsafe { CStr::from_ptr(name) });
        session
            .handles::<Module>()
            .with(module, |loaded| {
                *loaded.functions.entry(name.to_owned()).or_insert_with(|| {
                    let new = session.handles::<Function>().add(Function {
                        module,
                        max_dynamic_shared: 49_152,
                    });
                    register(new as usize, name);
                    new
                })
            })
            .ok_or(DriverError::INVALID_HANDLE)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(function, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernel(
    kernel: *mut u64,
    library: u64,
    name: *const c_char,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { cuModuleGetFunction(kernel, library, name) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetFunction(function: *mut u64, kernel: u64) -> DriverError {
    let found = current().and_then(|current| {
        if current.session.handles::<Function>().has(kernel) {
            Ok(kernel)
        } else {
            Err(DriverError::INVALID_HANDLE)
        }
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(function, found) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetModule(module: *mut u64, function: u64) -> DriverError {
    let found = current().and_then(|current| {
        current
            .session
            .handles::<Function>()
            .with(function, |f| f.module)
            .ok_or(DriverError::INVALID_HANDLE)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(module, found) }
}

/// A variable of a module: its size is not known, so it gets one granule of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut u64,
    size: *mut usize,
    module: u64,
    name: *const c_char,
) -> DriverError {
    const SIZE: u64 = 512;
    let found = current().and_then(
        |Current {
             session, machine, ..
         }| {
            if name.is_null() {
                return Err(DriverError::INVALID_VALUE);
            }
            // SAFETY: the caller passes a C string.
            let name = unsafe { CStr::from_ptr(name) };
            let known = session
                .handles::<Module>()
                .with(module, |loaded| loaded.globals.get(name).copied())
                .ok_or(DriverError::INVALID_HANDLE)?;
            if let Some(known) = known {
                return Ok(known);
            }
            let (new, _) = session
                .memory()
                .allocate(machine, SIZE, Kind::Malloc)
                .map_err(|(refusal, _)| refusal)?;
            session
                .handles::<Module>()
                .with(module, |loaded| loaded.globals.insert(name.to_owned(), new));
            Ok(new)
        },
    );
    // SAFETY: as for the CUDA function; both may be null.
    unsafe {
        put(size, if found.is_ok() { SIZE as usize } else { 0 });
        put(address, found.unwrap_or(0));
    }
    answer(|| found.map(drop))
}

/// Attributes of a function by number.
fn function_attribute(attribute: c_int, function: u64) -> Result<c_int, DriverError> {
    let session = current()?.session;
    let max_dynamic_shared = session
        .handles::<Function>()
        .with(function, |f| f.max_dynamic_shared)
        .ok_or(DriverError::INVALID_HANDLE)?;
    Ok(match attribute {
        0 => 1024,
        1..=3 | 7 | 10..=15 => 0,
        4 => REGISTERS,
        5 | 6 => binary_version(&session.settings.device),
        8 => max_dynamic_shared,
        9 => -1,
        _ => return Err(DriverError::INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    function: u64,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give(value, function_attribute(attribute, function)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    kernel: u64,
    _device: c_int,
) -> DriverError {
    // SAFETY: as for the CUDA function.
    unsafe { give(value, function_attribute(attribute, kernel)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: u64, attribute: c_int, value: c_int) -> DriverError {
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    const MAX_DYNAMIC_SHARED: c_int = 8;
    answer(|| {
        let session = current()?.session;
        let limit = session.settings.device.shared_memory_per_block_optin as c_int;
        if attribute == MAX_DYNAMIC_SHARED && !(0..=limit).contains(&value) {
            return Err(DriverError::INVALID_VALUE);
        }
        let set = session.handles::<Function>().with(function, |f| {
            if attribute == MAX_DYNAMIC_SHARED {
                f.max_dynamic_shared = value;
            }
        });
        set.ok_or(DriverError::INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuKernelSetAttribute(
    attribute: c_int,
    value: c_int,
    kernel: u64,
    _device: c_int,
) -> DriverError {
    cuFuncSetAttribute(kernel, attribute, value)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetCacheConfig(function: u64, _config: c_int) -> DriverError {
    answer(|| {
        let known = current()?.session.handles::<Function>().has(function);
        if known {
            Ok(())
        } else {
            Err(DriverError::INVALID_HANDLE)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    _function: u64,
    block_threads: c_int,
    shared_bytes: usize,
) -> DriverError {
    let found = current().and_then(|c| {
        Ok(blocks_per_multiprocessor(
            c.session,
            block_threads,
            shared_bytes,
        )?)
    });
    // SAFETY: as for the CUDA function.
    unsafe { give(blocks, found) }
}

/// Threads of a launch.
fn product(extents: [c_uint; 6]) -> u64 {
    extents.iter().fold(1, |threads, extent| {
        threads.saturating_mul(u64::from(*extent))
    })
}

/// # Safety
/// As for `cuLaunchKernel`.
unsafe fn launch(
    function: u64,
    threads: u64,
    stream: u64,
    arguments: *const *const c_void,
) -> DriverError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        let known = session.handles::<Function>().has(function) && is_stream(session, stream);
        if !known {
            return Err(DriverError::INVALID_HANDLE);
        }
        let launched = submit(session, stream, || {
            // SAFETY: promised by the caller.
            let cost = unsafe { launched(session, function as usize, arguments, [0; 3]) };
            clock::kernel(session, stream, threads, cost);
            Ok(())
        });
        Ok(launched?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared_bytes: c_uint,
    stream: u64,
    arguments: *const *const c_void,
    _extra: *const *const c_void,
) -> DriverError {
    let threads = product([grid_x, grid_y, grid_z, block_x, block_y, block_z]);
    // SAFETY: as for the CUDA function.
    unsafe { launch(function, threads, stream, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchCooperativeKernel(
    function: u64,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared_bytes: c_uint,
    stream: u64,
    arguments: *const *const c_void,
) -> DriverError {
    let threads = product([grid_x, grid_y, grid_z, block_x, block_y, block_z]);
    // SAFETY: as for the CUDA function.
    unsafe { launch(function, threads, stream, arguments) }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct DriverLaunchConfig {
    /// Of the grid, then of a block.
    extents: [c_uint; 6],
    shared_bytes: c_uint,
    stream: u64,
    attributes: *const c_void,
    n_attributes: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const DriverLaunchConfig,
    function: u64,
    arguments: *const *const c_void,
    _extra: *const *const c_void,
) -> DriverError {
    if config.is_null() {
        return DriverError::INVALID_VALUE;
    }
    // SAFETY: the caller passes a configuration, and arguments that fit the kernel.
    unsafe {
        let threads = product((*config).extents);
        launch(function, threads, (*config).stream, arguments)
    }
}

/// A description of how a kernel loads a tile: opaque bytes that only a kernel reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut [u64; 16],
    _kind: c_int,
    _rank: c_uint,
    address: u64,
    _dims: *const u64,
    _strides: *const u64,
    _box: *const c_uint,
    _element_strides: *const c_uint,
    _interleave: c_int,
    _swizzle: c_int,
    _promotion: c_int,
    _fill: c_int,
) -> DriverError {
    let mut bytes = [0; 16];
    bytes[0] = address;
    // SAFETY: as for the CUDA function.
    unsafe { give(map, current().map(|_| bytes)) }
}
