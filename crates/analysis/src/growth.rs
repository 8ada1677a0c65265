//! Memory that each step leaves behind. Batches differ, so levels differ: only when every one of the last steps was
//! above the one before it, in its peak and in what it left, is it called growth.

use oomproof_units::Bytes;

/// Steps whose differences are looked at, from the end; at least [`LEAST`] of them are needed.
const LAST: usize = 8;
const LEAST: usize = 3;

/// What the steps left behind, one entry for each.
pub(crate) struct Steps<'a> {
    /// Highest allocated bytes while in the step.
    pub(crate) peaks: &'a [u64],
    /// Allocated bytes when it ended.
    pub(crate) levels: &'a [u64],
}

/// The lower of the median growth of peaks and levels; zero when there is none or it cannot be told.
///
/// A loop that was ended early, after so many steps as `ends` says, was growing if it did so then, whatever the script
/// let go of afterwards.
pub(crate) fn growth_per_step(steps: &Steps<'_>, ends: &[usize]) -> Bytes {
    let at = |end: usize| {
        let peaks = steady_rise(steps.peaks.get(..end)?)?;
        let levels = steady_rise(steps.levels.get(..end)?)?;
        Some(peaks.min(levels))
    };
    let last = steps.peaks.len().min(steps.levels.len());
    let growths = ends.iter().copied().chain([last]).filter_map(at);
    Bytes::new(growths.max().unwrap_or(0))
}

/// By how much each loop over the data holds more at its end than the one before, after so many steps as `ends` says;
/// zero when it cannot be told.
pub(crate) fn growth_per_epoch(steps: &Steps<'_>, ends: &[usize]) -> Bytes {
    let last_of = |end: &usize| steps.levels.get(end.checked_sub(1)?).copied();
    let levels: Vec<u64> = ends.iter().filter_map(last_of).collect();
    Bytes::new(steady_rise(&levels).unwrap_or(0))
}

/// The median of the last differences, if all are rises. The first step makes what later steps find, so it is left out.
fn steady_rise(levels: &[u64]) -> Option<u64> {
    let later = levels.get(1..)?;
    let mut rises: Vec<u64> = Vec::new();
    for pair in later.windows(2).rev().take(LAST) {
        rises.push(pair[1].checked_sub(pair[0]).filter(|rise| *rise > 0)?);
    }
    if rises.len() < LEAST {
        return None;
    }
    rises.sort_unstable();
    Some(rises[(rises.len() - 1) / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peaks: &[u64], levels: &[u64], expected: u64) {
        let found = growth_per_step(&Steps { peaks, levels }, &[]);
        assert_eq!(found, Bytes::new(expected), "{peaks:?} {levels:?}");
    }

    #[test]
    fn only_a_steady_rise_is_growth() {
        check(&[], &[], 0);
        check(&[7], &[7], 0);
        check(&[50, 90, 90, 90, 90], &[20, 40, 40, 40, 40], 0);
        check(&[50, 90, 92, 94, 96], &[20, 40, 42, 44, 46], 2);
        check(&[50, 90, 92, 94], &[20, 40, 42, 44], 0);
        check(&[50, 90, 92, 91, 96], &[20, 40, 42, 44, 46], 0);
        check(&[50, 90, 92, 94, 96], &[20, 40, 40, 40, 40], 0);
        check(&[50, 90, 92, 94, 99], &[20, 40, 43, 46, 49], 2);
    }

    #[test]
    fn epochs_grow_when_each_ends_higher() {
        let check = |levels: &[u64], ends: &[usize], expected| {
            let found = growth_per_epoch(&Steps { peaks: &[], levels }, ends);
            assert_eq!(found, Bytes::new(expected), "{levels:?} {ends:?}");
        };
        let levels = &[9, 9, 12, 12, 15, 15, 18, 18, 21, 21];
        check(levels, &[2, 4, 6, 8, 10], 3);
        check(levels, &[2, 4, 6, 8], 0);
        check(&[9; 10], &[2, 4, 6, 8, 10], 0);
        check(levels, &[0, 99], 0);
    }

    #[test]
    fn growth_counts_where_a_loop_was_ended_early() {
        let peaks = &[50, 90, 92, 94, 96, 60, 60, 60];
        let levels = &[20, 40, 42, 44, 46, 20, 20, 20];
        let check = |ends: &[usize], expected| {
            let found = growth_per_step(&Steps { peaks, levels }, ends);
            assert_eq!(found, Bytes::new(expected), "{ends:?}");
        };
        check(&[], 0);
        check(&[5], 2);
        check(&[5, 8], 2);
        check(&[6, 99], 0);
    }

    #[test]
    fn a_pause_long_ago_does_not_hide_growth() {
        let mut levels: Vec<u64> = vec![10, 50, 50, 50];
        levels.extend((1..=8).map(|step| 50 + step));
        check(&levels, &levels, 1);
    }
}
