//! The arithmetic of the card: whose the memory was when the request failed. Texts of each generation print other
//! figures, and in a container a process does not know itself, so each part says whether it was printed or follows.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::figures::{Figures, ProcessFigure};

/// Sizes above 1 GiB are rounded to a hundredth of one; sums of four of them may be off by this.
const ROUNDING: Bytes = Bytes::from_mib(24);

/// The most that a context with its kernels and a desktop take together.
const CONTEXT_AND_DESKTOP: Bytes = Bytes::from_mib(1536);

/// Who held which part of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// The device.
    pub total_bytes: Bytes,
    /// Live tensors of this process.
    pub live_bytes: Bytes,
    /// What this process's allocator held without a tensor in it.
    pub idle_bytes: Bytes,
    /// The rest of this process: its CUDA context and libraries; `None` when the text does not tell it apart.
    pub own_other_bytes: Option<Bytes>,
    /// Other processes, largest first.
    pub others: Vec<ProcessFigure>,
    /// What is used and not told apart: contexts, libraries, other processes, the display.
    pub untold_bytes: Bytes,
    /// What nobody held; `None` when the text does not say.
    pub free_bytes: Option<Bytes>,
    /// What was asked for.
    pub tried_bytes: Option<Bytes>,
    /// By how much the request was larger than what was free.
    pub short_bytes: Option<Bytes>,
}

impl Balance {
    /// The arithmetic of these figures; `None` when they do not say how large the device is or what was live.
    pub fn of(figures: &Figures) -> Option<Self> {
        let live = figures.allocated_bytes?;
        if let (None, Some(allowed), Some(other)) = (
            figures.total_bytes,
            figures.allowed_bytes,
            figures.other_allocations_bytes,
        ) {
            return Some(Self::of_shared(figures, allowed, live, other));
        }
        let total = figures.total_bytes?;
        let idle = figures.unallocated_bytes.unwrap_or_default();
        let reserved = live + idle;
        let mut others = figures.processes.clone();
        let mut own = figures.this_process_bytes;
        if own.is_none()
            && let Some(at) = own_entry(&others, reserved, total, figures.free_bytes)
        {
            own = Some(others.remove(at).bytes);
        }
        others.sort_by_key(|process| std::cmp::Reverse(process.bytes));
        let of_others: Bytes = others.iter().map(|process| process.bytes).sum();
        let own_other = own.map(|own| own.saturating_sub(reserved));
        let untold = figures.free_bytes.map_or(Bytes::ZERO, |free| {
            total
                .saturating_sub(free)
                .saturating_sub(reserved)
                .saturating_sub(of_others)
                .saturating_sub(own_other.unwrap_or_default())
        });
        // Rounding alone leaves this much.
        let untold = if untold <= ROUNDING {
            Bytes::ZERO
        } else {
            untold
        };
        let tried = figures.tried_bytes;
        let short = match (tried, figures.free_bytes) {
            (Some(tried), Some(free)) => Some(tried.saturating_sub(free)),
            _ => None,
        };
        Some(Self {
            total_bytes: total,
            live_bytes: live,
            idle_bytes: idle,
            own_other_bytes: own_other,
            others,
            untold_bytes: untold,
            free_bytes: figures.free_bytes,
            tried_bytes: tried,
            short_bytes: short,
        })
    }

    /// On Apple's GPUs the limit takes the place of the card, and what is free follows from rounded figures.
    fn of_shared(figures: &Figures, allowed: Bytes, live: Bytes, other: Bytes) -> Self {
        let free = allowed.saturating_sub(live + other + ROUNDING);
        let tried = figures.tried_bytes;
        Self {
            total_bytes: allowed,
            live_bytes: live,
            untold_bytes: other,
            free_bytes: Some(free),
            tried_bytes: tried,
            short_bytes: tried.map(|tried| tried.saturating_sub(free)),
            ..Self::default()
        }
    }

    /// What the allocator held.
    pub fn reserved(&self) -> Bytes {
        self.live_bytes + self.idle_bytes
    }

    /// What other processes held for certain.
    pub fn of_others(&self) -> Bytes {
        self.others.iter().map(|process| process.bytes).sum()
    }

    /// What is used, not told apart, and more than a context with a desktop takes: those matter on small cards, and
    /// are nobody's fault.
    pub fn beyond_a_context(&self) -> Bytes {
        self.untold_bytes.saturating_sub(CONTEXT_AND_DESKTOP)
    }

    /// `part` of the device in percent.
    pub fn percent(&self, part: Bytes) -> u64 {
        share(part, self.total_bytes)
    }

    /// Whether the figures say that the request would have fitted into what was free.
    pub fn free_covers_request(&self) -> bool {
        matches!((self.free_bytes, self.tried_bytes), (Some(free), Some(tried)) if free >= tried)
    }

    /// Whether several processes hold the same amount, as those of one job do.
    pub fn equal_processes(&self) -> usize {
        let alike = |one: &ProcessFigure| {
            let near = |other: &&ProcessFigure| {
                let apart = other.bytes.signed_difference(one.bytes).unsigned_abs();
                Bytes::new(apart) <= ROUNDING + Bytes::new(one.bytes.get() / 50)
            };
            self.others.iter().filter(near).count()
        };
        self.others.iter().map(alike).max().unwrap_or(0)
    }
}

/// `part` of `whole` in percent.
pub(crate) fn share(part: Bytes, whole: Bytes) -> u64 {
    let percent = u128::from(part.get()) * 100 / u128::from(whole.get().max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// In a container the own process has the number it has outside, and the clause on "this process" is missing. It is
/// the one that holds at least what the allocator holds, when it and the free memory make up the card.
fn own_entry(
    processes: &[ProcessFigure],
    reserved: Bytes,
    total: Bytes,
    free: Option<Bytes>,
) -> Option<usize> {
    let free = free?;
    let of_all: Bytes = processes.iter().map(|process| process.bytes).sum();
    // Driver and display keep a little that nobody is shown with.
    let unseen = total.saturating_sub(free).saturating_sub(of_all);
    if unseen > ROUNDING + Bytes::new(total.get() / 25) {
        return None;
    }
    processes
        .iter()
        .enumerate()
        .filter(|(_, process)| process.bytes + ROUNDING >= reserved)
        .min_by_key(|(_, process)| process.bytes)
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn figures(live: u64, idle: u64, free: u64, own: Option<u64>, others: &[u64]) -> Figures {
        let gib = |count| Some(Bytes::new(count * GIB));
        let mut figures = Figures {
            tried_bytes: gib(2),
            total_bytes: gib(24),
            free_bytes: gib(free),
            allocated_bytes: gib(live),
            unallocated_bytes: gib(idle),
            this_process_bytes: own.and_then(gib),
            ..Figures::default()
        };
        for (pid, count) in others.iter().enumerate() {
            figures.processes.push(ProcessFigure {
                pid: pid as u64,
                bytes: Bytes::new(count * GIB),
            });
        }
        figures
    }

    fn check(figures: &Figures, own_other: Option<u64>, others: u64, untold: u64) {
        let balance = Balance::of(figures).unwrap();
        assert_eq!(
            balance.own_other_bytes,
            own_other.map(|count| Bytes::new(count * GIB))
        );
        assert_eq!(balance.of_others(), Bytes::new(others * GIB));
        assert_eq!(balance.untold_bytes, Bytes::new(untold * GIB));
    }

    #[test]
    fn parts_add_up_to_the_card() {
        check(&figures(18, 1, 1, Some(20), &[3]), Some(1), 3, 0);
        check(&figures(18, 1, 1, None, &[]), None, 0, 4);
        check(&figures(18, 1, 1, Some(20), &[]), Some(1), 0, 3);
    }

    #[test]
    fn a_process_in_a_container_recognizes_itself() {
        check(&figures(20, 1, 1, None, &[23]), Some(2), 0, 0);
        check(&figures(8, 1, 1, None, &[13, 10]), Some(1), 13, 0);
        // Too small to be the one that holds the tensors.
        check(&figures(8, 1, 1, None, &[5]), None, 5, 9);
    }

    #[test]
    fn figures_that_contradict_each_other_are_borne() {
        check(&figures(30, 0, 0, None, &[]), None, 0, 0);
        check(&figures(30, 4, 24, Some(2), &[24]), Some(0), 24, 0);
    }
}
