//! How wrong the model is, learned from what was measured: a linear correction in the model's own parts, each of which
//! is believed to be off by so much before anything is known.
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

/// The correction of one figure.
#[derive(Clone, Debug)]
pub(crate) struct Calibration<const N: usize> {
    /// By how much each part may be off, as a part of itself.
    doubt: [f64; N],
    /// What no part explains.
    least_noise: f64,
    seen: Vec<(Parts<N>, f64)>,
    mean: [f64; N],
    covariance: [[f64; N]; N],
    noise: f64,
}

impl<const N: usize> Calibration<N> {
    pub(crate) fn new(doubt: [f64; N], least_noise: f64) -> Self {
        let mut new = Self {
            doubt,
            least_noise,
            seen: Vec::new(),
            mean: [0.0; N],
            covariance: [[0.0; N]; N],
            noise: least_noise,
        };
        new.solve();
        new
    }

    /// Takes what was measured where the model said something: their difference, as a part of the base run's figure.
    pub(crate) fn learn(&mut self, parts: Parts<N>, difference: f64) {
        self.seen.push((parts, difference));
        self.noise = self.least_noise;
        self.solve();
        // What the parts cannot explain is noise, and widens every guess.
        let left: f64 = self
            .seen
            .iter()
            .map(|(parts, difference)| (difference - self.correction(parts)).powi(2))
            .sum();
        let unexplained = (left / self.seen.len() as f64).sqrt();
        if unexplained > self.least_noise {
            self.noise = unexplained;
            self.solve();
        }
    }

    fn correction(&self, parts: &Parts<N>) -> f64 {
        let terms = parts.iter().zip(&self.mean);
        terms.map(|(part, mean)| f64::from(*part) * mean).sum()
    }

    /// The model's figure, corrected.
    pub(crate) fn guess(&self, parts: &Parts<N>, figure: f64) -> Guess {
        let mut variance = self.noise * self.noise;
        for (row, part) in self.covariance.iter().zip(parts) {
            if *part == 0.0 {
                continue;
            }
            let terms = row.iter().zip(parts);
            let along: f64 = terms.map(|(entry, other)| entry * f64::from(*other)).sum();
            variance += along * f64::from(*part);
        }
        Guess {
            mean: figure + self.correction(parts),
            deviation: variance.max(self.least_noise * self.least_noise).sqrt(),
        }
    }

    /// Bayesian linear regression: the inverse of the precision, and the mean that follows from it.
    fn solve(&mut self) {
        let mut precision = [[0.0; N]; N];
        let mut pull = [0.0; N];
        let weight = 1.0 / (self.noise * self.noise);
        for (at, row) in precision.iter_mut().enumerate() {
            row[at] = 1.0 / (self.doubt[at] * self.doubt[at]);
        }
        for (parts, difference) in &self.seen {
            for (at, row) in precision.iter_mut().enumerate() {
                let part = f64::from(parts[at]) * weight;
                pull[at] += part * difference;
                for (entry, other) in row.iter_mut().zip(parts) {
                    *entry += part * f64::from(*other);
                }
            }
        }
        self.covariance = inverse(precision);
        for (mean, row) in self.mean.iter_mut().zip(&self.covariance) {
            *mean = row
                .iter()
                .zip(&pull)
                .map(|(entry, pull)| entry * pull)
                .sum();
        }
    }
}

/// The inverse of a symmetric matrix whose eigenvalues are positive, so that no pivoting is needed.
fn inverse<const N: usize>(mut matrix: [[f64; N]; N]) -> [[f64; N]; N] {
    let mut result = [[0.0; N]; N];
    for (at, row) in result.iter_mut().enumerate() {
        row[at] = 1.0;
    }
    for at in 0..N {
        let pivot = matrix[at][at];
        for column in 0..N {
            matrix[at][column] /= pivot;
            result[at][column] /= pivot;
        }
        let (row, inverse_row) = (matrix[at], result[at]);
        for other in 0..N {
            let factor = matrix[other][at];
            if other == at || factor == 0.0 {
                continue;
            }
            for column in 0..N {
                matrix[other][column] -= factor * row[column];
                result[other][column] -= factor * inverse_row[column];
            }
        }
    }
    result
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
    fn contradictions_widen_guesses() {
        let mut calibration = Calibration::new([0.5], 0.001);
        calibration.learn([1.0], 0.1);
        calibration.learn([1.0], -0.1);
        assert!(calibration.guess(&[1.0], 1.0).deviation > 0.09);
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
