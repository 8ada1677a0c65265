//! The two CUDA interfaces as a C program meets them: what succeeds, and what is an error as with a real device.
//!
//! A process has one device, so the tests take turns on it and leave it as they found it.

use std::ffi::{CString, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use oomproof_vgpu::{
    CudaError, DriverError, cuMemAddressFree, cuMemAddressReserve, cuMemCreate, cuMemMap,
    cuMemRelease, cuMemUnmap, cudaDeviceGetAttribute, cudaEventCreate, cudaEventElapsedTime,
    cudaEventRecord, cudaFree, cudaGetDeviceCount, cudaGetDeviceProperties,
    cudaGetDeviceProperties_v2, cudaGetLastError, cudaMalloc, cudaMemGetInfo, cudaMemcpy,
    cudaMemset, cudaPeekAtLastError, cudaSetDevice, cudaStreamCreate, cudaStreamDestroy,
    cudaStreamSynchronize, oomproof_attach,
};

/// A card of 1 GiB, twice, whose context takes 100 MiB.
const SETTINGS: &str = r#"{"schema":1,"device":{"name":"Test card","total_bytes":1073741824,
    "compute_capability":[8,6],"multiprocessors":84,"max_threads_per_multiprocessor":1536,
    "max_blocks_per_multiprocessor":16,"registers_per_multiprocessor":65536,
    "shared_memory_per_multiprocessor":102400,"shared_memory_per_block_optin":101376,
    "l2_cache_bytes":6291456,"clock_khz":1800000,"memory_clock_khz":8000000,"memory_bus_bits":384},
    "device_count":2,"reserved_by_others_bytes":0,
    "context_bytes":{"low":104857600,"likely":104857600,"high":104857600},"cuda_version":13020,
    "cudnn_version":92600,"nccl_version":23007,"torch_version":"2.15.0","standins":"/s","vgpu":"/v",
    "run_dir":"RUN_DIR","scratch":"/t","steps":null,"full":false,"timeout_secs":600,"real_init":false,
    "allow_writes":false,"labels":false}"#;
const MIB: usize = 1 << 20;

static TURN: Mutex<bool> = Mutex::new(false);

/// A turn on the device.
fn device() -> MutexGuard<'static, bool> {
    let mut started = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*started {
        let folder = tempfile::tempdir().unwrap().keep();
        let path = folder.join("run.json");
        std::fs::write(&path, SETTINGS.replace("RUN_DIR", folder.to_str().unwrap())).unwrap();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { oomproof_attach(path.as_ptr()) }, 0);
        assert_eq!(cudaSetDevice(0), CudaError::SUCCESS);
        *started = true;
    }
    cudaGetLastError();
    started
}

fn malloc(size: usize) -> Result<u64, CudaError> {
    let mut address = 7;
    // SAFETY: the output is a place for an address.
    match unsafe { cudaMalloc(&raw mut address, size) } {
        CudaError::SUCCESS => Ok(address),
        error => {
            assert_eq!(address, 0, "an output is written on every path");
            Err(error)
        }
    }
}

fn free_bytes() -> usize {
    let (mut free, mut total) = (1, 1);
    // SAFETY: both outputs are places for a size.
    let error = unsafe { cudaMemGetInfo(&raw mut free, &raw mut total) };
    assert_eq!(error, CudaError::SUCCESS);
    assert_eq!(total, 1024 * MIB);
    free
}

/// Copies `len` bytes; `kind` is 1 to the device, 2 to the host.
fn copy(to: u64, from: u64, len: usize, kind: c_int) -> CudaError {
    // SAFETY: the host side of every call below holds `len` bytes.
    unsafe { cudaMemcpy(to, from, len, kind) }
}

#[test]
fn memory_runs_out_and_comes_back() {
    let _turn = device();
    let before = free_bytes();
    assert_eq!(before, 924 * MIB, "the context is taken off");
    let block = malloc(900 * MIB).unwrap();
    assert_eq!(malloc(30 * MIB), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(cudaPeekAtLastError(), CudaError::OUT_OF_MEMORY);
    assert_eq!(cudaGetLastError(), CudaError::OUT_OF_MEMORY);
    assert_eq!(cudaGetLastError(), CudaError::SUCCESS);
    assert_eq!(malloc(usize::MAX), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(malloc(0), Ok(0));
    assert_eq!(cudaFree(block), CudaError::SUCCESS);
    assert_eq!(free_bytes(), before);
}

#[test]
fn only_memory_that_was_given_is_taken_back() {
    let _turn = device();
    let block = malloc(4 * MIB).unwrap();
    assert_eq!(cudaFree(block + 512), CudaError::INVALID_VALUE);
    assert_eq!(cudaFree(0x1000), CudaError::INVALID_VALUE);
    assert_eq!(cudaFree(0), CudaError::SUCCESS);
    assert_eq!(cudaFree(block), CudaError::SUCCESS);
    assert_eq!(cudaFree(block), CudaError::INVALID_VALUE, "twice");
}

#[test]
fn what_was_copied_in_comes_out() {
    let _turn = device();
    let block = malloc(2 * MIB).unwrap();
    let sent = [1_u8, 2, 3, 4];
    let mut received = [9_u8; 6];
    assert_eq!(
        copy(block + 1, sent.as_ptr() as u64, 4, 1),
        CudaError::SUCCESS
    );
    assert_eq!(
        copy(received.as_mut_ptr() as u64, block, 6, 2),
        CudaError::SUCCESS
    );
    assert_eq!(
        received,
        [0, 1, 2, 3, 4, 0],
        "what nobody wrote reads as zero"
    );
    assert_eq!(cudaMemset(block, 0x55, 3), CudaError::SUCCESS);
    assert_eq!(
        copy(received.as_mut_ptr() as u64, block, 6, 2),
        CudaError::SUCCESS
    );
    assert_eq!(received, [0x55, 0x55, 0x55, 3, 4, 0]);
    cudaFree(block);
}

#[test]
fn copies_stay_inside_what_was_given() {
    let _turn = device();
    let block = malloc(2 * MIB).unwrap();
    let mut host = [0_u8; 16];
    let host = host.as_mut_ptr() as u64;
    let end = block + 2 * MIB as u64;
    assert_eq!(copy(end - 8, host, 8, 1), CudaError::SUCCESS);
    assert_eq!(copy(end - 8, host, 16, 1), CudaError::INVALID_VALUE);
    assert_eq!(copy(host, end - 8, 16, 2), CudaError::INVALID_VALUE);
    assert_eq!(
        copy(block, host, 8, 2),
        CudaError::INVALID_VALUE,
        "the wrong direction"
    );
    assert_eq!(copy(block, host, 8, 9), CudaError::INVALID_MEMCPY_DIRECTION);
    assert_eq!(cudaMemset(end - 8, 0, 16), CudaError::INVALID_VALUE);
    cudaFree(block);
    assert_eq!(copy(block, host, 8, 1), CudaError::INVALID_VALUE, "freed");
}

#[test]
fn handles_end_with_their_objects() {
    let _turn = device();
    let (mut stream, mut event, mut other) = (0, 0, 0);
    let mut millis = 5.0;
    // SAFETY: every output is a place for its value.
    unsafe {
        assert_eq!(cudaStreamCreate(&raw mut stream), CudaError::SUCCESS);
        assert_eq!(cudaEventCreate(&raw mut event), CudaError::SUCCESS);
        assert_eq!(cudaEventCreate(&raw mut other), CudaError::SUCCESS);
        assert_eq!(cudaEventRecord(event, stream), CudaError::SUCCESS);
        assert_eq!(
            cudaEventElapsedTime(&raw mut millis, event, other),
            CudaError::INVALID_HANDLE
        );
        assert!(millis == 0.0, "an output is written on every path");
        assert_eq!(cudaEventRecord(other, 0), CudaError::SUCCESS);
        assert_eq!(
            cudaEventElapsedTime(&raw mut millis, event, other),
            CudaError::SUCCESS
        );
    }
    assert!(millis > 0.0);
    assert_eq!(
        cudaStreamSynchronize(event),
        CudaError::INVALID_HANDLE,
        "an event is no stream"
    );
    assert_eq!(cudaStreamDestroy(stream), CudaError::SUCCESS);
    assert_eq!(cudaStreamDestroy(stream), CudaError::INVALID_HANDLE);
    assert_eq!(cudaEventRecord(event, stream), CudaError::INVALID_HANDLE);
}

#[test]
fn the_two_layouts_of_properties_hold_the_same_card() {
    let _turn = device();
    let mut bytes = [0_u8; 2048];
    let long = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let int = |bytes: &[u8], at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    // Offsets of name, totalGlobalMem, major and multiProcessorCount in `cudaDeviceProp` of CUDA 12 and of CUDA 13.
    // SAFETY: the buffer is larger than either struct.
    let error = unsafe { cudaGetDeviceProperties_v2(bytes.as_mut_ptr().cast(), 1) };
    assert_eq!(error, CudaError::SUCCESS);
    assert!(bytes.starts_with(b"Test card\0"));
    assert_eq!(
        (long(&bytes, 288), int(&bytes, 360), int(&bytes, 388)),
        (1 << 30, 8, 84)
    );
    // SAFETY: the buffer is larger than either struct.
    let error = unsafe { cudaGetDeviceProperties(bytes.as_mut_ptr().cast(), 1) };
    assert_eq!(error, CudaError::SUCCESS);
    assert_eq!(
        (long(&bytes, 288), int(&bytes, 360), int(&bytes, 384)),
        (1 << 30, 8, 84)
    );
    // SAFETY: the buffer is larger than either struct.
    let error = unsafe { cudaGetDeviceProperties(bytes.as_mut_ptr().cast(), 2) };
    assert_eq!(error, CudaError::INVALID_DEVICE);
}

#[test]
fn devices_are_counted_and_asked() {
    let _turn = device();
    let (mut count, mut value) = (9, 9);
    // SAFETY: every output is a place for an int.
    unsafe {
        assert_eq!(cudaGetDeviceCount(&raw mut count), CudaError::SUCCESS);
        assert_eq!(
            cudaGetDeviceCount(std::ptr::null_mut()),
            CudaError::INVALID_VALUE
        );
        assert_eq!(
            cudaDeviceGetAttribute(&raw mut value, 16, 0),
            CudaError::SUCCESS
        );
        assert_eq!((count, value), (2, 84));
        assert_eq!(
            cudaDeviceGetAttribute(&raw mut value, 9999, 0),
            CudaError::INVALID_VALUE
        );
        assert_eq!(value, 0, "an output is written on every path");
    }
    assert_eq!(cudaSetDevice(2), CudaError::INVALID_DEVICE);
    assert_eq!(cudaSetDevice(-1), CudaError::INVALID_DEVICE);
}

#[test]
fn virtual_memory_is_reserved_made_and_mapped() {
    let _turn = device();
    let before = free_bytes();
    let (mut address, mut handle) = (0, 0);
    // Pinned memory on device 0, as `CUmemAllocationProp` says it.
    let prop: [u64; 4] = [1, 1, 0, 0];
    // SAFETY: every output is a place for its value, and the property has the size of the struct.
    unsafe {
        assert_eq!(
            cuMemAddressReserve(&raw mut address, 64 * MIB, 0, 0, 0),
            DriverError::SUCCESS
        );
        assert_eq!(
            cuMemCreate(&raw mut handle, 2 * MIB, prop.as_ptr().cast(), 0),
            DriverError::SUCCESS
        );
        assert_eq!(
            cuMemCreate(&mut 0, 2048 * MIB, prop.as_ptr().cast(), 0),
            DriverError::OUT_OF_MEMORY
        );
    }
    assert_eq!(free_bytes(), before - 2 * MIB);
    assert_eq!(
        cuMemMap(address, 2 * MIB, 0, handle, 0),
        DriverError::SUCCESS
    );
    assert_eq!(
        cuMemMap(address, 2 * MIB, 0, handle, 0),
        DriverError::INVALID_VALUE
    );
    assert_eq!(
        cuMemAddressFree(address, 64 * MIB),
        DriverError::INVALID_VALUE,
        "still mapped"
    );
    assert_eq!(cuMemRelease(handle), DriverError::SUCCESS);
    assert_eq!(cuMemRelease(handle), DriverError::INVALID_VALUE);
    assert_eq!(cuMemUnmap(address, 2 * MIB), DriverError::SUCCESS);
    assert_eq!(free_bytes(), before);
    assert_eq!(cuMemAddressFree(address, 64 * MIB), DriverError::SUCCESS);
}
