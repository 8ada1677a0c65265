//! Kernels and the libraries they come from.

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Format;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "smaller_kernel_blocks",
        title: "smaller blocks of the kernel",
        serves: &[CauseId::NotMemory],
        numerics: Numerics::Rounding,
        cost: Cost::Little,
        write: smaller_blocks,
    },
    Kind {
        id: "find_the_kernel",
        title: "the kernel that failed",
        serves: &[CauseId::NotMemory],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: find,
    },
    Kind {
        id: "no_cudnn_benchmark",
        title: "cuDNN without benchmark mode",
        serves: &[CauseId::Cudnn],
        numerics: Numerics::Rounding,
        cost: Cost::Little,
        write: no_benchmark,
    },
];

fn smaller_blocks(case: &Case<'_>) -> Option<Advice> {
    case.is(Format::TritonResources).then(|| Advice {
        saves: Saves::Unknown,
        text: "the on-chip memory of a block follows from the kernel's block sizes and stages; the kernel was tuned for a chip with more of it".into(),
        code: "# in the kernel's configuration\ntriton.Config({\"BLOCK_M\": 64, \"BLOCK_N\": 64, \"BLOCK_K\": 32}, num_stages=2, num_warps=4)".into(),
    })
}

fn find(case: &Case<'_>) -> Option<Advice> {
    (!case.is(Format::TritonResources)).then(|| Advice {
        saves: Saves::Unknown,
        text: "errors of kernels are reported later than they happen; this makes the traceback point at the call".into(),
        code: "CUDA_LAUNCH_BLOCKING=1 python SCRIPT\ncompute-sanitizer python SCRIPT".into(),
    })
}

fn no_benchmark(_case: &Case<'_>) -> Option<Advice> {
    Some(Advice {
        saves: Saves::Unknown,
        text: "benchmark mode tries algorithms with large work spaces; without it cuDNN takes one that fits, and the text of a real shortage is PyTorch's own".into(),
        code: "torch.backends.cudnn.benchmark = False".into(),
    })
}
