//! The words by which failures are found, in squeezed text. The first that fits a place counts, so the longer and
//! more telling ones stand first.

use crate::format::{Backend, Format};

/// What the words stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// PyTorch's caching allocator; the clauses that follow say which generation.
    Allocator(Backend),
    /// This kind of text.
    Text(Backend, Format),
}

use Backend::{Cuda, Hip, Host, Mps, Npu, Other, Xpu};
use Means::{Allocator, Text};

/// All words.
pub(crate) const ANCHORS: &[(&str, Means)] = &[
    ("mpsbackendoutofmemory", Text(Mps, Format::Mps)),
    ("invalidbuffersize:", Text(Mps, Format::MpsBuffer)),
    ("cudaoutofmemory", Allocator(Cuda)),
    ("hipoutofmemory", Allocator(Hip)),
    ("xpuoutofmemory", Allocator(Xpu)),
    ("dpcppoutofmemory", Allocator(Xpu)),
    (
        "cannotallocatememoryblockwithsizelargerthan",
        Allocator(Xpu),
    ),
    ("npuoutofmemory", Allocator(Npu)),
    ("cnrtoutofmemory", Allocator(Other)),
    ("mluoutofmemory", Allocator(Other)),
    ("musaoutofmemory", Allocator(Other)),
    ("memoryallocationfailedwithoom", Text(Cuda, Format::Cut)),
    ("c10outofmemory", Text(Host, Format::CpuAllocator)),
    ("allocationondevice", Text(Cuda, Format::AsyncStub)),
    (
        "cudadrivererror:outofmemory",
        Text(Cuda, Format::CudaDriverError),
    ),
    // What older drivers say in the same place.
    (
        "cudadrivererror:invalidargument",
        Text(Cuda, Format::CudaDriverError),
    ),
    (
        "hipdrivererror:outofmemory",
        Text(Hip, Format::CudaDriverError),
    ),
    ("hiperror:outofmemory", Text(Hip, Format::BareCudaError)),
    (
        "cudaruntimeerror(2):outofmemory",
        Text(Cuda, Format::ThcRuntime),
    ),
    ("error=2:outofmemory", Text(Cuda, Format::ThcRuntime)),
    ("::launch():outofmemory", Text(Cuda, Format::ThcRuntime)),
    (
        "cudafailedwitherroroutofmemory",
        Text(Cuda, Format::LibraryAllocator),
    ),
    (
        "cudaerrormemoryallocation:outofmemory",
        Text(Cuda, Format::LibraryAllocator),
    ),
    (
        "cudaerrormemoryallocationoutofmemory",
        Text(Cuda, Format::LibraryAllocator),
    ),
    (
        "cuda_error_out_of_memory",
        Text(Cuda, Format::LibraryAllocator),
    ),
    ("resource_exhausted:", Text(Cuda, Format::LibraryAllocator)),
    ("cudafailure2'outofmemory'", Text(Cuda, Format::Nccl)),
    ("cudafailure'outofmemory'", Text(Cuda, Format::Nccl)),
    ("failedtocudacalloc", Text(Cuda, Format::Nccl)),
    ("ncclerror1:unhandledcudaerror", Text(Cuda, Format::Nccl)),
    ("ncclunhandledcudaerror", Text(Cuda, Format::Nccl)),
    ("unhandledcudaerror,ncclversion", Text(Cuda, Format::Nccl)),
    ("cudaerror:outofmemory", Text(Cuda, Format::BareCudaError)),
    (
        "outofmemory:killedprocess",
        Text(Host, Format::ProcessKilled),
    ),
    ("exitcode:-9", Text(Host, Format::ProcessKilled)),
    ("signal9(sigkill)", Text(Host, Format::ProcessKilled)),
    ("oom-kill", Text(Host, Format::ProcessKilled)),
    ("defaultcpuallocator:", Text(Host, Format::CpuAllocator)),
    (
        "posix_memalign(&data,galignment,nbytes)",
        Text(Host, Format::CpuAllocator),
    ),
    ("outofsharedmemory.", Text(Host, Format::DataloaderShm)),
    ("killedbysignal:buserror", Text(Host, Format::DataloaderShm)),
    (
        "killedbysignal:killed",
        Text(Host, Format::DataloaderKilled),
    ),
    ("_arraymemoryerror", Text(Host, Format::HostError)),
    (
        "[errno12]cannotallocatememory",
        Text(Host, Format::HostError),
    ),
    ("inpinmemorythread", Text(Host, Format::PinThread)),
    (
        "expandable_segment_internalassertfailed",
        Text(Cuda, Format::ExpandableAssert),
    ),
    ("nvml_success==r", Text(Cuda, Format::NvmlAssert)),
    ("nvml_success==", Text(Cuda, Format::NvmlAssert)),
    (
        "nvmldevicegethandlebypcibusid",
        Text(Cuda, Format::NvmlAssert),
    ),
    (
        "cublas_status_alloc_failed",
        Text(Cuda, Format::CublasMasked),
    ),
    (
        "cublas_status_not_initialized",
        Text(Cuda, Format::CublasMasked),
    ),
    (
        "hipblas_status_alloc_failed",
        Text(Hip, Format::CublasMasked),
    ),
    (
        "cudnn_status_not_initialized",
        Text(Cuda, Format::CudnnMasked),
    ),
    ("cudnn_status_alloc_failed", Text(Cuda, Format::CudnnMasked)),
    (
        "cudnn_status_internal_error",
        Text(Cuda, Format::CudnnMasked),
    ),
    (
        "cudnn_status_execution_failed",
        Text(Cuda, Format::CudnnMasked),
    ),
    (
        "unabletofindavalidcudnnalgorithm",
        Text(Cuda, Format::CudnnMasked),
    ),
    (
        "getwasunabletofindanengine",
        Text(Cuda, Format::CudnnMasked),
    ),
    (
        "findwasunabletofindanengine",
        Text(Cuda, Format::CudnnMasked),
    ),
    ("miopenstatus", Text(Hip, Format::CudnnMasked)),
    (
        "cusolver_status_internal_error",
        Text(Cuda, Format::CusolverMasked),
    ),
    (
        "cusolver_status_alloc_failed",
        Text(Cuda, Format::CusolverMasked),
    ),
    (
        "cusparse_status_alloc_failed",
        Text(Cuda, Format::CusolverMasked),
    ),
    (
        "cusparse_status_insufficient_resources",
        Text(Cuda, Format::CusolverMasked),
    ),
    ("cufft_alloc_failed", Text(Cuda, Format::CusolverMasked)),
    (
        "noavailablememoryforthecacheblocks",
        Text(Cuda, Format::CacheBlocks),
    ),
    (
        "noexecutablebatchsizefound",
        Text(Cuda, Format::BatchFinder),
    ),
    (
        "outofresource:sharedmemory",
        Text(Cuda, Format::TritonResources),
    ),
    ("outofresources:", Text(Cuda, Format::TritonResources)),
    ("outofresource:", Text(Cuda, Format::TritonResources)),
    (
        "toomanyresourcesrequestedforlaunch",
        Text(Cuda, Format::TritonResources),
    ),
    (
        "anillegalmemoryaccesswasencountered",
        Text(Cuda, Format::OtherCudaError),
    ),
    (
        "device-sideasserttriggered",
        Text(Cuda, Format::OtherCudaError),
    ),
    ("outofmemory.triedtoallocate", Allocator(Other)),
    // A text whose beginning was cut.
    ("triedtoallocate", Allocator(Cuda)),
    ("reservedintotalbypytorch", Allocator(Cuda)),
    ("isreservedbypytorchbutunallocated", Allocator(Cuda)),
];
