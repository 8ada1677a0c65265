//! The driver model of Windows: it lends main memory to the card, reserves some, and below WSL limits pinned memory.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::{Backend, Format};

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::WindowsWsl,
    title: "the driver of Windows or WSL",
    meaning: "The driver lends main memory instead of failing, keeps a share for the display, and limits pinned memory below WSL.",
    apart: "More is allocated than the card has, or free memory does not mean what it says; paths and names in the log are of Windows.",
    check: "nvidia-smi -q | grep -A4 'Driver Model'",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.backend() != Backend::Cuda {
        return None;
    }
    let windows = case.cues.windows();
    if let Some(balance) = &case.balance {
        let live = balance.live_bytes;
        // Rounding alone makes no such difference.
        if live > balance.total_bytes + Bytes::from_mib(16) {
            return Some(Finding::decided(format!(
                "{live} is allocated on a card of {}: the driver lent main memory",
                balance.total_bytes
            )));
        }
        if windows {
            return Some(Finding::candidate(
                50,
                "paths or names in the text are of Windows or WSL",
            ));
        }
        let listed = case.is(Format::V2Capacity) || case.is(Format::V2Capacty);
        let none_told = case.failure.figures.processes.is_empty()
            && case.failure.figures.this_process_bytes.is_none();
        // A recorded run knows its card; a text only tells what the card says of itself.
        if case.held.is_none() && is_marketed_size(balance.total_bytes) {
            let score = if listed && none_told { 46 } else { 34 };
            return Some(Finding::candidate(
                score,
                "the card reports its memory as it is sold, which Windows does and Linux does not",
            ));
        }
        return None;
    }
    if case.is(Format::PinThread) {
        return Some(Finding::candidate(
            30,
            "pinned memory has a low limit below WSL",
        ));
    }
    windows.then(|| Finding::candidate(45, "paths or names in the text are of Windows or WSL"))
}

/// Whole GiB, of which a Linux driver would have kept some.
fn is_marketed_size(total: Bytes) -> bool {
    let sold = [2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24].map(Bytes::from_gib);
    sold.contains(&total)
}
