//! How long a step keeps the device busy. The first steps also do what is done once, so the median of the others counts;
//! and because the clock of the virtual device assumes how much of a card's speed work reaches, it is a range.

use oomproof_units::Nanos;

use crate::verdict::TimeEstimate;

/// Percent of the assumed time that work takes at the full speed of the card: the clock assumes 70 % of it.
const LOW: u64 = 70;
/// Percent when it reaches 35 %, as the least of published training steps do.
const HIGH: u64 = 200;

/// The median of the steps but the first, or the first when there is no other; `None` when no step has a time.
pub(crate) fn step_time(steps: impl Iterator<Item = u64>) -> Option<TimeEstimate> {
    let mut times: Vec<u64> = steps.collect();
    if times.len() > 1 {
        times.remove(0);
    }
    times.retain(|time| *time > 0);
    times.sort_unstable();
    let middle = times.len().checked_sub(1)? / 2;
    let likely = *times.get(middle)?;
    let part = |percent: u64| {
        let nanos = u128::from(likely) * u128::from(percent) / 100;
        Nanos::since_start(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    Some(TimeEstimate {
        low: part(LOW),
        likely: part(100),
        high: part(HIGH),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_later_steps_counts() {
        let check = |steps: &[u64], expected: Option<[u64; 3]>| {
            let found = step_time(steps.iter().copied());
            let numbers = found.map(|time| [time.low, time.likely, time.high].map(Nanos::get));
            assert_eq!(numbers, expected, "{steps:?}");
        };
        check(&[], None);
        check(&[0, 0], None);
        check(&[1000], Some([700, 1000, 2000]));
        check(&[9000, 1000], Some([700, 1000, 2000]));
        check(&[9000, 1000, 1200, 100], Some([700, 1000, 2000]));
        check(&[9000, 0, 1000], Some([700, 1000, 2000]));
        check(
            &[1, 1 << 63],
            Some([6_456_360_425_798_343_065, 1 << 63, u64::MAX]),
        );
    }
}
