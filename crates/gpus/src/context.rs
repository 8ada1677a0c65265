//! What a CUDA context takes on a device, as a range.
//!
//! No library reports it and no table of it is published, so it is estimated from public reports in which a
//! process says both what it uses and what PyTorch reserved. With nothing but a context the figures follow the
//! number of threads that can be resident at once (the driver backs the local memory of all of them); kernels,
//! cuBLAS and cuDNN are loaded when they are first used and come on top. The range covers both.

use oomproof_profile::Range;
use oomproof_units::Bytes;

use crate::gpu::Gpu;

/// From CUDA 11.7 on kernels can be loaded when they are first used; before, all are loaded at the start.
const FIRST_LAZY: u32 = 11_070;
/// From CUDA 12.2 on that is the driver's default. Between, it needs a driver that knows it, and PyTorch, which asks
/// for it, must be the first in the process to use CUDA: reports of all kernels are as common as others.
const LAZY_BY_DEFAULT: u32 = 12_020;

/// A context takes this much on any device ...
const BASE: Bytes = Bytes::from_mib(30);
/// ... and this much for each thread that can be resident: 1.85 KiB.
const PER_RESIDENT_THREAD: Bytes = Bytes::new(1894);

/// Kernels and library code of an ordinary training script.
const KERNELS_LIKELY: Bytes = Bytes::from_mib(40);
/// The most that was seen in 53 processes that use one GPU is 250 MiB over the bare context, on an H100 NVL.
const KERNELS_HIGH: Bytes = Bytes::from_mib(400);
/// All kernels of PyTorch, cuBLAS and cuDNN loaded at once.
const ALL_KERNELS_LIKELY: Bytes = Bytes::from_mib(700);
/// The most that was seen is 1150 MiB over the bare context, on an A100.
const ALL_KERNELS_HIGH: Bytes = Bytes::from_mib(1200);

/// Where the constants of [`context_bytes`] come from.
pub const CONTEXT_SOURCES: &[&str] = &[
    "bare contexts: six reports on Titan V, T4, RTX 4090, RTX 6000 Ada, A100 40GB and H100, within 12 MiB of the line",
    "kernels: 53 out-of-memory texts and measurements that state both memory in use and memory reserved",
    "all kernels at once: seven reports with CUDA 10.1 to 12.1, on Titan V, V100, A100, RTX 3090 and RTX A6000",
];

/// What one process takes on `gpu` outside PyTorch's allocator: the context, kernels, and the code of cuBLAS and
/// cuDNN. Memory that libraries allocate for data (NCCL buffers, cuFFT plans, CUDA graphs) is not in it.
///
/// `cuda_version` is that of the user's torch as CUDA writes it: 13020 for 13.2.
pub fn context_bytes(gpu: &Gpu, cuda_version: u32) -> Range {
    let bare = BASE.get() + PER_RESIDENT_THREAD.get() * gpu.resident_threads();
    let kernels_likely = if cuda_version < FIRST_LAZY {
        ALL_KERNELS_LIKELY
    } else {
        KERNELS_LIKELY
    };
    let kernels_high = if cuda_version < LAZY_BY_DEFAULT {
        ALL_KERNELS_HIGH
    } else {
        KERNELS_HIGH
    };
    Range {
        low: bare * 3 / 4,
        likely: bare + kernels_likely.get(),
        high: bare * 5 / 4 + kernels_high.get(),
    }
}

/// The same for a process that loads all kernels at its start, as `CUDA_MODULE_LOADING=EAGER` makes it with any CUDA.
pub fn context_bytes_all_kernels(gpu: &Gpu) -> Range {
    context_bytes(gpu, FIRST_LAZY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    /// A report: the GPU, the CUDA version, MiB outside the allocator, and where it is from.
    type Report = (&'static str, u32, u64, &'static str);

    const LAZY: u32 = 12_080;
    const EITHER: u32 = 12_010;

    /// Contexts of processes that had run nothing yet; the line is fitted to them.
    const BARE: &[Report] = &[
        (
            "t4",
            LAZY,
            105,
            "torch 2.11+cu128, total - free after torch.cuda.init()",
        ),
        (
            "rtx-4090",
            LAZY,
            386,
            "torch 2.10+cu128, out-of-memory text with 0 bytes allocated",
        ),
        (
            "rtx-6000-ada",
            13_000,
            426,
            "torch 2.10+cu130, first mem_get_info",
        ),
        (
            "a100-40gb",
            LAZY,
            418,
            "second process in an out-of-memory text",
        ),
        (
            "h100-80gb",
            LAZY,
            522,
            "second process in an out-of-memory text",
        ),
    ];

    /// Processes at work: memory in use less what PyTorch reserved. Texts print two decimals of GiB, so those
    /// figures are good to about 10 MiB. Where a text does not name the GPU it is the one with that capacity.
    const AT_WORK: &[Report] = &[
        ("t4", LAZY, 131, "torch 2.11+cu128, after the first matmul"),
        (
            "t4",
            LAZY,
            135,
            "torch 2.11+cu128, after the first convolution",
        ),
        ("t4", LAZY, 141, "torch 2.10 and 2.14, 79 fine-tuning runs"),
        ("t4", LAZY, 111, "14.76 GiB card, language-model server"),
        ("t4", LAZY, 128, "14.56 GiB card, notebook"),
        ("t4", LAZY, 142, "14.74 GiB card, notebook"),
        ("rtx-3090", LAZY, 297, "23.69 GiB card, torch 2.1"),
        ("rtx-3090", LAZY, 315, "23.68 GiB card, generation"),
        ("rtx-3090", LAZY, 358, "23.56 GiB card, diffusion"),
        ("rtx-3090", LAZY, 420, "23.69 GiB card, LoRA"),
        ("rtx-4090", LAZY, 439, "23.64 GiB card, training"),
        ("l4", LAZY, 255, "22.05 GiB, speculative decoding tests"),
        ("rtx-a6000", LAZY, 294, "47.53 GiB card, notebook"),
        ("rtx-a6000", LAZY, 304, "47.53 GiB card, convolutions"),
        ("rtx-a6000", LAZY, 309, "47.53 GiB card, convolutions"),
        ("rtx-a6000", LAZY, 317, "47.53 GiB card, batch norm"),
        ("rtx-a6000", LAZY, 321, "47.53 GiB card, DeBERTa"),
        ("rtx-6000-ada", LAZY, 491, "47.50 GiB card, training"),
        ("l40s", LAZY, 421, "44.52 GiB card, quantization"),
        ("l40s", LAZY, 517, "44.52 GiB card, convolutions"),
        ("rtx-5090", LAZY, 489, "31.37 GiB card, model load"),
        ("rtx-5090", LAZY, 499, "31.37 GiB card, quantization"),
        (
            "rtx-5090",
            LAZY,
            654,
            "31.36 GiB card, language-model server",
        ),
        ("h200", LAZY, 670, "139.72 GiB card, generation"),
        (
            "b200",
            LAZY,
            712,
            "178.35 GiB card, three elementwise kernels",
        ),
        ("h100-80gb", LAZY, 666, "79.10 GiB card, large tensors"),
        ("h100-nvl", LAZY, 601, "93.10 GiB card, 4-bit model"),
        (
            "h100-nvl",
            LAZY,
            768,
            "93.10 GiB card, evaluation of a U-Net",
        ),
        ("h100-nvl", LAZY, 768, "93.10 GiB card, LoRA"),
        ("a100-80gb", LAZY, 511, "79.25 GiB card, graph clustering"),
        ("a100-80gb", LAZY, 522, "79.25 GiB card, embedding model"),
        ("a100-40gb", LAZY, 422, "39.49 GiB card, one of four ranks"),
        ("a100-40gb", LAZY, 504, "39.49 GiB card, training"),
        ("v100-32gb", LAZY, 389, "31.73 GiB card, image training"),
        ("v100-32gb", LAZY, 379, "31.73 GiB card, image training"),
        ("v100-32gb", LAZY, 399, "31.73 GiB card, documentation"),
        ("l4", LAZY, 251, "22.03 GiB card, test-time training"),
        ("l4", LAZY, 264, "22.03 GiB card, detection benchmark"),
        ("rtx-a6000", LAZY, 326, "47.53 GiB card, compiled model"),
        ("rtx-a6000", LAZY, 328, "47.53 GiB card, dropout"),
        ("rtx-a6000", LAZY, 328, "47.53 GiB card, distillation"),
        ("h200", LAZY, 525, "139.81 GiB card, unlearning with LoRA"),
        ("rtx-3060", LAZY, 99, "11.63 GiB card, model load"),
        (
            "rtx-4060-ti-16gb",
            LAZY,
            124,
            "15.56 GiB card, speech model",
        ),
        ("rtx-5060-ti-16gb", LAZY, 174, "15.51 GiB card, training"),
        ("rtx-4060", LAZY, 113, "7.63 GiB card, generation"),
        ("rtx-4060", LAZY, 134, "7.65 GiB card, features of images"),
        ("2080-ti", LAZY, 189, "10.56 GiB card, attention"),
        ("2080-ti", LAZY, 191, "10.57 GiB card, training"),
        (
            "rtx-pro-6000-server",
            LAZY,
            692,
            "94.97 GiB card, fine-tuning",
        ),
        (
            "rtx-pro-6000-server",
            LAZY,
            696,
            "94.97 GiB card, attention",
        ),
        ("a10", LAZY, 308, "21.98 GiB card, torch 2.4 or 2.5, trials"),
        ("rtx-4050-laptop", LAZY, 106, "5.64 GiB card, model load"),
        ("rtx-3090", EITHER, 1188, "23.70 GiB card, torch 2.1, LoRA"),
        ("rtx-a6000", EITHER, 859, "47.54 GiB card, torch 2.1"),
        (
            "a100-80gb",
            EITHER,
            1580,
            "torch 2.1, half of the card allowed",
        ),
        (
            "v100-32gb",
            EITHER,
            1218,
            "torch 2.1, a process that only uses another device",
        ),
        (
            "v100-16gb",
            11_020,
            1343,
            "torch 1.10, CUDA 11.2, one tensor of one element",
        ),
    ];

    #[test]
    fn covers_the_public_reports() {
        for &(name, cuda_version, mib, source) in BARE.iter().chain(AT_WORK) {
            let range = context_bytes(find(name).unwrap(), cuda_version);
            let seen = Bytes::from_mib(mib).get();
            assert!(
                (range.low..=range.high).contains(&seen),
                "{name}, {source}: {mib} MiB is not in {range:?}"
            );
        }
    }

    #[test]
    fn bare_contexts_lie_on_the_line() {
        for &(name, _, mib, source) in BARE {
            let gpu = find(name).unwrap();
            let line = BASE.get() + PER_RESIDENT_THREAD.get() * gpu.resident_threads();
            let off = line.abs_diff(Bytes::from_mib(mib).get());
            assert!(off <= Bytes::from_mib(13).get(), "{name}, {source}");
        }
    }

    fn check(name: &str, cuda_version: u32, mib: (u64, u64, u64)) {
        let range = context_bytes(find(name).unwrap(), cuda_version);
        let rounded = |bytes: u64| (bytes + (1 << 19)) >> 20;
        let found = (
            rounded(range.low),
            rounded(range.likely),
            rounded(range.high),
        );
        assert_eq!(found, mib, "{name}");
    }

    #[test]
    fn loading_all_kernels_takes_what_it_took_before_there_was_a_choice() {
        for name in ["t4", "a100-40gb", "h100-80gb"] {
            let gpu = find(name).unwrap();
            let all = context_bytes_all_kernels(gpu);
            assert_eq!(all, context_bytes(gpu, 11_020), "{name}");
            assert!(all.high > context_bytes(gpu, LAZY).high, "{name}");
        }
    }

    #[test]
    fn larger_devices_take_more() {
        check("t4", 13_020, (78, 144, 530));
        check("rtx-4090", 13_020, (289, 425, 881));
        check("h100", 13_020, (389, 558, 1048));
        check("v100-16gb", 11_020, (244, 1026, 1607));
        check("v100-16gb", 12_010, (244, 366, 1607));
        check("a100-80gb:1g.10gb", 13_020, (61, 122, 502));
    }
}
