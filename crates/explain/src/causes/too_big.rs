//! Weights, gradients, optimizer state and activations together are more than the card. Nothing is wrong but the
//! size, so the evidence is a card full of live tensors, and the absence of everything else.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};
use crate::held::Held;
use crate::moment::Moment;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::TooBig,
    title: "the work is larger than the card",
    meaning: "Live tensors fill the card: the model, its gradients and optimizer state, or the activations of this batch.",
    apart: "Allocated is most of the card, little is reserved without a tensor, no other process holds much, and it fails at the same step each time.",
    check: "oomproof run --memory MEMORY SCRIPT",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.backend() == Backend::Host {
        return None;
    }
    let Some(balance) = &case.balance else {
        return without_figures(case);
    };
    let tried = balance.tried_bytes.unwrap_or_default();
    if balance.reserved() == Bytes::ZERO && balance.percent(tried) >= 90 {
        let score = if balance.free_covers_request() {
            60
        } else {
            70
        };
        return Some(Finding::candidate(
            score,
            format!(
                "nothing was on the card yet, and {tried} was to be put on one of {}",
                balance.total_bytes
            ),
        ));
    }
    if tried > balance.total_bytes || balance.free_covers_request() {
        return None;
    }
    let live = balance.percent(balance.live_bytes);
    let mut score: u8 = match live {
        101.. => 40,
        80..=100 => 72,
        65..=79 => 60,
        50..=64 => 48,
        30..=49 => 32,
        _ => 15,
    };
    let idle_is_large = balance.percent(balance.idle_bytes) >= 10 && balance.idle_bytes >= tried;
    if idle_is_large {
        score = score.saturating_sub(20);
    }
    if balance.percent(balance.of_others()) >= 20
        || balance.percent(balance.beyond_a_context()) >= 25
    {
        score = score.saturating_sub(20);
    }
    // Loading is where a model that is too large shows first.
    if case.phase() == Some(Moment::Load) && live >= 50 {
        score += 8;
    }
    let evidence = format!(
        "live tensors hold {} of {}, {live} % of the card",
        balance.live_bytes, balance.total_bytes
    );
    let mut finding = Finding::candidate(score, evidence);
    if let Some(lines) = case
        .held
        .filter(|held| held.total() == held.unknown_bytes)
        .and_then(|held| Held::largest(&held.lines))
    {
        let room = balance.idle_bytes + balance.free_bytes.unwrap_or_default();
        let so = if room < tried {
            ", so pieces are not what is missing"
        } else {
            ""
        };
        finding = finding.and(format!(
            "{} of what PyTorch held was without a tensor{so}; by source line, {lines}",
            balance.idle_bytes
        ));
    } else if let Some(held) = case.held.filter(|held| held.total() > Bytes::ZERO) {
        finding = finding.and(format!(
            "of them {} are the model, {} gradients, {} state of the optimizer, and {} grow with the batch",
            held.model_bytes, held.gradient_bytes, held.optimizer_bytes, held.batch_bytes
        ));
    }
    Some(match balance.short_bytes {
        Some(short) if score >= 48 => finding.and(format!(
            "the request of {tried} was {short} more than what was free"
        )),
        _ => finding,
    })
}

/// Texts without figures: what is left when nothing more telling is known.
fn without_figures(case: &Case<'_>) -> Option<Finding> {
    let score = match case.format() {
        Format::CacheBlocks => 60,
        format if format.is_of_allocator() => 45,
        Format::Mps | Format::ThcRuntime => 45,
        Format::CublasMasked | Format::CudnnMasked | Format::CusolverMasked => 40,
        Format::NvmlAssert | Format::BareCudaError | Format::CudaDriverError => 38,
        Format::LibraryAllocator | Format::BatchFinder | Format::MpsBuffer => 30,
        Format::Nccl | Format::PinThread => 20,
        _ => return None,
    };
    Some(Finding::candidate(
        score,
        "the text has no figures that would show anything but a full device",
    ))
}
