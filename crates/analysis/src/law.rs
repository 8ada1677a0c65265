//! The law by which memory grows with one size of a script, such as its batch.
//!
//! Blocks are rounded, so even what is proportional is so to some bytes only: a law always comes with by how much the
//! points that it was made from deviate from it.

use serde::Serialize;

/// `constant + per_unit * n + per_unit_squared * n * n`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Law {
    /// What does not depend on the size.
    pub constant_bytes: i64,
    /// What each unit adds.
    pub per_unit_bytes: i64,
    /// What grows with the square; 0 where growth is even.
    pub per_unit_squared_bytes: f64,
    /// The largest difference between a point and the law.
    pub deviation_bytes: u64,
}

/// Differences between steps that are this small a part of the steps are rounding.
const ROUNDING: f64 = 0.01;

impl Law {
    /// The law through points `(n, bytes)`; at least three that are evenly spaced are needed.
    pub fn through(points: &[(u64, u64)]) -> Option<Self> {
        let (&(first, _), &(last, _)) = (points.first()?, points.last()?);
        let step = points.get(1)?.0.checked_sub(first)?;
        let is_even = points
            .windows(2)
            .all(|pair| pair[1].0.checked_sub(pair[0].0) == Some(step));
        if points.len() < 3 || !is_even || step == 0 {
            return None;
        }
        let at = |index: usize| points[index].1 as f64;
        let bends: Vec<f64> = (2..points.len())
            .map(|index| at(index) - 2.0 * at(index - 1) + at(index - 2))
            .collect();
        let (low, high) = bends
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), bend| {
                (low.min(*bend), high.max(*bend))
            });
        let rise = (at(points.len() - 1) - at(0)) / (points.len() - 1) as f64;
        let is_curved = low > rise.abs() * ROUNDING && low * 2.0 >= high;
        let bend = bends.iter().sum::<f64>() / bends.len() as f64;
        let step = step as f64;
        let squared = if is_curved {
            bend / (2.0 * step * step)
        } else {
            0.0
        };
        let each = (at(points.len() - 1) - at(0)) / (last - first) as f64
            - squared * (last + first) as f64;
        let without = |constant: f64, (n, bytes): (u64, u64)| {
            let n = n as f64;
            bytes as f64 - constant - each * n - squared * n * n
        };
        let constant =
            points.iter().map(|point| without(0.0, *point)).sum::<f64>() / points.len() as f64;
        let deviation = points
            .iter()
            .map(|point| without(constant, *point).abs())
            .fold(0.0, f64::max);
        Some(Self {
            constant_bytes: constant.round() as i64,
            per_unit_bytes: each.round() as i64,
            per_unit_squared_bytes: squared,
            deviation_bytes: (deviation.round() as i64).unsigned_abs(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(u64, u64)], expected: Option<(i64, i64, f64, u64)>) {
        let law = Law::through(points).map(|law| {
            (
                law.constant_bytes,
                law.per_unit_bytes,
                law.per_unit_squared_bytes,
                law.deviation_bytes,
            )
        });
        assert_eq!(law, expected, "{points:?}");
    }

    #[test]
    fn lines_and_parabolas_are_found_exactly() {
        check(
            &[(1, 1500), (2, 2000), (3, 2500)],
            Some((1000, 500, 0.0, 0)),
        );
        check(
            &[(4, 3000), (8, 5000), (12, 7000), (16, 9000)],
            Some((1000, 500, 0.0, 0)),
        );
        let square = |n: u64| (n, 1000 + 10 * n + 3 * n * n);
        check(
            &[square(2), square(4), square(6), square(8)],
            Some((1000, 10, 3.0, 0)),
        );
        check(&[(1, 7), (2, 7), (3, 7)], Some((7, 0, 0.0, 0)));
    }

    #[test]
    fn rounding_is_not_a_curve_and_is_said() {
        check(
            &[(1, 101_000), (2, 200_900), (3, 301_000)],
            Some((967, 100_000, 0.0, 67)),
        );
        // It rises in one jump.
        check(
            &[(1, 0), (2, 0), (3, 900), (4, 900)],
            Some((-300, 300, 0.0, 300)),
        );
    }

    #[test]
    fn too_little_is_no_law() {
        check(&[], None);
        check(&[(1, 2), (2, 3)], None);
        check(&[(1, 2), (2, 3), (4, 5)], None);
        check(&[(2, 2), (2, 3), (2, 5)], None);
        check(&[(3, 2), (2, 3), (1, 5)], None);
    }
}
