//! What programs can ask about a device: `cudaDeviceProp` in its two layouts, and the numbered attributes.

use oomproof_profile::DeviceSettings;

use crate::session::Session;
use crate::visible::uuid;

/// Compute capabilities for which PyTorch's wheels carry machine code, ascending.
const BINARIES: [u32; 9] = [50, 60, 70, 75, 80, 86, 90, 100, 120];

/// The compute capability, as major times ten plus minor, of the machine code that would run on the device.
pub(crate) fn binary_version(settings: &DeviceSettings) -> i32 {
    let (major, minor) = settings.compute_capability;
    let wanted = major * 10 + minor;
    let best = BINARIES
        .iter()
        .rev()
        .find(|version| **version <= wanted && **version / 10 == major);
    *best.unwrap_or(&wanted) as i32
}

/// `cudaDeviceProp`: the part that CUDA 12 has and CUDA 13 has not is written by [`Layout::Cuda12`] only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Cuda12,
    Cuda13,
}

/// Writes fields one after the other, aligned as C aligns them.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn aligned(&mut self, align: usize) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(align), 0);
    }

    fn int(&mut self, value: u32) {
        self.aligned(4);
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    fn ints(&mut self, values: &[u32]) {
        for value in values {
            self.int(*value);
        }
    }

    fn long(&mut self, value: u64) {
        self.aligned(8);
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }
}

/// The bytes of `cudaDeviceProp` for one device.
pub(crate) fn device_prop(session: &Session, machine: u32, layout: Layout) -> Vec<u8> {
    let device = &session.settings.device;
    let (major, minor) = device.compute_capability;
    let old = layout == Layout::Cuda12;
    let mut w = Writer {
        bytes: Vec::with_capacity(1100),
    };
    let mut name = device.name.clone().into_bytes();
    name.truncate(255);
    name.resize(256, 0);
    w.bytes.extend_from_slice(&name);
    w.bytes.extend_from_slice(&uuid(machine));
    w.bytes.extend_from_slice(&[0; 8]); // luid
    w.int(0); // luidDeviceNodeMask
    w.long(device.total_bytes);
    w.long(49_152); // sharedMemPerBlock
    w.ints(&[65_536, 32]); // regsPerBlock, warpSize
    w.long(i32::MAX as u64); // memPitch
    w.int(1024); // maxThreadsPerBlock
    w.ints(&[1024, 1024, 64, i32::MAX as u32, 65_535, 65_535]);
    if old {
        w.int(device.clock_khz);
    }
    w.long(65_536); // totalConstMem
    w.ints(&[major, minor]);
    w.long(512); // textureAlignment
    w.long(32); // texturePitchAlignment
    if old {
        w.int(1); // deviceOverlap
    }
    w.int(device.multiprocessors);
    if old {
        w.int(0); // kernelExecTimeoutEnabled
    }
    w.ints(&[0, 1]); // integrated, canMapHostMemory
    if old {
        w.int(0); // computeMode
    }
    w.ints(&[131_072, 32_768]); // maxTexture1D, maxTexture1DMipmap
    if old {
        w.int(268_435_456); // maxTexture1DLinear
    }
    w.ints(&[
        131_072, 65_536, 32_768, 32_768, 131_072, 65_000, 2_097_120, 32_768, 32_768,
    ]);
    w.ints(&[16_384, 16_384, 16_384, 8_192, 8_192, 32_768, 32_768]); // 3D, 3DAlt, cubemap
    w.ints(&[32_768, 2_048, 32_768, 32_768, 2_048, 32_768, 2_046]); // layered textures
    w.ints(&[
        32_768, 131_072, 65_536, 16_384, 16_384, 16_384, 32_768, 2_048, 32_768, 32_768, 2_048,
        32_768, 32_768, 2_046,
    ]);
    w.long(512); // surfaceAlignment
    w.ints(&[1, 0]); // concurrentKernels, ECCEnabled
    w.ints(&[1 + machine, 0, 0]); // PCI bus, device, domain
    w.ints(&[0, 2, 1]); // tccDriver, asyncEngineCount, unifiedAddressing
    if old {
        w.int(device.memory_clock_khz);
    }
    w.ints(&[
        device.memory_bus_bits,
        device.l2_cache_bytes,
        0,
        device.max_threads_per_multiprocessor,
    ]);
    w.ints(&[1, 1, 1]); // stream priorities, L1 caching
    w.long(u64::from(device.shared_memory_per_multiprocessor));
    w.int(device.registers_per_multiprocessor);
    w.ints(&[1, 0, 0, 0]); // managedMemory, isMultiGpuBoard, its group, hostNativeAtomicSupported
    if old {
        w.int(32); // singleToDoublePrecisionPerfRatio
    }
    w.ints(&[0, 1, 1, 1, 1]); // pageable, concurrent managed, preemption, host pointer, cooperative launch
    if old {
        w.int(0); // cooperativeMultiDeviceLaunch
    }
    w.long(u64::from(device.shared_memory_per_block_optin));
    w.ints(&[0, 0, device.max_blocks_per_multiprocessor, 0]);
    w.long(if major >= 8 { 1024 } else { 0 }); // reservedSharedMemPerBlock
    w.ints(&[1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1]); // host registration .. ipcEventSupported
    w.ints(&[u32::from(major >= 9), 1]); // clusterLaunch, unifiedFunctionPointers
    // CUDA 13 spent seven of the reserved words: NUMA of device and host, MPS, PCI ids.
    w.ints(&if old {
        [0; 7]
    } else {
        [0, u32::MAX, 0, u32::MAX, 0, 0, 0]
    });
    w.ints(&[0; 56]);
    w.aligned(8);
    w.bytes
}

/// An attribute by its number in `CUdevice_attribute`, which is also that of `cudaDeviceAttr`; `None` for one that is
/// not known.
pub(crate) fn attribute(session: &Session, machine: u32, number: i32) -> Option<i32> {
    let device = &session.settings.device;
    let (major, minor) = device.compute_capability;
    let value = match number {
        1..=3 => 1024,             // threads per block, block dimensions x and y
        4 => 64,                   // block dimension z
        5 | 11 => i32::MAX as u32, // grid dimension x, pitch
        6 | 7 => 65_535,           // grid dimensions y and z
        8 => 49_152,               // shared memory per block
        9 | 12 => 65_536,          // constant memory, registers per block
        10 => 32,                  // warp
        13 => device.clock_khz,
        14 => 512,              // texture alignment
        15 | 19 | 31 | 41 => 1, // overlap, host mapping, concurrent kernels, unified addressing
        16 => device.multiprocessors,
        17 | 18 | 20 | 32 | 34 | 35 | 50 => 0, // timeout, integrated, compute mode, ECC, PCI device, TCC, PCI domain
        33 => 1 + machine,                     // PCI bus
        36 => device.memory_clock_khz,
        37 => device.memory_bus_bits,
        38 => device.l2_cache_bytes,
        39 => device.max_threads_per_multiprocessor,
        40 => 2,  // copy engines
        51 => 32, // texture pitch alignment
        75 => major,
        76 => minor,
        78..=80 | 83 => 1, // stream priorities, L1 caching, managed memory
        81 => device.shared_memory_per_multiprocessor,
        82 => device.registers_per_multiprocessor,
        84..=86 | 88 => 0, // multi-GPU board, its group, host atomics, pageable access
        87 => 32,          // single to double ratio
        89..=91 | 95 => 1, // concurrent managed, preemption, host pointers, cooperative launch
        92..=94 | 96 | 98 => 0, // stream memory operations, multi-device launch, remote writes
        97 => device.shared_memory_per_block_optin,
        99 | 102 | 103 => 1, // host registration, virtual memory, shareable as descriptors
        100 | 101 | 104 | 105 | 107 => 0,
        106 => device.max_blocks_per_multiprocessor,
        108..=110 | 112 | 114 | 116..=118 | 124 | 130 | 132 => 0,
        111 => {
            if major >= 8 {
                1024
            } else {
                0
            }
        } // reserved shared memory per block
        113 | 115 | 119 | 125 | 128 => 1, // read-only registration, memory pools, events between processes
        120 => u32::from(major >= 9),     // clusters
        121 => 0,
        131 | 134 => u32::MAX, // NUMA nodes: none
        _ => return None,
    };
    Some(value.cast_signed())
}
