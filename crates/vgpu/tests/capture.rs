//! Stream capture, graphs and pools as a C program meets them, with the very errors of CUDA.
//!
//! A process has one device, so the tests take turns on it.

use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use oomproof_vgpu::{
    CudaError, cudaDeviceGetDefaultMemPool, cudaEventCreate, cudaEventQuery, cudaEventRecord,
    cudaFree, cudaFreeAsync, cudaGetLastError, cudaGraphDestroy, cudaGraphExecDestroy,
    cudaGraphExecUpdate, cudaGraphGetNodes, cudaGraphInstantiateWithFlags, cudaGraphLaunch,
    cudaGraphRetainUserObject, cudaLaunchHostFunc, cudaMalloc, cudaMallocAsync, cudaMemGetInfo,
    cudaMemPoolGetAttribute, cudaMemPoolTrimTo, cudaMemcpyAsync, cudaMemsetAsync, cudaSetDevice,
    cudaStreamBeginCapture, cudaStreamCreateWithFlags, cudaStreamEndCapture, cudaStreamIsCapturing,
    cudaStreamSynchronize, cudaStreamWaitEvent, cudaThreadExchangeStreamCaptureMode,
    cudaUserObjectCreate, oomproof_attach,
};

const SETTINGS: &str = r#"{"schema":1,"device":{"name":"Test card","total_bytes":1073741824,
    "compute_capability":[8,6],"multiprocessors":84,"max_threads_per_multiprocessor":1536,
    "max_blocks_per_multiprocessor":16,"registers_per_multiprocessor":65536,
    "shared_memory_per_multiprocessor":102400,"shared_memory_per_block_optin":101376,
    "l2_cache_bytes":6291456,"clock_khz":1800000,"memory_clock_khz":8000000,"memory_bus_bits":384},
    "device_count":1,"reserved_by_others_bytes":0,
    "context_bytes":{"low":104857600,"likely":104857600,"high":104857600},"cuda_version":13020,
    "cudnn_version":92600,"nccl_version":23007,"torch_version":"2.15.0","standins":"/s","vgpu":"/v",
    "run_dir":"RUN_DIR","scratch":"/t","steps":null,"full":false,"timeout_secs":600,"real_init":false,
    "allow_writes":false,"labels":false}"#;
const MIB: usize = 1 << 20;
const NON_BLOCKING: u32 = 1;

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

fn made(make: impl FnOnce(*mut u64) -> CudaError) -> u64 {
    let mut handle = 0;
    assert_eq!(make(&raw mut handle), CudaError::SUCCESS);
    handle
}

fn stream(flags: u32) -> u64 {
    // SAFETY: the output is a place for a handle.
    made(|out| unsafe { cudaStreamCreateWithFlags(out, flags) })
}

fn event() -> u64 {
    // SAFETY: the output is a place for a handle.
    made(|out| unsafe { cudaEventCreate(out) })
}

fn block() -> u64 {
    // SAFETY: the output is a place for an address.
    made(|out| unsafe { cudaMalloc(out, 2 * MIB) })
}

fn end(stream: u64) -> Result<u64, CudaError> {
    let mut graph = 7;
    // SAFETY: the output is a place for a handle.
    match unsafe { cudaStreamEndCapture(stream, &raw mut graph) } {
        CudaError::SUCCESS => Ok(graph),
        error => {
            assert_eq!(graph, 0, "an output is written on every path");
            Err(error)
        }
    }
}

fn instantiate(graph: u64) -> u64 {
    // SAFETY: the output is a place for a handle.
    made(|out| unsafe { cudaGraphInstantiateWithFlags(out, graph, 0) })
}

fn n_nodes(graph: u64) -> usize {
    let mut n_nodes = 99;
    // SAFETY: no place for nodes, and one for their number.
    let error = unsafe { cudaGraphGetNodes(graph, std::ptr::null_mut(), &raw mut n_nodes) };
    assert_eq!(error, CudaError::SUCCESS);
    n_nodes
}

fn bytes_at(address: u64) -> [u8; 4] {
    let mut bytes = [9; 4];
    // SAFETY: the host side has room.
    let error = unsafe { cudaMemcpyAsync(bytes.as_mut_ptr() as u64, address, 4, 2, 0) };
    assert_eq!(error, CudaError::SUCCESS);
    bytes
}

fn status(stream: u64) -> c_int {
    let mut status = 9;
    // SAFETY: the output is a place for an int.
    unsafe { cudaStreamIsCapturing(stream, &raw mut status) };
    status
}

#[test]
fn captured_work_is_done_at_each_launch() {
    let _turn = device();
    let (stream, memory) = (stream(NON_BLOCKING), block());
    assert_eq!(cudaMemsetAsync(memory, 1, 4, stream), CudaError::SUCCESS);
    assert_eq!(cudaStreamBeginCapture(stream, 0), CudaError::SUCCESS);
    assert_eq!(status(stream), 1);
    assert_eq!(cudaMemsetAsync(memory, 2, 2, stream), CudaError::SUCCESS);
    let graph = end(stream).unwrap();
    assert_eq!((status(stream), n_nodes(graph)), (0, 1));
    let executable = instantiate(graph);
    assert_eq!(cudaGraphDestroy(graph), CudaError::SUCCESS);
    assert_eq!(bytes_at(memory), [1; 4], "not yet");
    assert_eq!(cudaGraphLaunch(executable, stream), CudaError::SUCCESS);
    assert_eq!(bytes_at(memory), [2, 2, 1, 1]);
    cudaMemsetAsync(memory, 3, 4, stream);
    assert_eq!(cudaGraphLaunch(executable, stream), CudaError::SUCCESS);
    assert_eq!(bytes_at(memory), [2, 2, 3, 3]);
    assert_eq!(cudaGraphExecDestroy(executable), CudaError::SUCCESS);
    assert_eq!(
        cudaGraphLaunch(executable, stream),
        CudaError::INVALID_VALUE
    );
    cudaFree(memory);
}

/// What goes wrong between the begin of a capture and its end, and what the end says.
fn check(disturb: impl FnOnce(u64) -> CudaError, expected: CudaError, at_end: CudaError) {
    let stream = stream(NON_BLOCKING);
    assert_eq!(cudaStreamBeginCapture(stream, 0), CudaError::SUCCESS);
    assert_eq!(disturb(stream), expected);
    assert_eq!(end(stream).err().unwrap_or(CudaError::SUCCESS), at_end);
    assert_eq!(status(stream), 0);
}

#[test]
fn what_is_illegal_is_refused_as_cuda_does() {
    use CudaError as E;
    let _turn = device();
    check(|_| E::SUCCESS, E::SUCCESS, E::SUCCESS);
    check(
        |capturing| cudaStreamSynchronize(capturing),
        E::CAPTURE_UNSUPPORTED,
        E::CAPTURE_INVALIDATED,
    );
    // SAFETY: the output is a place for an address.
    check(
        |_| unsafe { cudaMalloc(&mut 0, MIB) },
        E::CAPTURE_UNSUPPORTED,
        E::CAPTURE_INVALIDATED,
    );
    check(
        |stream| cudaStreamBeginCapture(stream, 0),
        E::ILLEGAL_STATE,
        E::SUCCESS,
    );
    check(|_| cudaMemsetAsync(1, 0, 0, 0), E::SUCCESS, E::SUCCESS);
    check(
        |capturing| {
            let inside = event();
            assert_eq!(cudaEventRecord(inside, capturing), E::SUCCESS);
            cudaEventQuery(inside)
        },
        E::CAPTURED_EVENT,
        E::CAPTURE_INVALIDATED,
    );
    let outside = event();
    assert_eq!(cudaEventRecord(outside, 0), E::SUCCESS);
    check(
        |capturing| cudaStreamWaitEvent(capturing, outside, 0),
        E::CAPTURE_ISOLATION,
        E::CAPTURE_INVALIDATED,
    );
    assert_eq!(end(stream(NON_BLOCKING)), Err(E::ILLEGAL_STATE));
    assert_eq!(cudaStreamBeginCapture(0, 0), E::CAPTURE_UNSUPPORTED);
}

#[test]
fn a_blocking_capture_forbids_the_default_stream() {
    let _turn = device();
    let (stream, memory) = (stream(0), block());
    assert_eq!(cudaStreamBeginCapture(stream, 0), CudaError::SUCCESS);
    assert_eq!(
        cudaMemsetAsync(memory, 0, 4, 0),
        CudaError::CAPTURE_IMPLICIT
    );
    assert_eq!(end(stream), Err(CudaError::CAPTURE_INVALIDATED));
    cudaFree(memory);
}

#[test]
fn captures_spread_through_events_and_must_come_back() {
    let _turn = device();
    let (first, second, other) = (
        stream(NON_BLOCKING),
        stream(NON_BLOCKING),
        stream(NON_BLOCKING),
    );
    let (fork, join, memory) = (event(), event(), block());
    let begin = || {
        assert_eq!(cudaStreamBeginCapture(first, 0), CudaError::SUCCESS);
        cudaEventRecord(fork, first);
        assert_eq!(cudaStreamWaitEvent(second, fork, 0), CudaError::SUCCESS);
        assert_eq!(cudaMemsetAsync(memory, 4, 4, second), CudaError::SUCCESS);
        assert_eq!(status(second), 1);
    };
    begin();
    assert_eq!(end(first), Err(CudaError::CAPTURE_UNJOINED));
    begin();
    assert_eq!(end(second), Err(CudaError::CAPTURE_UNMATCHED));
    assert_eq!(end(first), Err(CudaError::CAPTURE_INVALIDATED));
    begin();
    cudaEventRecord(join, second);
    assert_eq!(cudaStreamWaitEvent(first, join, 0), CudaError::SUCCESS);
    assert_eq!(n_nodes(end(first).unwrap()), 1);
    begin();
    assert_eq!(cudaStreamBeginCapture(other, 0), CudaError::SUCCESS);
    assert_eq!(
        cudaStreamWaitEvent(other, fork, 0),
        CudaError::CAPTURE_MERGE
    );
    assert_eq!(end(first), Err(CudaError::CAPTURE_INVALIDATED));
    assert_eq!(end(other), Err(CudaError::CAPTURE_INVALIDATED));
    cudaFree(memory);
}

#[test]
fn threads_disturb_captures_as_their_modes_say() {
    /// Allocates on another thread, in this mode.
    fn elsewhere(mode: c_int) -> CudaError {
        std::thread::spawn(move || {
            let mut mode = mode;
            // SAFETY: the mode is an int, and the output a place for an address.
            unsafe {
                cudaThreadExchangeStreamCaptureMode(&raw mut mode);
                cudaMalloc(&mut 0, MIB)
            }
        })
        .join()
        .unwrap()
    }
    let _turn = device();
    let stream = stream(NON_BLOCKING);
    for (capture, thread, expected) in [
        (0, 0, CudaError::CAPTURE_UNSUPPORTED),
        (0, 1, CudaError::SUCCESS),
        (0, 2, CudaError::SUCCESS),
        (1, 0, CudaError::SUCCESS),
        (2, 0, CudaError::SUCCESS),
    ] {
        assert_eq!(cudaStreamBeginCapture(stream, capture), CudaError::SUCCESS);
        assert_eq!(elsewhere(thread), expected, "{capture} {thread}");
        assert_eq!(end(stream).is_ok(), expected == CudaError::SUCCESS);
    }
    assert_eq!(cudaStreamBeginCapture(stream, 0), CudaError::SUCCESS);
    let ended = std::thread::spawn(move || end(stream)).join().unwrap();
    assert_eq!(ended, Err(CudaError::CAPTURE_WRONG_THREAD));
    assert!(end(stream).is_ok());
}

#[test]
fn objects_and_functions_of_the_program() {
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the test passes a number that outlives the call.
        unsafe { *data.cast::<u32>() += 1 };
    }
    let _turn = device();
    let stream = stream(NON_BLOCKING);
    let (mut called, mut destroyed) = (0_u32, 0_u32);
    let (called_at, destroyed_at) = ((&raw mut called).cast(), (&raw mut destroyed).cast());
    assert_eq!(cudaStreamBeginCapture(stream, 0), CudaError::SUCCESS);
    // SAFETY: the function fits its argument, which outlives the graph.
    unsafe { cudaLaunchHostFunc(stream, Some(count), called_at) };
    let graph = end(stream).unwrap();
    // SAFETY: as above.
    let object = made(|out| unsafe { cudaUserObjectCreate(out, destroyed_at, Some(count), 1, 1) });
    assert_eq!(
        cudaGraphRetainUserObject(graph, object, 1, 1),
        CudaError::SUCCESS
    );
    let executable = instantiate(graph);
    cudaGraphDestroy(graph);
    for _ in 0..3 {
        cudaGraphLaunch(executable, stream);
    }
    // SAFETY: the numbers are only changed by the calls above.
    let seen = || unsafe {
        [
            called_at.cast::<u32>().read(),
            destroyed_at.cast::<u32>().read(),
        ]
    };
    assert_eq!(seen(), [3, 0]);
    cudaGraphExecDestroy(executable);
    assert_eq!(seen(), [3, 1]);
}

#[test]
fn graphs_are_updated_to_others_of_their_shape() {
    let _turn = device();
    let (stream, memory) = (stream(NON_BLOCKING), block());
    let captured = |values: &[c_int]| {
        cudaStreamBeginCapture(stream, 0);
        for value in values {
            cudaMemsetAsync(memory, *value, 4, stream);
        }
        end(stream).unwrap()
    };
    let executable = instantiate(captured(&[1]));
    let update = |graph| {
        // SAFETY: nothing is told of the result.
        unsafe { cudaGraphExecUpdate(executable, graph, std::ptr::null_mut()) }
    };
    assert_eq!(update(captured(&[2])), CudaError::SUCCESS);
    assert_eq!(
        update(captured(&[3, 4])),
        CudaError::GRAPH_EXEC_UPDATE_FAILURE
    );
    cudaGraphLaunch(executable, stream);
    assert_eq!(bytes_at(memory), [2; 4]);
    cudaFree(memory);
}

#[test]
fn pools_take_from_the_device_and_give_back() {
    fn attribute(pool: u64, number: c_int) -> usize {
        let mut value = 0_usize;
        // SAFETY: these attributes have 64 bits.
        let error = unsafe { cudaMemPoolGetAttribute(pool, number, (&raw mut value).cast()) };
        assert_eq!(error, CudaError::SUCCESS);
        value
    }
    fn free() -> usize {
        let mut free = 0;
        // SAFETY: one place for a size.
        unsafe { cudaMemGetInfo(&raw mut free, std::ptr::null_mut()) };
        free
    }
    let _turn = device();
    // SAFETY: every output is a place for its value.
    let (pool, before) = (
        made(|out| unsafe { cudaDeviceGetDefaultMemPool(out, 0) }),
        free(),
    );
    // SAFETY: as above.
    let block = made(|out| unsafe { cudaMallocAsync(out, 40 * MIB + 1, 0) });
    let used = 40 * MIB + 512;
    assert_eq!(attribute(pool, 7), used);
    assert_eq!(attribute(pool, 5), 64 * MIB);
    assert_eq!(before - free(), 64 * MIB);
    let mut none = 5;
    // SAFETY: as above.
    let error = unsafe { cudaMallocAsync(&raw mut none, 2048 * MIB, 0) };
    assert_eq!((error, none), (CudaError::OUT_OF_MEMORY, 0));
    assert_eq!(cudaFreeAsync(block, 0), CudaError::SUCCESS);
    assert_eq!(cudaFreeAsync(block, 0), CudaError::INVALID_VALUE, "twice");
    assert_eq!([attribute(pool, 7), attribute(pool, 8)], [0, used]);
    assert_eq!(before - free(), 64 * MIB, "kept");
    assert_eq!(cudaMemPoolTrimTo(pool, 0), CudaError::SUCCESS);
    assert_eq!(free(), before);
}
