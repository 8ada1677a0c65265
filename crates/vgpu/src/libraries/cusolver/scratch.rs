//! Scratch sizes of factorizations.
//!
//! cuSOLVER documents that each is to be asked for and none of the sizes. The likely figure is what LAPACK documents as
//! the best work space of the routine of the same name, with blocks of [`BLOCK`] columns; the upper end adds the copies
//! that an out-of-place implementation of the same algorithm makes, the lower end is an implementation without blocks.

use crate::libraries::estimate::{Scratch, assume, foresee};
use crate::session::Session;

/// Columns of a block; LAPACK's `ilaenv` says 32 or 64 for all of these.
const BLOCK: u64 = 64;

/// A routine with the sizes that its work space depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Geev {
        n: i64,
    },
    Geqrf {
        m: i64,
        n: i64,
    },
    Gesvd {
        m: i64,
        n: i64,
    },
    Gesvda {
        m: i64,
        n: i64,
        rank: i64,
        batch: i64,
    },
    Gesvdj {
        m: i64,
        n: i64,
    },
    GesvdjBatched {
        m: i64,
        n: i64,
        batch: i64,
    },
    Getrf {
        m: i64,
        n: i64,
    },
    Orgqr {
        m: i64,
        n: i64,
    },
    Ormqr {
        m: i64,
        n: i64,
    },
    Potrf {
        n: i64,
    },
    Syevd {
        n: i64,
        vectors: bool,
    },
    Syevj {
        n: i64,
        batch: i64,
    },
    Sytrf {
        n: i64,
    },
    Sytrs {
        n: i64,
        right_sides: i64,
    },
}

/// Numbers of elements.
struct Elements([u128; 3]);

impl Work {
    /// The range in elements of the matrix; `None` when a size is negative or absurd.
    fn elements(self) -> Option<Elements> {
        // Products of three sizes and a factor then stay in range.
        let size = |size: i64| u128::try_from(size).ok().filter(|size| size >> 40 == 0);
        let block = u128::from(BLOCK);
        Some(Elements(match self {
            // Hessenberg form, both sets of vectors, and the shifts.
            Self::Geev { n } => {
                let n = size(n)?;
                [4 * n, n * n + (2 + block) * n, 4 * n * n + 4 * block * n]
            }
            Self::Geqrf { m, n } | Self::Orgqr { m, n } => {
                let (m, n) = (size(m)?, size(n)?);
                [n, block * n, 2 * block * (m + n) + block * block]
            }
            Self::Ormqr { m, n } => {
                let (m, n) = (size(m)?, size(n)?);
                let side = m.max(n);
                [m.min(n), block * side, 2 * block * (m + n) + block * block]
            }
            Self::Gesvd { m, n } => {
                let (m, n) = (size(m)?, size(n)?);
                let (most, least) = (m.max(n), m.min(n));
                [
                    most + 3 * least,
                    3 * least + block * (most + least),
                    m * n + 2 * least * least + 2 * block * (most + least),
                ]
            }
            // The Gram matrix, its vectors, and the approximated factor.
            Self::Gesvda { m, n, rank, batch } => {
                let (m, n, rank, batch) = (size(m)?, size(n)?, size(rank)?, size(batch)?);
                [
                    batch * n * rank,
                    batch * (n * n + m * rank),
                    batch * (3 * n * n + 2 * m * n + 2 * block * n),
                ]
            }
            Self::Gesvdj { m, n } => {
                let (m, n) = (size(m)?, size(n)?);
                let (most, least) = (m.max(n), m.min(n));
                [
                    most + least,
                    2 * least * least + 6 * least + most,
                    2 * m * n + 4 * least * least + 2 * block * (most + least),
                ]
            }
            // Small matrices stay in shared memory.
            Self::GesvdjBatched { m, n, batch } => {
                let (m, n, batch) = (size(m)?, size(n)?, size(batch)?);
                [0, batch * (m + n), batch * (m * n + n * n + m * m)]
            }
            Self::Getrf { m, n } => {
                let (m, n) = (size(m)?, size(n)?);
                [0, block * m.max(n), m * n + 2 * block * (m + n)]
            }
            Self::Potrf { n } => {
                let n = size(n)?;
                [0, block * n, 4 * block * n + block * block]
            }
            Self::Syevd { n, vectors } => {
                let n = size(n)?;
                let likely = if vectors {
                    1 + 6 * n + 2 * n * n
                } else {
                    2 * n + 1 + block * n
                };
                [n, likely, 4 * n * n + 8 * n + 2 * block * n]
            }
            Self::Syevj { n, batch } => {
                let (n, batch) = (size(n)?, size(batch)?);
                [
                    0,
                    batch * (n * n + 3 * n),
                    batch * (4 * n * n + 2 * block * n),
                ]
            }
            Self::Sytrf { n } => {
                let n = size(n)?;
                [n, block * n, 4 * block * n + block * block]
            }
            Self::Sytrs { n, right_sides } => {
                let (n, right_sides) = (size(n)?, size(right_sides)?);
                [0, n, n * right_sides + 2 * n]
            }
        }))
    }

    /// The range in bytes for elements of `element` bytes; `None` when it cannot be said.
    fn scratch(self, element: u64) -> Option<Scratch> {
        let Elements(elements) = self.elements()?;
        let bytes = |elements: u128| u64::try_from(elements * u128::from(element)).ok();
        Some(Scratch {
            low: bytes(elements[0].min(elements[1]))?,
            likely: bytes(elements[1])?,
            high: bytes(elements[2].max(elements[1]))?,
        })
    }
}

/// The likely size in bytes, said with its range; `None` when it cannot be said.
pub(super) fn scratch_bytes(session: &Session, work: Work, element: u64) -> Option<u64> {
    let scratch = work.scratch(element)?;
    assume(
        "the scratch memory of cuSOLVER",
        "what LAPACK documents for the routine of the same name, between one without blocks and one that copies",
    );
    foresee(session, scratch);
    Some(scratch.likely)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_sizes_are_those_of_lapack() {
        let check = |work: Work, element, expected: Option<u64>| {
            let scratch = work.scratch(element);
            assert_eq!(scratch.map(|scratch| scratch.likely), expected, "{work:?}");
            if let Some(Scratch { low, likely, high }) = scratch {
                assert!(low <= likely && likely <= high, "{work:?}");
            }
        };
        check(Work::Geqrf { m: 100, n: 10 }, 4, Some(2560));
        check(
            Work::Syevd {
                n: 10,
                vectors: true,
            },
            8,
            Some(8 * 261),
        );
        check(
            Work::Syevd {
                n: 10,
                vectors: false,
            },
            8,
            Some(8 * 661),
        );
        check(Work::Gesvdj { m: 20, n: 10 }, 4, Some(4 * 280));
        check(Work::Getrf { m: 3, n: 5 }, 16, Some(16 * 320));
        check(Work::Syevj { n: 4, batch: 3 }, 4, Some(4 * 84));
        check(
            Work::Sytrs {
                n: 4,
                right_sides: 2,
            },
            4,
            Some(16),
        );
        check(Work::Geev { n: 2 }, 8, Some(8 * 136));
        check(Work::Potrf { n: 0 }, 4, Some(0));
        check(Work::Gesvd { m: 2, n: 2 }, 4, Some(4 * 262));
        check(
            Work::Gesvda {
                m: 4,
                n: 2,
                rank: 2,
                batch: 5,
            },
            4,
            Some(4 * 60),
        );
        check(
            Work::GesvdjBatched {
                m: 2,
                n: 2,
                batch: 5,
            },
            4,
            Some(80),
        );
        check(Work::Orgqr { m: 4, n: 2 }, 4, Some(512));
        check(Work::Ormqr { m: 4, n: 2 }, 4, Some(1024));
        check(Work::Sytrf { n: 2 }, 4, Some(512));
        check(Work::Potrf { n: -1 }, 4, None);
        check(
            Work::Syevj {
                n: i64::MAX,
                batch: 1,
            },
            16,
            None,
        );
    }
}
