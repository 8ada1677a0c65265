//! "And" and "or" of truths of which one side is known and decides alone: nothing need be assumed for it.

use super::launch::Launch;
use super::{MAX_BYTES, room};
use crate::contents::Known;
use crate::kernels::signature::{Parameter, Signature};
use crate::memory::Memory;

/// An element-wise "and" or "or" of two tensors of truths, or of one and a truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logic {
    /// The truth that decides alone: false for "and".
    decisive: u8,
    /// Whether the second side is in the functor, behind the operation's one byte.
    has_scalar: bool,
}

impl Logic {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let ("vectorized_elementwise_kernel" | "unrolled_elementwise_kernel", [_, functor, _]) =
            (signature.function(), signature.types())
        else {
            return None;
        };
        let is_plain =
            signature.is_contiguous() && signature.parameters()[2] == Parameter::PointerArray;
        let decisive = if functor.contains("BitwiseAndFunctor<bool>") {
            0
        } else if functor.contains("BitwiseOrFunctor<bool>") {
            1
        } else {
            return None;
        };
        is_plain.then(|| Self {
            decisive,
            has_scalar: !functor.contains("BinaryFunctor<"),
        })
    }

    pub(super) fn decide(self, memory: &mut Memory, launch: Launch) {
        let count = u64::from(launch.int(0));
        let output = launch.word(2, 0);
        let len = room(memory, output, count);
        if len > MAX_BYTES || memory.contents.unknown(output, len) == 0 {
            return;
        }
        if self.has_scalar {
            if (launch.int_at(1, 0) >> 8) as u8 == self.decisive {
                let bytes = vec![self.decisive; len as usize];
                memory.contents.write(output, &bytes);
            }
            return;
        }
        for input in [1, 2].map(|tensor| launch.word(2, tensor)) {
            // A side that is known in part is rare, and stays undecided.
            let Some(known) = memory.contents.known(input, len as usize) else {
                continue;
            };
            for (at, _) in (0..)
                .zip(&known.bytes)
                .filter(|(_, byte)| **byte == self.decisive)
            {
                let bytes = vec![self.decisive];
                let assumption = known.assumption;
                memory
                    .contents
                    .put(output + at, Known { bytes, assumption });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_known_by_their_functor() {
        let of = |functor: &str| {
            Logic::of(&Signature::parse(&format!(
                "void at::native::vectorized_elementwise_kernel<8, {functor}, std::array<char*, 3ul> >(int, {functor}, std::array<char*, 3ul>)"
            )))
        };
        let binary = |operation: &str| {
            of(&format!(
                "at::native::BinaryFunctor<bool, bool, bool, at::native::{operation} >"
            ))
        };
        let [and, or] = [0, 1].map(|decisive| Logic {
            decisive,
            has_scalar: false,
        });
        assert_eq!(binary("BitwiseAndFunctor<bool>"), Some(and));
        assert_eq!(binary("BitwiseOrFunctor<bool>"), Some(or));
        assert_eq!(binary("BitwiseXorFunctor<bool>"), None);
        let scalar =
            of("at::native::BUnaryFunctor<bool, bool, bool, at::native::BitwiseAndFunctor<bool> >");
        assert_eq!(scalar.map(|logic| logic.has_scalar), Some(true));
    }
}
