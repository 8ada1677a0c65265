//! Kernels: registered when a library is loaded, asked about, launched.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use super::capture;
use super::current::{Current, answer, current, output};
use super::memory::allocate;
use super::properties::binary_version;
use super::stream::is_stream;
use crate::clock;
use crate::kernels::{launched, register};
use crate::memory::Kind;
use crate::session::Session;
use crate::status::CudaError;

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

impl Dim3 {
    fn product(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }
}

/// `cudaLaunchConfig_t`.
#[repr(C)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
    attributes: *const c_void,
    n_attributes: c_uint,
}

/// Largest number of threads of a block.
const MAX_THREADS: u64 = 1024;

/// What the compiler's `<<<...>>>` pushes for the stub that it calls next.
#[derive(Clone, Copy, Default)]
struct CallConfiguration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
}

thread_local! {
    static PUSHED: RefCell<Vec<CallConfiguration>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
) -> c_uint {
    PUSHED.with_borrow_mut(|pushed| {
        pushed.push(CallConfiguration {
            grid,
            block,
            shared_bytes,
            stream,
        });
    });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared_bytes: *mut usize,
    stream: *mut u64,
) -> CudaError {
    let popped = PUSHED.with_borrow_mut(Vec::pop);
    answer(|| {
        let configuration = popped.unwrap_or_default();
        output(grid)?.set(configuration.grid);
        output(block)?.set(configuration.block);
        output(shared_bytes)?.set(configuration.shared_bytes);
        output(stream)?.set(configuration.stream);
        popped.map(drop).ok_or(CudaError::UNKNOWN)
    })
}

/// The handle of a library's kernels: nothing is kept of them.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinary(_image: *const c_void) -> *mut *mut c_void {
    Box::leak(Box::new(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(_handle: *mut *mut c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(_handle: *mut *mut c_void) -> c_char {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    _handle: *mut *mut c_void,
    stub: *const c_void,
    _device_function: *mut c_char,
    device_name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut c_void,
    _grid_dim: *mut c_void,
    _warp: *mut c_int,
) {
    if !device_name.is_null() {
        // SAFETY: the compiler passes the address of a string literal, which lives as long as its library; libraries
        // with kernels are not unloaded.
        register(stub as usize, unsafe { CStr::from_ptr(device_name) });
    }
}

/// Size of a variable of a kernel, and its device address once asked for.
type Variable = (usize, Option<u64>);

/// Variables of kernels by the address of their host twin.
static VARIABLES: Mutex<Option<HashMap<usize, Variable>>> = Mutex::new(None);

fn variable<R>(
    symbol: *const c_void,
    look: impl FnOnce(&mut Variable) -> Result<R, CudaError>,
) -> Result<R, CudaError> {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    look(
        variables
            .get_or_insert_default()
            .get_mut(&(symbol as usize))
            .ok_or(CudaError::INVALID_SYMBOL)?,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterVar(
    _handle: *mut *mut c_void,
    variable: *const c_void,
    _device_address: *const c_char,
    _device_name: *const c_char,
    _external: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables
        .get_or_insert_default()
        .insert(variable as usize, (size, None));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolAddress(
    address: *mut u64,
    symbol: *const c_void,
) -> CudaError {
    answer(|| {
        let address = output(address)?;
        let found = current().and_then(|current| {
            variable(symbol, |(size, at)| {
                if let Some(at) = at {
                    Ok(*at)
                } else {
                    let new = allocate(current, (*size).max(1), Kind::Malloc)?;
                    *at = Some(new);
                    Ok(new)
                }
            })
        });
        address.set(found.unwrap_or(0));
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) -> CudaError {
    answer(|| {
        let size = output(size)?;
        let found = variable(symbol, |(size, _)| Ok(*size));
        size.set(found.unwrap_or(0));
        found.map(drop)
    })
}

/// A kernel's handle is the address of its stub.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(kernel: *mut u64, stub: *const c_void) -> CudaError {
    answer(|| {
        let _: () = output(kernel)?.set(stub as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetFuncBySymbol(function: *mut u64, stub: *const c_void) -> CudaError {
    answer(|| {
        let _: () = output(function)?.set(stub as u64);
        Ok(())
    })
}

/// What a launch must satisfy on any device.
fn check_launch(
    session: &Session,
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: u64,
) -> Result<(), CudaError> {
    let fits = (1..=MAX_THREADS).contains(&block.product())
        && grid.product() > 0
        && grid.y <= 65_535
        && grid.z <= 65_535
        && shared_bytes <= session.settings.device.shared_memory_per_block_optin as usize;
    if !fits {
        // cudaErrorInvalidConfiguration.
        return Err(CudaError(9));
    }
    if is_stream(session, stream) {
        Ok(())
    } else {
        Err(CudaError::INVALID_HANDLE)
    }
}

/// # Safety
/// As for `cudaLaunchKernel`.
unsafe fn launch(
    function: *const c_void,
    configuration: CallConfiguration,
    arguments: *const *const c_void,
) -> CudaError {
    answer(|| {
        let Current {
            session, machine, ..
        } = current()?;
        session.ensure_context(machine);
        let CallConfiguration {
            grid,
            block,
            shared_bytes,
            stream,
        } = configuration;
        check_launch(session, grid, block, shared_bytes, stream)?;
        capture::submit(session, stream, || {
            let threads = grid.product().saturating_mul(block.product());
            let grid = [grid.x, grid.y, grid.z];
            // SAFETY: promised by the caller.
            let cost = unsafe { launched(session, function as usize, arguments, grid) };
            clock::kernel(session, stream, threads, cost);
            Ok(())
        })
    })
}

macro_rules! launches {
    ($($(#[$doc:meta])* $name:ident;)+) => { $(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            function: *const c_void,
            grid: Dim3,
            block: Dim3,
            arguments: *const *const c_void,
            shared_bytes: usize,
            stream: u64,
        ) -> CudaError {
            // SAFETY: as for the CUDA function.
            unsafe { launch(function, CallConfiguration { grid, block, shared_bytes, stream }, arguments) }
        }
    )+ };
}

launches! {
    cudaLaunchKernel;
    /// What the compiler's stubs call since CUDA 13, with the handle from [`__cudaGetKernel`].
    __cudaLaunchKernel;
    cudaLaunchCooperativeKernel;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernelExC(
    config: *const LaunchConfig,
    function: *const c_void,
    arguments: *const *const c_void,
) -> CudaError {
    if config.is_null() {
        return CudaError::INVALID_VALUE.remember();
    }
    // SAFETY: the caller passes a configuration, and arguments that fit the kernel.
    unsafe {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
            stream,
            ..
        } = *config;
        launch(
            function,
            CallConfiguration {
                grid,
                block,
                shared_bytes,
                stream,
            },
            arguments,
        )
    }
}

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FuncAttributes {
    shared_bytes: usize,
    const_bytes: usize,
    local_bytes: usize,
    max_threads_per_block: c_int,
    n_registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode_ca: c_int,
    max_dynamic_shared_bytes: c_int,
    preferred_shared_carveout: c_int,
    cluster: [c_int; 6],
    reserved: [c_int; 16],
}

/// Registers per thread that every kernel is taken to use: as many as let a multiprocessor be full.
pub(crate) const REGISTERS: c_int = 32;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFuncGetAttributes(
    attributes: *mut FuncAttributes,
    _function: *const c_void,
) -> CudaError {
    answer(|| {
        let attributes = output(attributes)?;
        let version = current().map(|current| binary_version(&current.session.settings.device));
        attributes.set(FuncAttributes {
            shared_bytes: 0,
            const_bytes: 0,
            local_bytes: 0,
            max_threads_per_block: MAX_THREADS as c_int,
            n_registers: REGISTERS,
            ptx_version: version.unwrap_or(0),
            binary_version: version.unwrap_or(0),
            cache_mode_ca: 0,
            max_dynamic_shared_bytes: 49_152,
            preferred_shared_carveout: -1,
            cluster: [0; 6],
            reserved: [0; 16],
        });
        version.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetAttribute(
    _function: *const c_void,
    attribute: c_int,
    value: c_int,
) -> CudaError {
    /// `cudaFuncAttributeMaxDynamicSharedMemorySize`.
    const MAX_DYNAMIC_SHARED: c_int = 8;
    answer(|| {
        let limit = current()?
            .session
            .settings
            .device
            .shared_memory_per_block_optin as c_int;
        if attribute == MAX_DYNAMIC_SHARED && !(0..=limit).contains(&value) {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncSetCacheConfig(_function: *const c_void, _config: c_int) -> CudaError {
    answer(|| current().map(drop))
}

/// Blocks of this shape that one multiprocessor holds at once.
pub(crate) fn blocks_per_multiprocessor(
    session: &Session,
    block_threads: c_int,
    shared_bytes: usize,
) -> Result<c_int, CudaError> {
    let device = &session.settings.device;
    let threads = u32::try_from(block_threads)
        .ok()
        .filter(|threads| *threads > 0)
        .ok_or(CudaError::INVALID_VALUE)?;
    if u64::from(threads) > MAX_THREADS {
        return Ok(0);
    }
    let warps = threads.next_multiple_of(32);
    let by_threads = device.max_threads_per_multiprocessor / warps;
    let by_registers = device.registers_per_multiprocessor / (warps * REGISTERS as u32);
    let by_shared = (device.shared_memory_per_multiprocessor as usize)
        .checked_div(shared_bytes)
        .map_or(u32::MAX, |blocks| blocks as u32);
    Ok(by_threads
        .min(by_registers)
        .min(by_shared)
        .min(device.max_blocks_per_multiprocessor) as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    _function: *const c_void,
    block_threads: c_int,
    shared_bytes: usize,
) -> CudaError {
    answer(|| {
        let blocks = output(blocks)?;
        let found = current()
            .and_then(|c| blocks_per_multiprocessor(c.session, block_threads, shared_bytes));
        blocks.set(found.unwrap_or(0));
        found.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: *const c_void,
    block_threads: c_int,
    shared_bytes: usize,
    _flags: c_uint,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    unsafe {
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_threads, shared_bytes)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaOccupancyMaxActiveClusters(
    clusters: *mut c_int,
    _function: *const c_void,
    _config: *const LaunchConfig,
) -> CudaError {
    answer(|| {
        let clusters = output(clusters)?;
        let session = current().map(|current| current.session);
        clusters.set(session.map_or(0, |session| {
            session.settings.device.multiprocessors as c_int
        }));
        session.map(drop)
    })
}
