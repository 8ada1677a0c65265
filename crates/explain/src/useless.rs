//! Popular remedies that cannot help in this case, with the reason. People lose days with them, so each is named only
//! when the evidence rules it out, and not when it merely helps little.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::{Backend, Format};
use crate::judge::Candidate;
use crate::moment::Moment;
use crate::remedy::Remedy;

/// A remedy that cannot help here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Useless {
    /// Word by which programs tell them apart; `docs/explain.md` lists them.
    pub id: &'static str,
    /// What people do.
    pub title: &'static str,
    /// Why it cannot help here.
    pub why: String,
}

type Why = fn(&Case<'_>, CauseId) -> Option<String>;

/// What people do, and why it would be in vain.
const POPULAR: &[(&str, &str, Why)] = &[
    (
        "empty_cache",
        "torch.cuda.empty_cache() before the failing line",
        empty_cache,
    ),
    (
        "allocator_hint",
        "the setting that the message advises",
        allocator_hint,
    ),
    ("smaller_batch", "a smaller batch", smaller_batch),
    (
        "gradient_accumulation",
        "gradient accumulation",
        accumulation,
    ),
    ("larger_gpu", "a larger GPU", larger_gpu),
    ("collect_garbage", "gc.collect() and del", collect),
    (
        "memory_fraction",
        "set_per_process_memory_fraction",
        fraction,
    ),
    ("launch_blocking", "CUDA_LAUNCH_BLOCKING=1", launch_blocking),
    (
        "device_assertions",
        "recompiling with TORCH_USE_CUDA_DSA",
        device_assertions,
    ),
];

/// What cannot help; `first` is the likeliest cause. What is offered against another one may help after all.
pub(crate) fn useless(
    case: &Case<'_>,
    first: Option<&Candidate>,
    offered: &[Remedy],
) -> Vec<Useless> {
    let Some(first) = first else {
        return Vec::new();
    };
    POPULAR
        .iter()
        .filter(|(id, ..)| offered.iter().all(|remedy| remedy.id != *id))
        .filter_map(|(id, title, why)| {
            Some(Useless {
                id,
                title,
                why: why(case, first.id)?,
            })
        })
        .collect()
}

fn empty_cache(case: &Case<'_>, first: CauseId) -> Option<String> {
    if case.backend() == Backend::Host {
        return Some("it gives back memory of the card, and main memory is what ran out".into());
    }
    if first == CauseId::NotMemory {
        return Some("no device memory was missing".into());
    }
    let native = matches!(
        case.format(),
        Format::V1Cached
            | Format::V1Reserved
            | Format::V1ReservedHint
            | Format::V2Capacty
            | Format::V2Capacity
            | Format::V2Pools
            | Format::NpuV1
            | Format::Cut
            | Format::Snapshot
            | Format::RunGaveUp
    );
    if !native {
        return None;
    }
    let left = case
        .balance
        .as_ref()
        .map(|balance| balance.idle_bytes)
        .filter(|idle| *idle > Bytes::ZERO);
    let rest = left.map_or_else(String::new, |idle| {
        format!("; the {idle} that are left lie in segments with something alive in them")
    });
    Some(format!(
        "before PyTorch writes this message it has released every segment that was wholly free, and tried again{rest}"
    ))
}

fn allocator_hint(case: &Case<'_>, first: CauseId) -> Option<String> {
    let of_allocator = case.format().is_of_allocator() || case.format().is_record_of_allocator();
    if !of_allocator || first == CauseId::Fragmentation {
        return None;
    }
    let advised = case.format().is_record_of_allocator() || case.says("expandable_segments");
    if case.cues.expandable_segments() && advised {
        return Some("expandable segments are on already".into());
    }
    let balance = case.balance.as_ref()?;
    let tried = balance.tried_bytes?;
    if tried > balance.total_bytes {
        return Some(format!(
            "no arrangement of a card of {} has room for {tried}",
            balance.total_bytes
        ));
    }
    let idle = balance.idle_bytes;
    let with_free = idle + balance.free_bytes.unwrap_or_default();
    if with_free < tried {
        return Some(format!(
            "all that is reserved without a tensor and all that is free are {with_free} together, less than the {tried} that were asked for"
        ));
    }
    let slack = idle < Bytes::from_mib(512) || balance.percent(idle) < 5;
    (slack && !balance.free_covers_request()).then(|| {
        format!("only {idle}, {} % of the card, is reserved without a tensor in it, the ordinary slack between blocks", balance.percent(idle))
    })
}

fn smaller_batch(case: &Case<'_>, first: CauseId) -> Option<String> {
    let why = match first {
        CauseId::NotMemory => "the kernel's need does not depend on the batch",
        CauseId::OptimizerFirstStep => {
            "gradients and the optimizer's state have the size of the parameters, whatever the batch"
        }
        CauseId::Limit => "the limit stays, and work that fits the card does not need to shrink",
        CauseId::SingleHuge if case.is(Format::AbsurdSize) => {
            "the size was computed wrongly, and is wrong for a smaller batch, too"
        }
        CauseId::HostMemory if case.is(Format::CpuAllocator) => return None,
        _ => match case.phase() {
            Some(Moment::Load) => {
                "no batch is on the card yet when the model or a checkpoint is loaded"
            }
            Some(Moment::Save) => {
                "a checkpoint has the size of the model and the optimizer's state"
            }
            _ => return None,
        },
    };
    Some(why.into())
}

fn accumulation(case: &Case<'_>, first: CauseId) -> Option<String> {
    let evaluates = first == CauseId::EvalPhase
        || matches!(case.phase(), Some(Moment::Evaluation | Moment::Generate));
    if evaluates {
        return Some("evaluation has no gradients to accumulate".into());
    }
    (first == CauseId::OptimizerFirstStep)
        .then(|| "it shrinks the batch, and what failed has the size of the parameters".into())
}

fn larger_gpu(case: &Case<'_>, first: CauseId) -> Option<String> {
    if case.backend() == Backend::Host {
        return Some("the card was not what ran out".into());
    }
    let why = match first {
        CauseId::NotMemory => {
            "on-chip memory of a block is much the same on cards with more device memory"
        }
        CauseId::Limit => "the limit was reached, not the card",
        CauseId::AutogradRetention => {
            "what grows with each step fills a larger card, too, only later"
        }
        CauseId::SingleHuge if case.is(Format::AbsurdSize) => "no card has this much",
        _ => return None,
    };
    Some(why.into())
}

fn collect(case: &Case<'_>, first: CauseId) -> Option<String> {
    match first {
        CauseId::OtherProcess => {
            Some("it frees objects of this process, and others hold the memory".into())
        }
        CauseId::SingleHuge => {
            let balance = case.balance.as_ref()?;
            let tried = balance.tried_bytes?;
            (tried > balance.total_bytes)
                .then(|| "even an empty card has no room for the request".into())
        }
        CauseId::NotMemory => Some("no memory was missing".into()),
        _ => None,
    }
}

fn fraction(case: &Case<'_>, first: CauseId) -> Option<String> {
    if first == CauseId::Limit || !case.format().is_of_allocator() {
        return None;
    }
    matches!(first, CauseId::OtherProcess | CauseId::TooBig | CauseId::SingleHuge).then(|| {
        "it can only take memory away from this process; it reserves none and moves no other process".into()
    })
}

fn launch_blocking(case: &Case<'_>, first: CauseId) -> Option<String> {
    let advised = case.is(Format::BareCudaError) && first != CauseId::NotMemory;
    advised.then(|| "it makes the traceback exact and saves no memory".into())
}

fn device_assertions(case: &Case<'_>, _first: CauseId) -> Option<String> {
    case.says("torch_use_cuda_dsa")
        .then(|| "the advice stands below every CUDA error; running out of memory trips no assertion on the device".into())
}
