//! The words of each device. Remedies are written for NVIDIA's cards, where most failures are; AMD's answer to the same
//! Python with other programs, and the others have modules, programs and settings of their own. What has no counterpart
//! on a device is not offered there.

use crate::format::Backend;

/// NVIDIA's words and those of one device.
type Words = &'static [(&'static str, &'static str)];

const HIP: Words = &[
    (
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
        "rocm-smi --showpids --showmeminfo vram",
    ),
    ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    (
        "  # on cards before Ampere torch.float16 with a gradient scaler",
        "",
    ),
    (" CUDA_MODULE_LOADING=LAZY", ""),
];

const MPS: Words = &[
    (
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
        "top -l 1 -o mem -n 10  # main memory and the GPU's are one",
    ),
    (
        "torch.autocast(\"cuda\", dtype=torch.bfloat16):  # on cards before Ampere torch.float16 with a gradient scaler",
        "torch.autocast(\"mps\", dtype=torch.float16):  # PyTorch 2.5 and later",
    ),
    ("torch.cuda.", "torch.mps."),
    ("\"cuda\"", "\"mps\""),
];

const XPU: Words = &[
    (
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
        "xpu-smi ps",
    ),
    ("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
    (
        "  # on cards before Ampere torch.float16 with a gradient scaler",
        "",
    ),
    ("fused=True", "foreach=False"),
    ("torch.cuda.", "torch.xpu."),
    ("\"cuda\"", "\"xpu\""),
];

const NPU: Words = &[
    (
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
        "npu-smi info",
    ),
    ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"),
    (
        "  # on cards before Ampere torch.float16 with a gradient scaler",
        "",
    ),
    ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF"),
    ("torch.cuda.", "torch.npu."),
    ("\"cuda\"", "\"npu\""),
];

/// What is left of the code on a device when these words stand for no counterpart of it.
const ONLY_NVIDIA: &[&str] = &[
    "oomproof run",
    "bitsandbytes",
    "BitsAndBytes",
    "_record_memory_history",
    "memory_summary",
    "torch.cuda.amp",
    "NCCL_",
    "cudnn",
    "cudagraphs",
    "compute-sanitizer",
    "CUDA_LAUNCH_BLOCKING",
    "nvidia-smi -L",
];

/// The code in the words of a device; `None` when it says what only NVIDIA's have.
pub(crate) fn translated(code: &str, backend: Backend) -> Option<String> {
    let (words, lacks): (Words, &[&str]) = match backend {
        Backend::Cuda | Backend::Other | Backend::Host => return Some(code.to_owned()),
        Backend::Hip => (HIP, &["compute-sanitizer", "nvidia-smi -L"]),
        Backend::Mps => (MPS, ONLY_NVIDIA),
        Backend::Xpu => (XPU, ONLY_NVIDIA),
        Backend::Npu => (NPU, ONLY_NVIDIA),
    };
    let lacking = lacks.iter().any(|word| code.contains(word))
        // On Apple's devices there is one card, no allocator's settings of this kind, and no list-wise step to avoid.
        || (backend == Backend::Mps
            && ["_ALLOC_CONF", "VISIBLE_DEVICES", "fused=True", "LOCAL_RANK"]
                .iter()
                .any(|word| code.contains(word)))
        || (backend == Backend::Npu && code.contains("fused=True"))
        || (backend == Backend::Xpu && code.contains("_ALLOC_CONF"));
    (!lacking).then(|| {
        words.iter().fold(code.to_owned(), |code, (theirs, own)| {
            code.replace(theirs, own)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(backend: Backend, code: &str, expected: Option<&str>) {
        assert_eq!(
            translated(code, backend).as_deref(),
            expected,
            "{backend:?}"
        );
    }

    #[test]
    fn code_is_in_the_words_of_the_device() {
        let empty = "torch.cuda.empty_cache()";
        check(Backend::Cuda, empty, Some(empty));
        check(Backend::Hip, empty, Some(empty));
        check(Backend::Mps, empty, Some("torch.mps.empty_cache()"));
        check(Backend::Xpu, empty, Some("torch.xpu.empty_cache()"));
        check(Backend::Npu, empty, Some("torch.npu.empty_cache()"));
        let to = "x = x.to(\"cuda\", non_blocking=True)";
        check(Backend::Hip, to, Some(to));
        check(
            Backend::Mps,
            to,
            Some("x = x.to(\"mps\", non_blocking=True)"),
        );
        let eight_bit = "import bitsandbytes as bnb";
        check(Backend::Hip, eight_bit, Some(eight_bit));
        check(Backend::Mps, eight_bit, None);
        check(
            Backend::Hip,
            "CUDA_VISIBLE_DEVICES=1 python a.py",
            Some("HIP_VISIBLE_DEVICES=1 python a.py"),
        );
        check(Backend::Mps, "CUDA_VISIBLE_DEVICES=1 python a.py", None);
        check(Backend::Npu, "torch.optim.AdamW(p, fused=True)", None);
    }
}
