//! Whether a packing is one: written from the definition alone, and sharing nothing with the search.

use std::collections::BTreeMap;

use oomproof_units::Bytes;
use thiserror::Error;

use crate::lifetimes::Lifetime;
use crate::packing::Packing;

/// What is wrong with a packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PackingError {
    /// The packing is of other blocks.
    #[error("the packing places {placed} of {given} blocks")]
    WrongNumber {
        /// Offsets in the packing.
        placed: usize,
        /// Blocks that were to be placed.
        given: usize,
    },
    /// A block does not begin where a block may.
    #[error("block {0} begins at no multiple of 512 bytes")]
    Misaligned(usize),
    /// Two blocks hold the same bytes at the same time.
    #[error("blocks {0} and {1} overlap")]
    Overlap(usize, usize),
    /// A block ends elsewhere than the packing says.
    #[error("the highest block ends at {found} and not at {said}")]
    WrongHeight {
        /// Where it ends.
        found: Bytes,
        /// Where the packing says.
        said: Bytes,
    },
}

/// Checks that blocks which live at the same time share no byte, that each is aligned, and that the height is true.
///
/// Blocks of PyTorch are multiples of 512 bytes, so a block of another size holds the rest of its last 512 bytes too.
pub fn check_packing(lifetimes: &[Lifetime], packing: &Packing) -> Result<(), PackingError> {
    if lifetimes.len() != packing.offsets.len() {
        return Err(PackingError::WrongNumber {
            placed: packing.offsets.len(),
            given: lifetimes.len(),
        });
    }
    let mut moments: Vec<(u32, u8, usize)> = Vec::new();
    let mut highest = 0;
    for (block, one) in lifetimes.iter().enumerate() {
        let start = packing.offsets[block].get();
        if !start.is_multiple_of(512) {
            return Err(PackingError::Misaligned(block));
        }
        highest = highest.max(start + held(one));
        if one.size > Bytes::ZERO {
            moments.push((one.ends, 0, block));
            moments.push((one.begins, 1, block));
        }
    }
    moments.sort_unstable();
    let mut live: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (_, kind, block) in moments {
        let start = packing.offsets[block].get();
        if kind == 0 {
            live.remove(&start);
            continue;
        }
        let end = start + held(&lifetimes[block]);
        if let Some((_, &(other_end, other))) = live.range(..end).next_back()
            && other_end > start
        {
            return Err(PackingError::Overlap(other, block));
        }
        live.insert(start, (end, block));
    }
    if packing.height.get() != highest {
        return Err(PackingError::WrongHeight {
            found: Bytes::new(highest),
            said: packing.height,
        });
    }
    Ok(())
}

fn held(one: &Lifetime) -> u64 {
    (one.size.get() + 511) & !511
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        blocks: &[(u64, u32, u32)],
        offsets: &[u64],
        height: u64,
        expected: Result<(), PackingError>,
    ) {
        let lifetimes: Vec<Lifetime> = blocks
            .iter()
            .map(|&(size, begins, ends)| Lifetime {
                size: Bytes::new(size),
                begins,
                ends,
            })
            .collect();
        let packing = Packing {
            offsets: offsets.iter().map(|&offset| Bytes::new(offset)).collect(),
            height: Bytes::new(height),
            is_optimal: false,
        };
        assert_eq!(check_packing(&lifetimes, &packing), expected);
    }

    #[test]
    fn wrong_packings_are_named() {
        check(&[(512, 0, 1)], &[0], 512, Ok(()));
        check(&[(512, 0, 1), (512, 1, 2)], &[0, 0], 512, Ok(()));
        check(
            &[(512, 0, 2), (512, 1, 2)],
            &[0, 0],
            512,
            Err(PackingError::Overlap(0, 1)),
        );
        check(
            &[(1024, 0, 2), (512, 1, 2)],
            &[0, 512],
            1024,
            Err(PackingError::Overlap(0, 1)),
        );
        check(
            &[(512, 0, 2), (1024, 1, 2)],
            &[512, 0],
            1024,
            Err(PackingError::Overlap(0, 1)),
        );
        check(
            &[(513, 0, 2), (512, 1, 2)],
            &[0, 512],
            1024,
            Err(PackingError::Overlap(0, 1)),
        );
        check(
            &[(512, 0, 1)],
            &[256],
            768,
            Err(PackingError::Misaligned(0)),
        );
        check(
            &[(512, 0, 1)],
            &[512],
            512,
            Err(PackingError::WrongHeight {
                found: Bytes::new(1024),
                said: Bytes::new(512),
            }),
        );
        check(
            &[(512, 0, 1)],
            &[],
            0,
            Err(PackingError::WrongNumber {
                placed: 0,
                given: 1,
            }),
        );
    }
}
