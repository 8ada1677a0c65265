//! The random numbers of CUDA's generator `Philox4_32_10`, as PyTorch's kernels draw them: each thread has a sequence
//! of its own, of which it draws four words at a time.
//!
//! The words are those of a real GPU. What is made of them by logarithms and sines may differ in the last digits.

/// One thread's sequence.
pub(super) struct Philox {
    counter: [u32; 4],
    key: [u32; 2],
}

impl Philox {
    /// The sequence of this number, after `offset` words, which must be a multiple of four.
    pub(super) fn new(seed: u64, sequence: u64, offset: u64) -> Option<Self> {
        let groups = offset / 4;
        offset.is_multiple_of(4).then_some(Self {
            counter: [
                groups as u32,
                (groups >> 32) as u32,
                sequence as u32,
                (sequence >> 32) as u32,
            ],
            key: [seed as u32, (seed >> 32) as u32],
        })
    }

    /// The next four words.
    pub(super) fn next(&mut self) -> [u32; 4] {
        let ([mut x, mut y, mut z, mut w], [mut k0, mut k1]) = (self.counter, self.key);
        for _ in 0..10 {
            let (first, second) = (u64::from(x) * 0xD251_1F53, u64::from(z) * 0xCD9E_8D57);
            (x, y, z, w) = (
                (second >> 32) as u32 ^ y ^ k0,
                second as u32,
                (first >> 32) as u32 ^ w ^ k1,
                first as u32,
            );
            k0 = k0.wrapping_add(0x9E37_79B9);
            k1 = k1.wrapping_add(0xBB67_AE85);
        }
        for word in &mut self.counter {
            *word = word.wrapping_add(1);
            if *word != 0 {
                break;
            }
        }
        [x, y, z, w]
    }

    /// Four numbers above 0 and up to 1.
    pub(super) fn uniform(&mut self) -> [f64; 4] {
        self.next().map(|word| {
            let scale = 1.0 / 4_294_967_296.0f32;
            f64::from((word as f32).mul_add(scale, scale / 2.0))
        })
    }

    /// Two such numbers in double precision.
    pub(super) fn uniform_double(&mut self) -> [f64; 2] {
        let [x, y, z, w] = self.next();
        [double(x, y), double(z, w)]
    }

    /// Four numbers that are normally distributed.
    pub(super) fn normal(&mut self) -> [f64; 4] {
        let words = self.next();
        let pair = |x: u32, y: u32| {
            let scale = 1.0 / 4_294_967_296.0f32;
            let turn = scale * std::f32::consts::TAU;
            let radius = f64::from((x as f32).mul_add(scale, scale / 2.0));
            let angle = f64::from((y as f32).mul_add(turn, turn / 2.0));
            let radius = f64::from((-2.0 * radius.ln()).sqrt() as f32);
            [angle.sin(), angle.cos()].map(|value| f64::from((radius * value) as f32))
        };
        let ([a, b], [c, d]) = (pair(words[0], words[1]), pair(words[2], words[3]));
        [a, b, c, d]
    }

    /// Two such numbers in double precision.
    pub(super) fn normal_double(&mut self) -> [f64; 2] {
        let [x, y, z, w] = self.next();
        let radius = (-2.0 * double(x, y).ln()).sqrt();
        let angle = double(z, w) * std::f64::consts::TAU;
        [radius * angle.sin(), radius * angle.cos()]
    }
}

fn double(low: u32, high: u32) -> f64 {
    let scale = 1.0 / 9_007_199_254_740_992.0;
    let word = u64::from(low) ^ (u64::from(high) << 21);
    (word as f64).mul_add(scale, scale / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors of the generator publish.
    #[test]
    fn words_are_those_of_the_published_test_vectors() {
        let check = |counter, key, expected| assert_eq!(Philox { counter, key }.next(), expected);
        check(
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        );
        check(
            [u32::MAX; 4],
            [u32::MAX; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        );
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut generator = Philox::new(7, 3, 8).unwrap();
        for _ in 0..1000 {
            assert!(generator.uniform().iter().all(|x| *x > 0.0 && *x <= 1.0));
            assert!(
                generator
                    .uniform_double()
                    .iter()
                    .all(|x| *x > 0.0 && *x <= 1.0)
            );
            assert!(generator.normal().iter().all(|x| x.abs() < 7.0));
        }
        assert!(Philox::new(7, 3, 9).is_none());
    }
}
