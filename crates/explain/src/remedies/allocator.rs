//! Settings of PyTorch's allocator, which help when it holds memory that no tensor uses.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::{Backend, Format};
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "expandable_segments",
        title: "segments that grow",
        serves: &[CauseId::Fragmentation],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: expandable,
    },
    Kind {
        id: "one_setting_of_the_two",
        title: "only one of the two settings",
        serves: &[CauseId::Fragmentation],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: one_setting,
    },
    Kind {
        id: "empty_cache_between_phases",
        title: "the cache cleared between phases, not before the failing line",
        serves: &[CauseId::Fragmentation, CauseId::EvalPhase],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: empty_between,
    },
    Kind {
        id: "release_the_limit",
        title: "a higher limit",
        serves: &[CauseId::Limit, CauseId::FreeButFails],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: raise_limit,
    },
    Kind {
        id: "no_graphs",
        title: "fewer CUDA graphs, or none",
        serves: &[CauseId::CompileGraphs],
        numerics: Numerics::Rounding,
        cost: Cost::Little,
        write: no_graphs,
    },
];

/// The variable of the allocator's settings for this case.
fn variable(case: &Case<'_>) -> &'static str {
    if case.backend() == Backend::Hip {
        "PYTORCH_HIP_ALLOC_CONF"
    } else {
        // Every release reads this name; from 2.10 on it wins over the shorter one.
        "PYTORCH_CUDA_ALLOC_CONF"
    }
}

/// Whether this PyTorch on this system has expandable segments.
fn has_expandable(case: &Case<'_>) -> bool {
    let backend = matches!(case.backend(), Backend::Cuda | Backend::Hip);
    backend && !case.failure.torch.are_before(Release(2, 1)) && !case.cues.windows()
}

fn expandable(case: &Case<'_>) -> Option<Advice> {
    let balance = case.balance.as_ref()?;
    if case.cues.expandable_segments() {
        return None;
    }
    let idle = balance.idle_bytes;
    let variable = variable(case);
    let (code, how) = if has_expandable(case) {
        (
            format!("export {variable}=expandable_segments:True  # before the script starts"),
            "pieces between live tensors can then be joined",
        )
    } else if case.failure.torch.are_before(Release(1, 10)) {
        return None;
    } else {
        (
            format!("export {variable}=max_split_size_mb:128  # before the script starts"),
            "large blocks are then not split for small tensors",
        )
    };
    Some(Advice {
        saves: Saves::UpTo(idle),
        text: format!("{idle} is reserved without a tensor in it; {how}"),
        code,
    })
}

fn one_setting(case: &Case<'_>) -> Option<Advice> {
    case.is(Format::ExpandableAssert).then(|| Advice {
        saves: Saves::Unknown,
        text: "with expandable segments, a limit for splitting has no use, and the two fail together when memory runs out".into(),
        code: format!("export {}=expandable_segments:True  # without max_split_size_mb", variable(case)),
    })
}

fn empty_between(case: &Case<'_>) -> Option<Advice> {
    let idle = case.balance.as_ref()?.idle_bytes;
    (idle >= Bytes::from_mib(256)).then(|| Advice {
        saves: Saves::UpTo(idle),
        text: format!("at the end of a phase, when its tensors are gone, the {idle} of the cache go back to the driver and the next phase starts with whole segments"),
        code: "del batch, output, loss\ntorch.cuda.empty_cache()  # between training and evaluation, not in a step".into(),
    })
}

fn raise_limit(case: &Case<'_>) -> Option<Advice> {
    let figures = &case.failure.figures;
    let more = match (figures.total_bytes, figures.allowed_bytes) {
        (Some(total), Some(allowed)) => Saves::Exact(total.saturating_sub(allowed)),
        _ if case.is(Format::V2Preempt) => Saves::Unknown,
        _ => return None,
    };
    Some(Advice {
        saves: more,
        text: "the limit, and not the card, was reached; what it keeps back is there for the taking unless others need it".into(),
        code: "torch.cuda.set_per_process_memory_fraction(1.0)".into(),
    })
}

fn no_graphs(case: &Case<'_>) -> Option<Advice> {
    let pools = case.failure.figures.private_pools_bytes;
    let code = if case.cues.server() {
        "--enforce-eager   # vLLM; or fewer capture sizes and a lower --gpu-memory-utilization"
    } else {
        "model = torch.compile(model, mode=\"default\")  # not \"reduce-overhead\"; or torch._inductor.config.triton.cudagraphs = False"
    };
    Some(Advice {
        saves: pools.map_or(Saves::Unknown, Saves::UpTo),
        text: "private pools stay with the graphs they were captured for; without graphs their memory serves everything".into(),
        code: code.into(),
    })
}
