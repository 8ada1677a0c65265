//! What a product of matrices asks of the device, by the numbers with which cuBLAS and cuBLASLt are told its form.

use crate::clock::{Cost, Format};

/// `cudaDataType`, the ones of functions whose names say what they multiply.
pub(super) mod data_type {
    pub(crate) const SINGLE: i32 = 0;
    pub(crate) const DOUBLE: i32 = 1;
    pub(crate) const HALF: i32 = 2;
    pub(crate) const COMPLEX: i32 = 4;
    pub(crate) const DOUBLE_COMPLEX: i32 = 5;
}

/// How 32-bit numbers are multiplied: what `cublasSetMathMode` or the type of the computation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Singles {
    /// As they are.
    Whole,
    /// Rounded by tensor cores.
    Rounded,
    /// As half precision.
    Half,
    /// As bfloat16.
    Brain,
}

impl Singles {
    /// By `cublasComputeType_t`; `None` where it leaves that to the mode of the handle.
    pub(super) fn of_compute_type(compute_type: i32) -> Option<Self> {
        match compute_type {
            69 => Some(Self::Whole), // pedantic
            74 => Some(Self::Half),
            75 => Some(Self::Brain),
            77 => Some(Self::Rounded),
            _ => None,
        }
    }

    /// By `cublasMath_t`.
    pub(super) fn of_mode(mode: i32) -> Self {
        if mode & 0xf == 3 {
            Self::Rounded
        } else {
            Self::Whole
        }
    }
}

/// Products of `m` by `k` with `k` by `n`, as many as the batch has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) batch: i64,
    /// `cudaDataType` of the factors, of which the first decides how is multiplied.
    pub(super) factors: [i32; 2],
    /// `cudaDataType` of the result.
    pub(super) result: i32,
    /// `cublasComputeType_t`, 0 where the function has none.
    pub(super) compute_type: i32,
}

/// A number's size in bits, and how many multiplications a complex one needs.
fn shape(data_type: i32) -> (u64, u64) {
    match data_type {
        1 => (64, 1),
        4 => (64, 4),
        5 => (128, 4),
        2 | 14 => (16, 1),
        6 | 15 => (32, 4),
        3 | 8 | 28..=30 => (8, 1),
        33 => (4, 1),
        _ => (32, 1),
    }
}

impl Product {
    /// A product of factors and a result of one type.
    pub(super) fn of(data_type: i32, sizes: [i32; 3], batch: i32) -> Self {
        let [m, n, k] = sizes.map(i64::from);
        Self {
            m,
            n,
            k,
            batch: i64::from(batch),
            factors: [data_type; 2],
            result: data_type,
            compute_type: 0,
        }
    }

    fn format(&self, singles: Singles) -> Format {
        match self.factors[0] {
            1 | 5 => Format::Double,
            2 | 6 => Format::Half,
            14 | 15 => Format::Brain,
            // Of 4-bit factors the rate is not in the catalog; that of 8-bit ones is taken.
            3 | 8 | 28..=30 | 33 => Format::Eighth,
            _ => match singles {
                Singles::Whole => Format::Single,
                Singles::Rounded => Format::Rounded,
                Singles::Half => Format::Half,
                Singles::Brain => Format::Brain,
            },
        }
    }

    /// What it asks of the device, where the handle multiplies 32-bit numbers in the way of `mode`.
    pub(super) fn cost(&self, mode: Singles) -> Cost {
        let positive = |size| u64::try_from(size).unwrap_or(0);
        let [m, n, k, batch] = [self.m, self.n, self.k, self.batch].map(positive);
        let times = |sizes: &[u64]| {
            sizes
                .iter()
                .fold(1, |all: u64, one| all.saturating_mul(*one))
        };
        let bytes = |rows, columns, data_type| {
            let (bits, _) = shape(data_type);
            times(&[rows, columns, batch, bits]) / 8
        };
        let singles = Singles::of_compute_type(self.compute_type).unwrap_or(mode);
        let [first, second] = self.factors;
        Cost {
            bytes: bytes(m, k, first)
                .saturating_add(bytes(k, n, second))
                .saturating_add(bytes(m, n, self.result)),
            operations: times(&[2, m, n, k, batch, shape(first).1]),
            format: self.format(singles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_arithmetic() {
        let check = |data_type, compute_type, mode, bytes, operations, format| {
            let product = Product {
                compute_type,
                ..Product::of(data_type, [128, 256, 512], 3)
            };
            let expected = Cost {
                bytes,
                operations,
                format,
            };
            assert_eq!(product.cost(Singles::of_mode(mode)), expected);
        };
        // 3 (128 512 + 512 256 + 128 256) numbers, and 3 128 256 512 multiply-adds.
        let numbers = 3 * (65_536 + 131_072 + 32_768);
        let operations = 2 * 50_331_648;
        check(0, 0, 0, numbers * 4, operations, Format::Single);
        check(0, 0, 3, numbers * 4, operations, Format::Rounded);
        check(0, 68, 3, numbers * 4, operations, Format::Rounded);
        check(0, 69, 3, numbers * 4, operations, Format::Single);
        check(0, 77, 0, numbers * 4, operations, Format::Rounded);
        check(0, 75, 0, numbers * 4, operations, Format::Brain);
        check(1, 70, 3, numbers * 8, operations, Format::Double);
        check(2, 68, 0, numbers * 2, operations, Format::Half);
        check(14, 68, 0, numbers * 2, operations, Format::Brain);
        check(28, 68, 0, numbers, operations, Format::Eighth);
        check(4, 0, 0, numbers * 8, 4 * operations, Format::Single);
    }

    #[test]
    fn sizes_that_make_no_sense_cost_nothing_or_the_most() {
        let none = Product::of(0, [-1, 4, 4], 1).cost(Singles::Whole);
        assert_eq!((none.operations, none.bytes), (0, 64));
        let most = Product::of(0, [i32::MAX; 3], i32::MAX).cost(Singles::Whole);
        assert_eq!(most.operations, u64::MAX);
    }
}
