//! What single calls cost on the virtual device: launches, allocations, copies, streams and events.
//!
//! Called through the C symbols as PyTorch calls them, in a session as a training script has it: a thousand live
//! blocks, some known contents, a profile on disk. `bench/calls` sets these figures beside PyTorch's own time.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput};
use oomproof_profile::RunSettings;
use oomproof_vgpu as _;

#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

unsafe extern "C" {
    fn oomproof_attach(run_json: *const c_char) -> c_int;
    fn oomproof_error() -> *const c_char;
    fn cudaMalloc(address: *mut u64, size: usize) -> c_int;
    fn cudaFree(address: u64) -> c_int;
    fn cudaMemcpyAsync(to: u64, from: u64, len: usize, kind: c_int, stream: u64) -> c_int;
    fn cudaMemsetAsync(to: u64, value: c_int, len: usize, stream: u64) -> c_int;
    fn cudaStreamCreateWithPriority(stream: *mut u64, flags: c_uint, priority: c_int) -> c_int;
    fn cudaStreamIsCapturing(stream: u64, status: *mut c_int) -> c_int;
    fn cudaStreamSynchronize(stream: u64) -> c_int;
    fn cudaStreamWaitEvent(stream: u64, event: u64, flags: c_uint) -> c_int;
    fn cudaEventCreateWithFlags(event: *mut u64, flags: c_uint) -> c_int;
    fn cudaEventDestroy(event: u64) -> c_int;
    fn cudaEventRecord(event: u64, stream: u64) -> c_int;
    fn cudaEventQuery(event: u64) -> c_int;
    fn cudaGetDevice(device: *mut c_int) -> c_int;
    fn cublasCreate_v2(handle: *mut u64) -> c_int;
    fn cublasGemmEx(
        handle: u64,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: u64,
        a: u64,
        atype: c_int,
        lda: c_int,
        b: u64,
        btype: c_int,
        ldb: c_int,
        beta: u64,
        c: u64,
        ctype: c_int,
        ldc: c_int,
        compute_type: c_int,
        algo: c_int,
    ) -> c_int;
    fn cublasLtMatmulDescCreate(out: *mut u64, compute_type: c_int, scale_type: c_int) -> c_int;
    fn cublasLtMatrixLayoutCreate(
        out: *mut u64,
        data_type: c_int,
        rows: u64,
        columns: u64,
        leading: i64,
    ) -> c_int;
    fn cublasLtMatmul(
        handle: u64,
        product: u64,
        alpha: u64,
        a: u64,
        a_layout: u64,
        b: u64,
        b_layout: u64,
        beta: u64,
        c: u64,
        c_layout: u64,
        d: u64,
        d_layout: u64,
        algorithm: *const c_void,
        workspace: u64,
        workspace_bytes: usize,
        stream: u64,
    ) -> c_int;
    fn cudaGetLastError() -> c_int;
    fn __cudaRegisterFunction(
        handle: *mut *mut c_void,
        stub: *const c_void,
        device_function: *mut c_char,
        device_name: *const c_char,
        thread_limit: c_int,
        thread: *mut c_void,
        block: *mut c_void,
        block_dim: *mut c_void,
        grid_dim: *mut c_void,
        warp: *mut c_int,
    );
    fn __cudaLaunchKernel(
        kernel: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *const *const c_void,
        shared_bytes: usize,
        stream: u64,
    ) -> c_int;
    #[link_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
    fn report_usage(
        address: *mut c_void,
        size: i64,
        allocated: usize,
        reserved: usize,
        device: u16,
    );
}

/// Time of this thread on a processor: what other programs do meanwhile is left out.
struct ThreadTime;

impl ThreadTime {
    fn now() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the output is a local.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, start: Duration) -> Duration {
        Self::now().saturating_sub(start)
    }

    fn add(&self, first: &Duration, second: &Duration) -> Duration {
        *first + *second
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Blocks that live while calls are timed, as many as a training step of a medium model has.
const LIVE_BLOCKS: u64 = 1000;
const BLOCK: u64 = 1 << 20;
/// `c10::Device` for the first CUDA device.
const DEVICE: u16 = 1;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    attach(folder.path());
    let base = live_blocks();
    let mut criterion = Criterion::default()
        .with_measurement(ThreadTime)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        .configure_from_args();
    launches(&mut criterion, base);
    allocations(&mut criterion, base);
    copies(&mut criterion, base);
    products(&mut criterion, base);
    streams(&mut criterion);
    criterion.final_summary();
}

fn attach(folder: &Path) {
    let range = serde_json::json!({"low": 1 << 28, "likely": 1 << 29, "high": 1 << 30});
    let settings = serde_json::json!({
        "schema": 1,
        "device": {
            "name": "NVIDIA H100 80GB HBM3", "total_bytes": 85_017_493_504_u64, "compute_capability": [9, 0],
            "multiprocessors": 132, "max_threads_per_multiprocessor": 2048, "max_blocks_per_multiprocessor": 32,
            "registers_per_multiprocessor": 65_536, "shared_memory_per_multiprocessor": 233_472,
            "shared_memory_per_block_optin": 232_448, "l2_cache_bytes": 52_428_800, "clock_khz": 1_980_000,
            "memory_clock_khz": 2_619_000, "memory_bus_bits": 5120,
        },
        "device_count": 1, "reserved_by_others_bytes": 0, "context_bytes": range, "cuda_version": 13_020,
        "cudnn_version": 92_600, "nccl_version": 23_007, "torch_version": "2.15.0+cu132",
        "standins": folder, "vgpu": folder, "run_dir": folder, "scratch": folder,
        "steps": null, "full": true, "timeout_secs": 600, "real_init": false, "allow_writes": false, "labels": true,
    });
    let settings: RunSettings = serde_json::from_value(settings).expect("the settings are whole");
    let file = folder.join("run.json");
    let text = serde_json::to_vec(&settings).expect("settings are JSON");
    std::fs::write(&file, text).expect("the settings can be written");
    let name = CString::new(file.into_os_string().into_encoded_bytes()).expect("no NUL in a path");
    // SAFETY: a C string; the error is a C string, or null when there is none.
    unsafe {
        assert!(
            oomproof_attach(name.as_ptr()) == 0,
            "{}",
            std::ffi::CStr::from_ptr(oomproof_error()).to_string_lossy()
        );
    }
}

fn device_memory(size: u64) -> u64 {
    let mut address = 0;
    // SAFETY: the output is a local.
    assert_eq!(unsafe { cudaMalloc(&raw mut address, size as usize) }, 0);
    address
}

/// Makes the allocator's blocks, half of them with known bytes, and returns the first address after them.
fn live_blocks() -> u64 {
    let base = device_memory((LIVE_BLOCKS + 64) * BLOCK);
    for block in 0..LIVE_BLOCKS {
        let address = base + block * BLOCK;
        report(address, BLOCK as i64);
        if block % 2 == 0 {
            // SAFETY: the block lies in the memory allocated above.
            assert_eq!(unsafe { cudaMemsetAsync(address, 0, BLOCK as usize, 0) }, 0);
        }
    }
    let free = base + LIVE_BLOCKS * BLOCK;
    report(free, BLOCK as i64);
    free
}

fn report(address: u64, size: i64) {
    let allocated = (LIVE_BLOCKS * BLOCK) as usize;
    // SAFETY: the address is only noted.
    unsafe {
        report_usage(
            address as *mut c_void,
            size,
            allocated,
            2 * allocated,
            DEVICE,
        );
    };
}

/// Registers a kernel under an address of its own, as the compiler's start-up code does.
fn kernel(mangled: &'static str) -> *const c_void {
    let stub = Box::leak(Box::new(0_u8));
    let name = Box::leak(
        CString::new(mangled)
            .expect("no NUL in a name")
            .into_boxed_c_str(),
    );
    let none = std::ptr::null_mut();
    // SAFETY: name and stub live as long as the process; the rest is not looked at.
    unsafe {
        __cudaRegisterFunction(
            none,
            (&raw const *stub).cast(),
            std::ptr::null_mut(),
            name.as_ptr(),
            -1,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
    }
    (&raw const *stub).cast()
}

fn launch(kernel: *const c_void, arguments: &[*const c_void]) {
    let grid = Dim3 {
        x: 1024,
        y: 1,
        z: 1,
    };
    let block = Dim3 { x: 128, y: 1, z: 1 };
    // SAFETY: the arguments fit the kernel's mangled name.
    let code = unsafe { __cudaLaunchKernel(kernel, grid, block, arguments.as_ptr(), 0, 0) };
    assert_eq!(code, 0);
}

fn launches(criterion: &mut Criterion<ThreadTime>, base: u64) {
    let mut group = criterion.benchmark_group("launch");
    let count: i32 = 65_536;
    let mut time = |name: &str, mangled: &'static str, arguments: &[*const c_void]| {
        let kernel = kernel(mangled);
        group.bench_function(name, |bencher| {
            bencher.iter(|| launch(kernel, black_box(arguments)));
        });
    };

    let value = 1.0_f32;
    let one = [base];
    time(
        "fill",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        &[
            (&raw const count).cast(),
            (&raw const value).cast(),
            one.as_ptr().cast(),
        ],
    );
    let three = [base, base - BLOCK, base - 2 * BLOCK];
    time(
        "elementwise",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        &[
            (&raw const count).cast(),
            (&raw const value).cast(),
            three.as_ptr().cast(),
        ],
    );
    let mut reduction = [7_u64; 256];
    // Where the addresses and the number of outputs lie in the argument of a reduction of floats.
    reduction[123..131].copy_from_slice(&[base - BLOCK, base, 0, 0, 0, 0, 0, 1 << 32]);
    time(
        "reduction",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_",
        &[reduction.as_ptr().cast()],
    );
    // Two lists of 36 tensors; each list has room for 64 in the argument.
    let mut lists = [0; 128];
    for tensor in 0..36 {
        lists[tensor] = base - (tensor as u64 + 1) * BLOCK;
        lists[64 + tensor] = base - (tensor as u64 + 101) * BLOCK;
    }
    time(
        "multi_tensor",
        "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEEEEvT_",
        &[lists.as_ptr().cast()],
    );
    time("unnamed", "plain_c_kernel", &[(&raw const count).cast()]);
    group.finish();
}

fn allocations(criterion: &mut Criterion<ThreadTime>, base: u64) {
    let mut group = criterion.benchmark_group("allocation");
    group.bench_function("block_and_back", |bencher| {
        bencher.iter(|| {
            report(black_box(base + BLOCK), BLOCK as i64);
            report(black_box(base + BLOCK), -(BLOCK as i64));
        });
    });
    group.bench_function("cudaMalloc_cudaFree", |bencher| {
        bencher.iter(|| {
            let address = device_memory(black_box(20 << 20));
            // SAFETY: the address was just given out.
            assert_eq!(unsafe { cudaFree(address) }, 0);
        });
    });
    group.finish();
}

fn copies(criterion: &mut Criterion<ThreadTime>, base: u64) {
    let mut group = criterion.benchmark_group("copy");
    let mut host = vec![1_u8; 64 << 10];
    for len in [8_usize, 64 << 10] {
        group.throughput(Throughput::Bytes(len as u64));
        let address = host.as_mut_ptr() as u64;
        let sides = [
            ("host_to_device", base, address, HOST_TO_DEVICE),
            ("device_to_host", address, base, DEVICE_TO_HOST),
            ("device_to_device", base + BLOCK / 2, base, DEVICE_TO_DEVICE),
        ];
        for (name, to, from, kind) in sides {
            group.bench_function(format!("{name}/{len}"), |bencher| {
                bencher.iter(|| {
                    // SAFETY: both sides are valid for `len` bytes.
                    assert_eq!(
                        // SAFETY: both sides hold `len` bytes.
                        unsafe { cudaMemcpyAsync(black_box(to), black_box(from), len, kind, 0) },
                        0
                    );
                });
            });
        }
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("fill", |bencher| {
        // SAFETY: the block is that large.
        bencher.iter(|| {
            assert_eq!(
                // SAFETY: the block is memory of the device.
                unsafe { cudaMemsetAsync(black_box(base), 0, BLOCK as usize, 0) },
                0
            );
        });
    });
    group.finish();
}

/// Products of matrices of 512 by 512 in half precision.
fn products(criterion: &mut Criterion<ThreadTime>, base: u64) {
    const SIDE: c_int = 512;
    const HALF: c_int = 2;
    /// `CUBLAS_COMPUTE_32F`.
    const COMPUTE: c_int = 68;
    let [a, b, c] = [base, base + BLOCK, base + 2 * BLOCK];
    let mut group = criterion.benchmark_group("products");
    let [mut handle, mut product, mut layout] = [0; 3];
    // SAFETY: the outputs are locals.
    unsafe {
        assert_eq!(cublasCreate_v2(&raw mut handle), 0);
        assert_eq!(cublasLtMatmulDescCreate(&raw mut product, COMPUTE, 0), 0);
        let side = SIDE as u64;
        let made = cublasLtMatrixLayoutCreate(&raw mut layout, HALF, side, side, i64::from(SIDE));
        assert_eq!(made, 0);
    }
    group.bench_function("cublasGemmEx", |bencher| {
        bencher.iter(|| {
            // SAFETY: a valid handle; nothing is read through the addresses.
            let status = unsafe {
                cublasGemmEx(
                    handle, 0, 0, SIDE, SIDE, SIDE, 0, a, HALF, SIDE, b, HALF, SIDE, 0, c, HALF,
                    SIDE, COMPUTE, 0,
                )
            };
            assert_eq!(status, 0);
        });
    });
    group.bench_function("cublasLtMatmul", |bencher| {
        bencher.iter(|| {
            // SAFETY: valid handles; nothing is read through the addresses.
            let status = unsafe {
                cublasLtMatmul(
                    handle,
                    product,
                    1,
                    a,
                    layout,
                    b,
                    layout,
                    1,
                    c,
                    layout,
                    c,
                    layout,
                    std::ptr::null(),
                    0,
                    0,
                    0,
                )
            };
            assert_eq!(status, 0);
        });
    });
    group.finish();
}

fn streams(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("stream");
    let (mut stream, mut event, mut word) = (0, 0, 0);
    // SAFETY: the outputs are locals.
    unsafe {
        assert_eq!(cudaStreamCreateWithPriority(&raw mut stream, 1, 0), 0);
        assert_eq!(cudaEventCreateWithFlags(&raw mut event, 2), 0);
    }
    let mut time = |name: &str, call: &mut dyn FnMut() -> c_int| {
        group.bench_function(name, |bencher| bencher.iter(|| assert_eq!(call(), 0)));
    };
    // SAFETY: handles made above, outputs that are locals.
    unsafe {
        time("cudaGetDevice", &mut || cudaGetDevice(&raw mut word));
        time("cudaGetLastError", &mut || cudaGetLastError());
        time("cudaStreamIsCapturing", &mut || {
            cudaStreamIsCapturing(0, &raw mut word)
        });
        time("cudaStreamIsCapturing_of_another", &mut || {
            cudaStreamIsCapturing(stream, &raw mut word)
        });
        time("cudaStreamSynchronize", &mut || {
            cudaStreamSynchronize(stream)
        });
        time("cudaStreamWaitEvent", &mut || {
            cudaStreamWaitEvent(stream, event, 0)
        });
        time("cudaEventRecord", &mut || cudaEventRecord(event, stream));
        time("cudaEventQuery", &mut || cudaEventQuery(event));
        time("cudaEventCreate_Destroy", &mut || {
            let mut made = 0;
            cudaEventCreateWithFlags(&raw mut made, 2) + cudaEventDestroy(made)
        });
    }
    group.finish();
}
