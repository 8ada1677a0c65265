//! How wrong the model is, learned from what was measured: a correction that is linear in the model's own parts, each
//! of which is believed to be off by so much before anything is known.
//!
//! Few runs must teach much, so that every run speaks about every part it has: recomputation that took longer than
//! predicted in one plan does so in the next. What no run has spoken about stays uncertain, and says so.

/// Parts of a model's figure, as parts of the base run's figure.
pub(crate) type Parts<const N: usize> = [f32; N];

/// A figure with the width of what is not known about it: one standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guess {
    pub mean: f64,
    pub deviation: f64,
}

impl Guess {
    /// How likely the figure is at most `limit`.
    pub(crate) fn is_at_most(&self, limit: f64) -> f64 {
        normal((limit - self.mean) / self.deviation)
    }

    /// By how much the figure is below `limit`, on average, where what is above counts as nothing.
    pub(crate) fn below(&self, limit: f64) -> f64 {
        let score = (limit - self.mean) / self.deviation;
        let density = (-0.5 * score * score).exp() / (std::f64::consts::TAU).sqrt();
        self.deviation * (score * normal(score) + density)
    }
}

/// The correction of one figure: a Gaussian process whose kernel is linear in the parts, with something local beside
/// it, so that what no part explains holds at least for plans that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Calibration<const N: usize> {
    /// By how much each part may be off, as a part of itself, squared.
    doubt: [f64; N],
    /// What neither explains: rounding.
    noise: f64,
    seen: Vec<(Parts<N>, f64)>,
    /// How much the local part explains.
    local: f64,
    /// The lower triangle of the factor of the kernel's matrix over what was seen, row by row.
    factor: Vec<f64>,
    /// The kernel's inverse times what was seen.
    weights: Vec<f64>,
}

/// How much of the base run's figure two plans may differ in a part and still be alike.
const ALIKE: f64 = 0.15;
const FAR: f64 = 20.0;
/// The sizes of the local part that are tried, over the noise.
const LOCAL_SIZES: [f64; 6] = [LEAST_LOCAL, 2.0, 4.0, 8.0, 16.0, 32.0];
/// However well the parts explain what was seen, they may not explain what was not.
const LEAST_LOCAL: f64 = 1.5;

impl<const N: usize> Calibration<N> {
    pub(crate) fn new(doubt: [f64; N], noise: f64) -> Self {
        Self {
            doubt: doubt.map(|doubt| doubt * doubt),
            noise,
            seen: Vec::new(),
            local: LEAST_LOCAL * noise,
            factor: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Takes what was measured where the model said something: their difference, as a part of the base run's figure.
    pub(crate) fn learn(&mut self, parts: Parts<N>, difference: f64) {
        self.seen.push((parts, difference));
        let mut best = f64::NEG_INFINITY;
        for size in LOCAL_SIZES {
            let local = size * self.noise;
            let (factor, weights, likelihood) = self.fitted(local);
            // A larger one has to be a good deal likelier: with few runs anything can be explained.
            if likelihood > best + 0.5 {
                best = likelihood;
                self.local = local;
                self.factor = factor;
                self.weights = weights;
            }
        }
    }

    /// The model's figure, corrected.
    pub(crate) fn guess(&self, parts: &Parts<N>, figure: f64) -> Guess {
        let along: Vec<f64> = self
            .seen
            .iter()
            .map(|(seen, _)| self.kernel(parts, seen, self.local))
            .collect();
        let correction: f64 = along.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let solved = forward(&self.factor, along);
        let known: f64 = solved.iter().map(|it| it * it).sum();
        let own = self.kernel(parts, parts, self.local);
        let noise = self.noise * self.noise;
        Guess {
            mean: figure + correction,
            deviation: ((own - known).max(0.0) + noise).sqrt(),
        }
    }

    fn kernel(&self, one: &Parts<N>, other: &Parts<N>, local: f64) -> f64 {
        let mut linear = 0.0;
        let mut apart = 0.0;
        for at in 0..N {
            let (one, other) = (f64::from(one[at]), f64::from(other[at]));
            linear += self.doubt[at] * one * other;
            apart += (one - other) * (one - other);
        }
        let apart = 0.5 * apart / (ALIKE * ALIKE);
        // What is this far apart has nothing in common, and an exponential costs as much as all the rest.
        if apart > FAR {
            return linear;
        }
        linear + local * local * (-apart).exp()
    }

    /// The factor, the weights and the logarithm of how likely all that was seen is with a local part of this size.
    fn fitted(&self, local: f64) -> (Vec<f64>, Vec<f64>, f64) {
        let count = self.seen.len();
        let mut factor = vec![0.0; count * (count + 1) / 2];
        let start = |row: usize| row * (row + 1) / 2;
        for row in 0..count {
            for column in 0..=row {
                let mut entry = self.kernel(&self.seen[row].0, &self.seen[column].0, local);
                if row == column {
                    entry += self.noise * self.noise;
                }
                for before in 0..column {
                    entry -= factor[start(row) + before] * factor[start(column) + before];
                }
                factor[start(row) + column] = if row == column {
                    entry.max(f64::MIN_POSITIVE).sqrt()
                } else {
                    entry / factor[start(column) + column]
                };
            }
        }
        let differences = self
            .seen
            .iter()
            .map(|(_, difference)| *difference)
            .collect();
        let mut weights = forward(&factor, differences);
        let fit: f64 = weights.iter().map(|it| it * it).sum();
        let size: f64 = (0..count).map(|row| factor[start(row) + row].ln()).sum();
        for row in (0..count).rev() {
            for below in row + 1..count {
                weights[row] -= factor[start(below) + row] * weights[below];
            }
            weights[row] /= factor[start(row) + row];
        }
        (factor, weights, -0.5 * fit - size)
    }
}

/// Solves `factor * x = right` for a lower triangle, row by row.
fn forward(factor: &[f64], mut right: Vec<f64>) -> Vec<f64> {
    let mut start = 0;
    for row in 0..right.len() {
        let (before, rest) = right.split_at_mut(row);
        let entries = &factor[start..=start + row];
        let known: f64 = entries.iter().zip(before.iter()).map(|(a, b)| a * b).sum();
        rest[0] = (rest[0] - known) / entries[row];
        start += row + 1;
    }
    right
}

/// The part of a normal distribution below `score`, to 1e-7 (Abramowitz and Stegun 26.2.17).
fn normal(score: f64) -> f64 {
    let step = 1.0 / (1.0 + 0.231_641_9 * score.abs());
    let series = step
        * (0.319_381_530
            + step
                * (-0.356_563_782
                    + step * (1.781_477_937 + step * (-1.821_255_978 + step * 1.330_274_429))));
    let tail = (-0.5 * score * score).exp() / (std::f64::consts::TAU).sqrt() * series;
    if score < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, width: f64) {
        assert!((found - expected).abs() <= width, "{found} and {expected}");
    }

    #[test]
    fn learns_the_part_that_is_off() {
        // The second part is 30 % more than the model says, the first is right.
        let mut calibration = Calibration::new([0.5, 0.5], 0.001);
        for (first, second) in [(1.0, 0.2), (0.5, 0.4), (0.8, 0.1)] {
            calibration.learn([first, second], 0.3 * f64::from(second));
        }
        let guess = calibration.guess(&[0.6, 0.5], 1.1);
        near(guess.mean, 1.25, 0.002);
        assert!(guess.deviation < 0.01, "{guess:?}");
    }

    #[test]
    fn what_was_not_seen_stays_uncertain() {
        let mut calibration = Calibration::new([0.5, 0.5], 0.001);
        let before = calibration.guess(&[1.0, 1.0], 2.0).deviation;
        near(before, 0.5_f64.sqrt(), 0.001);
        calibration.learn([1.0, 0.0], 0.0);
        near(calibration.guess(&[1.0, 0.0], 1.0).deviation, 0.001, 0.001);
        near(calibration.guess(&[1.0, 1.0], 2.0).deviation, 0.5, 0.001);
    }

    #[test]
    fn what_no_part_explains_widens_guesses() {
        let width = |differences: [f64; 3]| {
            let mut calibration = Calibration::new([0.5], 0.001);
            for (part, difference) in [1.0, 1.2, 1.4].into_iter().zip(differences) {
                calibration.learn([part], difference);
            }
            calibration.guess(&[1.7], 1.0).deviation
        };
        assert!(width([0.1, 0.12, 0.14]) < 0.01);
        assert!(width([0.1, -0.1, 0.1]) > 0.02);
    }

    #[test]
    fn the_normal_distribution() {
        near(normal(0.0), 0.5, 1e-7);
        near(normal(1.0), 0.841_344_746, 1e-7);
        near(normal(-2.0), 0.022_750_132, 1e-7);
        let guess = Guess {
            mean: 1.0,
            deviation: 0.1,
        };
        near(guess.is_at_most(1.1), 0.841_344_746, 1e-7);
        near(guess.below(2.0), 1.0, 1e-6);
        near(guess.below(1.0), 0.039_894_228, 1e-6);
    }
}
