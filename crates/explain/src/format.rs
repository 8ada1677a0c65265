//! What kind of text it is. Which one tells the age of PyTorch, and whether the text can have figures at all.

use serde::Serialize;

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// NVIDIA.
    Cuda,
    /// AMD.
    Hip,
    /// Apple.
    Mps,
    /// Intel.
    Xpu,
    /// Huawei Ascend.
    Npu,
    /// Another accelerator.
    Other,
    /// The computer's own memory.
    Host,
}

/// The kinds of texts; `docs/explain.md` shows one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// PyTorch's allocator, 1.0 to 1.3: `cached`.
    V1Cached,
    /// 1.4 to 1.9: `reserved in total`.
    V1Reserved,
    /// 1.10 to 2.0: the same with a hint.
    V1ReservedHint,
    /// 2.1: `capacty`.
    V2Capacty,
    /// 2.2 and later.
    V2Capacity,
    /// 2.4 and later, with private pools.
    V2Pools,
    /// 2.12 and later: refused for a memory fraction.
    V2Preempt,
    /// A size that no memory has.
    AbsurdSize,
    /// PyTorch's allocator, cut before its figures.
    Cut,
    /// `cudaMallocAsync`, with its figures.
    AsyncMultiline,
    /// `cudaMallocAsync`, without.
    AsyncStub,
    /// Before 1.0.
    ThcRuntime,
    /// `CUDA error: out of memory`: not from PyTorch's allocator.
    BareCudaError,
    /// `CUDA driver error: out of memory`.
    CudaDriverError,
    /// Apple's GPUs.
    Mps,
    /// Apple's GPUs: one buffer too large.
    MpsBuffer,
    /// Intel's GPUs, older.
    XpuV1,
    /// Intel's GPUs.
    XpuV2,
    /// Ascend.
    NpuV1,
    /// The allocator of the computer's memory.
    CpuAllocator,
    /// A worker without shared memory.
    DataloaderShm,
    /// A worker that the system ended.
    DataloaderKilled,
    /// The system ended a process for lack of memory.
    ProcessKilled,
    /// Python or NumPy found no memory.
    HostError,
    /// The thread that pins memory.
    PinThread,
    /// The text could not be built, because NVML refused.
    NvmlAssert,
    /// cuBLAS.
    CublasMasked,
    /// cuDNN.
    CudnnMasked,
    /// cuSOLVER, cuSPARSE, cuFFT.
    CusolverMasked,
    /// `max_split_size_mb` beside `expandable_segments`.
    ExpandableAssert,
    /// NCCL.
    Nccl,
    /// Another library's own allocator.
    LibraryAllocator,
    /// A server found no room for its cache.
    CacheBlocks,
    /// A search for the batch size came to its end.
    BatchFinder,
    /// The chip's own memory, of a kernel.
    TritonResources,
    /// A CUDA error that is not about memory running out.
    OtherCudaError,
    /// No text: an entry of a memory snapshot.
    Snapshot,
    /// No text: PyTorch's allocator gave up in a recorded run.
    RunGaveUp,
    /// No text: the driver refused somebody else's request in a recorded run.
    RunRefused,
}

impl Format {
    /// The word in the JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::V1Cached => "v1_cached",
            Self::V1Reserved => "v1_reserved",
            Self::V1ReservedHint => "v1_reserved_hint",
            Self::V2Capacty => "v2_capacty",
            Self::V2Capacity => "v2_capacity",
            Self::V2Pools => "v2_pools",
            Self::V2Preempt => "v2_preempt",
            Self::AbsurdSize => "absurd_size",
            Self::Cut => "cut",
            Self::AsyncMultiline => "async_multiline",
            Self::AsyncStub => "async_stub",
            Self::ThcRuntime => "thc_runtime",
            Self::BareCudaError => "bare_cuda_error",
            Self::CudaDriverError => "cuda_driver_error",
            Self::Mps => "mps",
            Self::MpsBuffer => "mps_buffer",
            Self::XpuV1 => "xpu_v1",
            Self::XpuV2 => "xpu_v2",
            Self::NpuV1 => "npu_v1",
            Self::CpuAllocator => "cpu_allocator",
            Self::DataloaderShm => "dataloader_shm",
            Self::DataloaderKilled => "dataloader_killed",
            Self::ProcessKilled => "process_killed",
            Self::HostError => "host_error",
            Self::PinThread => "pin_thread",
            Self::NvmlAssert => "nvml_assert",
            Self::CublasMasked => "cublas_masked",
            Self::CudnnMasked => "cudnn_masked",
            Self::CusolverMasked => "cusolver_masked",
            Self::ExpandableAssert => "expandable_assert",
            Self::Nccl => "nccl",
            Self::LibraryAllocator => "library_allocator",
            Self::CacheBlocks => "cache_blocks",
            Self::BatchFinder => "batch_finder",
            Self::TritonResources => "triton_resources",
            Self::OtherCudaError => "other_cuda_error",
            Self::Snapshot => "snapshot",
            Self::RunGaveUp => "run_gave_up",
            Self::RunRefused => "run_refused",
        }
    }

    /// Whether the text itself says that memory of a device ran out, and is not another library's word for it.
    pub(crate) const fn is_explicit(self) -> bool {
        self.is_of_allocator()
            || matches!(
                self,
                Self::Mps
                    | Self::MpsBuffer
                    | Self::CpuAllocator
                    | Self::CudaDriverError
                    | Self::ThcRuntime
                    | Self::TritonResources
                    | Self::DataloaderShm
                    | Self::Snapshot
                    | Self::RunGaveUp
                    | Self::RunRefused
            )
    }

    /// Whether it stands for PyTorch's allocator giving up, and no text was written.
    pub(crate) const fn is_record_of_allocator(self) -> bool {
        matches!(self, Self::Snapshot | Self::RunGaveUp)
    }

    /// Whether a caching allocator of PyTorch wrote it.
    pub(crate) const fn is_of_allocator(self) -> bool {
        matches!(
            self,
            Self::V1Cached
                | Self::V1Reserved
                | Self::V1ReservedHint
                | Self::V2Capacty
                | Self::V2Capacity
                | Self::V2Pools
                | Self::V2Preempt
                | Self::AbsurdSize
                | Self::Cut
                | Self::AsyncMultiline
                | Self::AsyncStub
                | Self::XpuV1
                | Self::XpuV2
                | Self::NpuV1
        )
    }
}
