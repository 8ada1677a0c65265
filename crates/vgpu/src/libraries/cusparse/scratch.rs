//! Scratch sizes of sparse work.
//!
//! NVIDIA documents that they are to be asked for; which algorithm stores what is documented for products of two sparse
//! matrices alone: the default stores every intermediate product with its column.

use crate::libraries::estimate::{Scratch, assume, foresee};
use crate::session::Session;

/// Bytes of a row or column number.
const INDEX: u64 = 4;

/// A piece of work with the sizes that its scratch memory depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A sparse matrix times a dense one, or a product of dense ones at the places of a sparse one.
    Product {
        rows: i64,
        elements: i64,
        right_sides: i64,
    },
    /// A triangular solution.
    Solve {
        rows: i64,
        elements: i64,
        right_sides: i64,
    },
    /// A sum of two sparse matrices.
    Sum { rows: i64 },
    /// Elements ordered by row and column.
    Sort { elements: i64 },
    /// A product of two sparse matrices, from the number of intermediate products.
    SparseProduct { rows: i64, products: u64 },
}

impl Work {
    /// The range for values of `value` bytes; `None` when a size is negative or too large.
    fn scratch(self, value: u64) -> Option<Scratch> {
        let size = |size: i64| u64::try_from(size).ok().filter(|size| size >> 40 == 0);
        // Copies of a sparse matrix can be 2^40 elements of 16 bytes, products of two sizes more.
        let times = |count: u64, bytes: u64| count.checked_mul(bytes);
        let (low, likely, high) = match self {
            // Partial sums at the borders of blocks of rows; at most both matrices in another order.
            Self::Product {
                rows,
                elements,
                right_sides,
            } => {
                let (rows, elements, right_sides) =
                    (size(rows)?, size(elements)?, size(right_sides)?);
                let dense = times(rows.checked_mul(right_sides)?, value)?;
                let sparse = times(elements, 2 * INDEX + value)? + times(rows + 1, INDEX)?;
                (0, times(rows + 1, INDEX)?, sparse.checked_add(dense)?)
            }
            // The order in which rows can be solved.
            Self::Solve {
                rows,
                elements,
                right_sides,
            } => {
                let (rows, elements, right_sides) =
                    (size(rows)?, size(elements)?, size(right_sides)?);
                let dense = times(rows.checked_mul(right_sides)?, value)?;
                let order = times(rows + 1, 3 * INDEX)?;
                let sparse = times(elements, 2 * INDEX + value)?;
                (0, order, order.checked_add(sparse)?.checked_add(dense)?)
            }
            Self::Sum { rows } => {
                let counts = times(size(rows)? + 1, INDEX)?;
                (0, counts, 4 * counts)
            }
            // Keys of both numbers with their places, twice, as a radix sort needs them.
            Self::Sort { elements } => {
                let keys = times(size(elements)?, 2 * INDEX + INDEX)?;
                (keys / 2, 2 * keys, 4 * keys)
            }
            Self::SparseProduct { rows, products } => {
                let stored = times(products, INDEX + value)?;
                let counts = times(size(rows)? + 1, 2 * INDEX)?;
                let likely = stored.checked_add(counts)?;
                (counts, likely, likely.checked_mul(2)?)
            }
        };
        Some(Scratch { low, likely, high })
    }
}

/// The likely size in bytes, said with its range; `None` when it cannot be said.
pub(super) fn scratch_bytes(session: &Session, work: Work, value: u64) -> Option<u64> {
    let scratch = work.scratch(value)?;
    assume(
        "the scratch memory of cuSPARSE",
        "counts for each row, and every intermediate product of two sparse matrices, which NVIDIA documents for the \
         default algorithm; at most copies of all that takes part",
    );
    foresee(session, scratch);
    Some(scratch.likely)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_order() {
        let check = |work: Work, value, expected: Option<[u64; 3]>| {
            let scratch = work.scratch(value);
            assert_eq!(
                scratch.map(|range| [range.low, range.likely, range.high]),
                expected,
                "{work:?}"
            );
        };
        check(
            Work::Product {
                rows: 9,
                elements: 5,
                right_sides: 2,
            },
            4,
            Some([0, 40, 60 + 40 + 72]),
        );
        check(
            Work::Solve {
                rows: 9,
                elements: 5,
                right_sides: 1,
            },
            8,
            Some([0, 120, 120 + 80 + 72]),
        );
        check(Work::Sum { rows: 9 }, 4, Some([0, 40, 160]));
        check(Work::Sort { elements: 10 }, 4, Some([60, 240, 480]));
        check(
            Work::SparseProduct {
                rows: 9,
                products: 100,
            },
            4,
            Some([80, 880, 1760]),
        );
        check(Work::Sum { rows: -1 }, 4, None);
        check(
            Work::SparseProduct {
                rows: 9,
                products: u64::MAX,
            },
            4,
            None,
        );
    }
}
