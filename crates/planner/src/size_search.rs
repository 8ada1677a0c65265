//! Which sizes to run: first those that show the law, then those that bracket the largest that fits.
//!
//! A prediction chooses where to look and decides nothing: both ends of the bracket are sizes that were run. So the
//! answer is exact: the largest batch that fits and the next that does not were both tried.

use oomproof_units::Bytes;

/// Sizes that show the law.
const SHOWING: u64 = 4;
/// A size this many times the largest that was run is not predicted further.
const FARTHEST: u64 = 16;
/// Where no size made a difference yet, or no larger one is known, the next is this many times as large.
const STRIDE: u64 = 4;

/// What a run at one size came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOutcome {
    /// It fits; the process takes so much.
    Fits(Bytes),
    /// It does not fit; what the process took when the run went through all the same.
    DoesNotFit(Option<Bytes>),
    /// It could not be told.
    Failed,
}

/// The sizes that were run and where to go on.
#[derive(Clone, Debug)]
pub struct SizeSearch {
    unit: u64,
    most: Option<u64>,
    room: u64,
    ran: Vec<(u64, SizeOutcome)>,
}

impl SizeSearch {
    /// `base` is the script's own size, `most` the largest that makes a difference, `room` what the process may take: the
    /// card's memory, less a margin where one is wanted.
    pub fn new(base: u64, most: Option<u64>, room: Bytes) -> Self {
        let base = most.map_or(base, |most| base.min(most)).max(1);
        let mut unit = (base / SHOWING).max(1);
        if let Some(most) = most {
            unit = unit.min((most / SHOWING).max(1));
        }
        Self {
            unit,
            most,
            room: room.get(),
            ran: Vec::new(),
        }
    }

    /// Takes what a run came to.
    pub fn ran(&mut self, size: u64, outcome: SizeOutcome) {
        self.ran.push((size, outcome));
    }

    /// The largest size that was run and fits.
    pub fn fits(&self) -> Option<u64> {
        let above = self.does_not_fit().unwrap_or(u64::MAX);
        self.ran
            .iter()
            .filter(|(size, came)| matches!(came, SizeOutcome::Fits(_)) && *size < above)
            .map(|(size, _)| *size)
            .max()
    }

    /// The smallest size that was run and does not fit.
    pub fn does_not_fit(&self) -> Option<u64> {
        self.smallest(|came| matches!(came, SizeOutcome::DoesNotFit(_)))
    }

    /// The smallest size at which the script failed.
    pub fn failed(&self) -> Option<u64> {
        self.smallest(|came| came == SizeOutcome::Failed)
    }

    fn smallest(&self, is_meant: impl Fn(SizeOutcome) -> bool) -> Option<u64> {
        let meant = self.ran.iter().filter(|(_, came)| is_meant(*came));
        meant.map(|(size, _)| *size).min()
    }

    /// The sizes that show the law.
    pub fn showing(&self) -> impl Iterator<Item = u64> {
        let unit = self.unit;
        (1..=SHOWING).map(move |times| unit * times)
    }

    /// The next size to run; `None` when both ends are known or nothing more can be.
    pub fn next(&self) -> Option<u64> {
        let is_new = |size: &u64| self.ran.iter().all(|(ran, _)| ran != size);
        let above = [self.does_not_fit(), self.failed()];
        let above = above.into_iter().flatten().min();
        let is_below = |size: &u64| above.is_none_or(|above| *size < above);
        let is_there = |size: &u64| self.most.is_none_or(|most| *size <= most);
        if let Some(size) = self
            .showing()
            .find(|size| is_new(size) && is_below(size) && is_there(size))
        {
            return Some(size);
        }
        let Some(fits) = self.fits() else {
            // Smaller ones are left only below the unit.
            return above.filter(|above| *above > 1).map(|above| above / 2);
        };
        let last = match (above, self.most) {
            (Some(above), Some(most)) => (above - 1).min(most),
            (Some(above), None) => above - 1,
            (None, Some(most)) => most,
            (None, None) => fits.saturating_mul(FARTHEST),
        };
        if fits >= last {
            return None;
        }
        Some(self.guess(fits, above).clamp(fits + 1, last))
    }

    fn guess(&self, fits: u64, above: Option<u64>) -> u64 {
        let middle = above.map(|above| fits + (above - fits) / 2);
        if let (Some(middle), true) = (middle, self.failed() == above) {
            return middle;
        }
        let predicted = self
            .predicted()
            .unwrap_or_else(|| middle.unwrap_or(fits.saturating_mul(STRIDE)));
        // Where the prediction was wrong on the same side again and again, the steps become longer.
        let (side, times) = self.same_side();
        if times < 2 {
            return predicted;
        }
        let step = 1_u64 << times.min(32);
        match (side, above) {
            (Side::Fits, None) => predicted.max(fits.saturating_add(step)),
            (Side::Fits, Some(_)) => predicted
                .max(fits.saturating_add(step))
                .min(middle.unwrap_or(u64::MAX)),
            // Pieces that no request fits into, which no curve knows, are why it ran out of memory before.
            (Side::Above, Some(above)) if predicted >= above => middle.unwrap_or(predicted),
            (Side::Above, _) => predicted
                .min(above.unwrap_or(u64::MAX).saturating_sub(step))
                .max(middle.unwrap_or(0)),
        }
    }

    /// On which side the last runs came out, and how many in a row; those that show the law are not counted.
    fn same_side(&self) -> (Side, usize) {
        let largest = self.unit * SHOWING;
        let sides = self.ran.iter().rev().map(|(size, came)| {
            let side = if matches!(came, SizeOutcome::Fits(_)) {
                Side::Fits
            } else {
                Side::Above
            };
            (*size > largest).then_some(side)
        });
        let sides: Vec<Option<Side>> = sides.collect();
        match sides.first() {
            Some(Some(side)) => {
                let same = sides.iter().take_while(|each| **each == Some(*side));
                (*side, same.count())
            }
            _ => (Side::Fits, 0),
        }
    }

    /// The largest size whose process has room, by the curve through the run that came closest and two smaller ones.
    fn predicted(&self) -> Option<u64> {
        let mut known: Vec<(u64, u64)> = self
            .ran
            .iter()
            .filter_map(|(size, came)| match came {
                SizeOutcome::Fits(bytes) | SizeOutcome::DoesNotFit(Some(bytes)) => {
                    Some((*size, bytes.get()))
                }
                _ => None,
            })
            .collect();
        known.sort_unstable();
        let closest = known
            .iter()
            .min_by_key(|(_, bytes)| bytes.abs_diff(self.room))?;
        // Neighbors differ by the rounding of blocks alone.
        let is_below = |ran: u64, size: u64| ran < size && ran <= size - size / 4;
        let below = |size: u64| known.iter().rev().find(|(ran, _)| is_below(*ran, size));
        let (third, second) = (*closest, *below(closest.0)?);
        let slope = |(x, y): (u64, u64), (v, w): (u64, u64)| (y as f64 - w as f64) / (x - v) as f64;
        let each = slope(third, second);
        let bend = below(second.0).map_or(0.0, |first| {
            (each - slope(second, *first)) / (third.0 - first.0) as f64
        });
        let missing = self.room as f64 - third.1 as f64;
        // `each * d + bend * d * (d + gap)` of growth fill what is missing at `third + d`.
        let gap = (third.0 - second.0) as f64;
        let distance = if bend * gap * gap > each.abs() * gap * 0.01 {
            let linear = bend.mul_add(gap, each);
            let root = linear.mul_add(linear, 4.0 * bend * missing).max(0.0).sqrt();
            (root - linear) / (2.0 * bend)
        } else if each > 0.0 {
            missing / each
        } else {
            return None;
        };
        let size = (third.0 as f64 + distance) as i64;
        Some(u64::try_from(size).unwrap_or(0))
    }
}

/// Where a run came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Fits,
    Above,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search over a known law; the sizes that were run, and both ends.
    fn check(
        base: u64,
        most: Option<u64>,
        bytes: impl Fn(u64) -> Option<u64>,
        expected: (Option<u64>, Option<u64>),
        at_most: usize,
    ) {
        let room = 1_000_000;
        let mut search = SizeSearch::new(base, most, Bytes::new(room));
        let mut count = 0;
        while let Some(size) = search.next() {
            assert!(
                search.ran.iter().all(|(ran, _)| *ran != size),
                "{size} again"
            );
            count += 1;
            assert!(count <= at_most, "{:?}", search.ran);
            search.ran(
                size,
                match bytes(size) {
                    None => SizeOutcome::Failed,
                    Some(bytes) if bytes <= room => SizeOutcome::Fits(Bytes::new(bytes)),
                    Some(bytes) if bytes <= room * 2 => {
                        SizeOutcome::DoesNotFit(Some(Bytes::new(bytes)))
                    }
                    Some(_) => SizeOutcome::DoesNotFit(None),
                },
            );
        }
        assert_eq!(
            (search.fits(), search.does_not_fit()),
            expected,
            "{:?}",
            search.ran
        );
    }

    #[test]
    fn what_makes_no_difference_at_first_does_later() {
        // The optimizer's step decides up to 500.
        check(
            8,
            None,
            |n| Some(500_000.max(1_000 * n)),
            (Some(1000), Some(1001)),
            20,
        );
    }

    #[test]
    fn both_ends_are_run() {
        check(
            16,
            None,
            |n| Some(100_000 + 10_000 * n),
            (Some(90), Some(91)),
            8,
        );
        check(
            1,
            None,
            |n| Some(100_000 + 10_000 * n),
            (Some(90), Some(91)),
            10,
        );
        check(64, None, |n| Some(n * n), (Some(1000), Some(1001)), 9);
        check(
            8,
            None,
            |n| Some(1 + 30 * n * n),
            (Some(182), Some(183)),
            10,
        );
        // Rounded up to coarse blocks.
        check(
            32,
            None,
            |n| Some((n * 777).next_multiple_of(20_000)),
            (Some(1287), Some(1288)),
            16,
        );
    }

    #[test]
    fn sizes_that_are_too_large_from_the_start() {
        check(16, None, |n| Some(n * 400_000), (Some(2), Some(3)), 8);
        check(1000, None, |n| Some(n * 400_000), (Some(2), Some(3)), 16);
        check(16, None, |n| Some(n * 4_000_000), (None, Some(1)), 8);
    }

    #[test]
    fn ends_that_are_not_memory() {
        check(16, Some(50), |n| Some(n * 1000), (Some(50), None), 8);
        check(16, Some(3), |n| Some(n * 1000), (Some(3), None), 8);
        check(
            16,
            None,
            |n| (n <= 100).then_some(n * 1000),
            (Some(100), None),
            16,
        );
        check(16, None, |_| None, (None, None), 8);
    }
}
