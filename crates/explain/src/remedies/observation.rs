//! What shows who holds the memory, for when no text does.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Backend;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[Kind {
    id: "memory_history",
    title: "the summary and a snapshot, to see who holds it",
    serves: &[
        CauseId::AutogradRetention,
        CauseId::FrameworkRetention,
        CauseId::Fragmentation,
        CauseId::OutsideAllocator,
        CauseId::TooBig,
    ],
    numerics: Numerics::None,
    cost: Cost::Some,
    write: history,
}];

fn history(case: &Case<'_>) -> Option<Advice> {
    let says = case.balance.as_ref().map(|balance| {
        format!("; here the summary would say: allocated {}, reserved {}, the rest of {} is not PyTorch's", balance.live_bytes, balance.reserved(), balance.total_bytes)
    });
    let code = if case.backend() == Backend::Mps {
        "print(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())"
    } else if matches!(case.backend(), Backend::Xpu | Backend::Npu) {
        "print(torch.cuda.memory_allocated(), torch.cuda.memory_reserved())"
    } else if case.failure.torch.are_before(Release(2, 1)) {
        "print(torch.cuda.memory_summary())"
    } else {
        "torch.cuda.memory._record_memory_history(max_entries=200000)\n...\ntorch.cuda.memory._dump_snapshot(\"oom.pickle\")  # in an except block; then: oomproof explain oom.pickle"
    };
    Some(Advice {
        saves: Saves::Exact(Bytes::ZERO),
        text: format!(
            "it saves nothing and shows which lines hold the memory: in `memory_summary()` \"Allocated\" is live tensors, \"reserved\" is that with the cache, \"Non-releasable\" is what lies between live tensors{}",
            says.unwrap_or_default()
        ),
        code: code.into(),
    })
}
