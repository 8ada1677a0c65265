//! Memory that somebody else holds: another job, a notebook that was left open, a process that outlived its parent.

use oomproof_units::Bytes;

use crate::balance::Balance;
use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};

/// The most that a context with its kernels takes.
const CONTEXT: Bytes = Bytes::from_mib(1536);

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::OtherProcess,
    title: "another process holds the memory",
    meaning: "A good part of the card belongs to a process that is not this one: another job, a notebook, a server, or one that outlived its parent.",
    apart: "The card is full although this process holds little; `nvidia-smi` shows who holds the rest, with the numbers processes have outside a container.",
    check: "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.backend() == Backend::Host {
        return None;
    }
    let Some(balance) = &case.balance else {
        return without_figures(case);
    };
    let listed = balance.of_others();
    let percent = balance.percent(listed);
    // Their memory would have sufficed for the request, and is not a context alone.
    let suffices = balance.short_bytes.is_none_or(|short| listed >= short);
    let by_listed = (percent >= 5 && suffices).then(|| {
        let pids: Vec<String> = balance
            .others
            .iter()
            .take(8)
            .map(|each| format!("{} holds {}", each.pid, each.bytes))
            .collect();
        let evidence = format!(
            "other processes hold {listed}, {percent} % of the card: process {}",
            pids.join(", ")
        );
        let alone = balance.equal_processes() < 2;
        let names_itself = case.failure.figures.this_process_bytes.is_some();
        match percent {
            // Only where the text names this process can none of the others be it.
            50.. if alone && names_itself && listed > balance.reserved() => {
                Finding::decided(evidence)
            }
            25.. => Finding::candidate(82, evidence),
            12..=24 => Finding::candidate(60, evidence),
            _ => Finding::candidate(35, evidence),
        }
    });
    by_listed
        .or_else(|| by_smi(case))
        .or_else(|| by_arithmetic(balance))
}

/// What `nvidia-smi` shows, at another moment than the failure's: processes larger than this one was.
fn by_smi(case: &Case<'_>) -> Option<Finding> {
    let own = case
        .balance
        .as_ref()
        .map(Balance::reserved)
        .unwrap_or_default();
    let smi = case.smi?;
    let total = smi.devices.iter().map(|device| device.total_bytes).max();
    let total = case
        .balance
        .as_ref()
        .map(|balance| balance.total_bytes)
        .or(total)?;
    let largest = smi.processes.iter().max_by_key(|each| each.process.bytes)?;
    let (pid, bytes) = (largest.process.pid, largest.process.bytes);
    let is_another = bytes > own + CONTEXT && crate::balance::share(bytes, total) >= 25;
    is_another.then(|| {
        Finding::candidate(
            72,
            format!("`nvidia-smi` shows process {pid} with {bytes}, more than this one had"),
        )
    })
}

/// Older texts list no processes: what is used and not this allocator's.
fn by_arithmetic(balance: &Balance) -> Option<Finding> {
    let untold = balance.untold_bytes;
    let percent = balance.percent(untold);
    let score = match balance.percent(balance.beyond_a_context()) {
        45.. => 84,
        20..=44 => 68,
        10..=19 => 38,
        3..=9 => 22,
        _ => return None,
    };
    Some(Finding::candidate(
        score,
        format!(
            "{untold}, {percent} % of the card, is used by something that is not this process's allocator"
        ),
    ))
}

fn without_figures(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = by_smi(case) {
        return Some(finding);
    }
    let score = match case.format() {
        Format::BareCudaError => 42,
        Format::CublasMasked | Format::CudnnMasked => 32,
        Format::ThcRuntime | Format::CusolverMasked => 28,
        Format::AsyncStub | Format::CacheBlocks | Format::LibraryAllocator => 25,
        Format::Nccl | Format::NvmlAssert => 15,
        _ => return None,
    };
    Some(Finding::candidate(
        score,
        "the text does not say who holds the card, and a card that others fill gives the same text",
    ))
}
