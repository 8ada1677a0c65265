//! Memory of this very process that PyTorch does not count: the CUDA context with its kernels, NCCL's buffers, handles
//! and work spaces of libraries, allocators of other libraries.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};

/// More than a context with the kernels of training takes.
const MORE_THAN_A_CONTEXT: Bytes = Bytes::from_mib(1536);

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::OutsideAllocator,
    title: "memory that PyTorch does not count",
    meaning: "The CUDA context, NCCL's buffers, handles and work spaces of libraries, or another library's allocator take memory beside PyTorch's.",
    apart: "What the driver says of this process is well above what PyTorch reserved.",
    check: "nvidia-smi --query-compute-apps=pid,used_memory --format=csv  # beside torch.cuda.memory_reserved()",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    match case.format() {
        Format::CublasMasked => {
            return Some(Finding::candidate(
                58,
                "cuBLAS found no room for its handle or work space, which it asks the driver for and not PyTorch",
            ));
        }
        Format::CusolverMasked => {
            return Some(Finding::candidate(
                58,
                "the library found no room for its handle or work space, which PyTorch does not count",
            ));
        }
        Format::Nccl => {
            return Some(Finding::candidate(
                74,
                "NCCL could not get its buffers, which it asks the driver for and not PyTorch",
            ));
        }
        Format::RunRefused => {
            return Some(Finding::candidate(
                66,
                "the request that was refused was not PyTorch's allocator's: a library or the context asked the driver directly",
            ));
        }
        Format::LibraryAllocator => {
            return Some(Finding::candidate(
                62,
                "the error is of another library's allocator, whose memory PyTorch does not count",
            ));
        }
        Format::BareCudaError => {
            return Some(Finding::candidate(
                46,
                "the error is not of PyTorch's allocator: a context, a graph, pinned memory or a library asked the driver directly",
            ));
        }
        Format::CudnnMasked => {
            return Some(Finding::candidate(
                34,
                "cuDNN's handle is created outside PyTorch's allocator",
            ));
        }
        Format::CudaDriverError => {
            return Some(Finding::candidate(30, "the driver itself refused a call"));
        }
        _ => {}
    }
    if case.backend() == Backend::Mps {
        let other = case.failure.figures.other_allocations_bytes?;
        let allocated = case.failure.figures.allocated_bytes?;
        let score = if other > allocated { 70 } else { 25 };
        return (other > MORE_THAN_A_CONTEXT).then(|| {
            Finding::candidate(
                score,
                format!("{other} is held outside PyTorch's allocator"),
            )
        });
    }
    let balance = case.balance.as_ref()?;
    if let Some(own) = balance.own_other_bytes {
        let percent = balance.percent(own);
        let score = match percent {
            _ if own < MORE_THAN_A_CONTEXT => {
                return (percent >= 8).then(|| small_card(own, percent));
            }
            20.. => 78,
            10..=19 => 60,
            _ => 40,
        };
        return Some(Finding::candidate(
            score,
            format!(
                "this process holds {own} that PyTorch did not reserve, {percent} % of the card"
            ),
        ));
    }
    let untold = balance.untold_bytes;
    let percent = balance.percent(untold);
    let score = match percent {
        25.. => 46,
        15..=24 => 34,
        8..=14 => 26,
        _ => return None,
    };
    Some(Finding::candidate(
        score,
        format!(
            "{untold}, {percent} % of the card, is not PyTorch's: the context alone takes a few hundred MiB of it"
        ),
    ))
}

fn small_card(own: Bytes, percent: u64) -> Finding {
    // Where the context takes half of the card, hardly anything would fit beside it.
    let score = if percent >= 50 { 80 } else { 28 };
    Finding::candidate(
        score,
        format!("the context and libraries of this process take {own}, {percent} % of the card"),
    )
}
