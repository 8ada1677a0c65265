//! A whole number alone that nobody knows: a coordinate, a length, a count, before it is computed with.
//!
//! A script that makes slices of such numbers reads what follows from them more than once: the width of a box and then
//! its edges. They agree only if the number itself is assumed, before anything is computed from it. It is taken to be
//! what a read of it would give.

use super::launch::Launch;
use super::{Ground, put_if_unknown};
use crate::kernels::element::Element;
use crate::kernels::operation::Operation;
use crate::kernels::signature::{Parameter, Signature};
use crate::memory::Memory;

/// Arithmetic on whole numbers, by the size of each input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    inputs: Vec<usize>,
}

impl Whole {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let (
            "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel",
            [count, functor, _, rest @ ..],
        ) = (signature.function(), signature.types())
        else {
            return None;
        };
        let converts = rest.iter().any(|text| text.contains("WithCast<"));
        let is_plain = signature.is_contiguous()
            && !converts
            && signature.parameters()[2] == Parameter::PointerArray;
        if !is_plain || count != "int" {
            return None;
        }
        let operation = Operation::of(functor)?;
        let is_number = |element: &Element| element.is_whole() && *element != Element::Bool;
        let is_arithmetic = !operation.inputs.is_empty()
            && operation
                .inputs
                .iter()
                .chain([&operation.output])
                .all(is_number);
        is_arithmetic.then(|| Self {
            inputs: operation
                .inputs
                .iter()
                .map(|element| element.len())
                .collect(),
        })
    }

    /// Assumes the inputs, which the launch will then compute with.
    pub(super) fn settle(&self, memory: &mut Memory, launch: Launch, ground: Ground) {
        if launch.int(0) != 1 {
            return;
        }
        for (tensor, len) in (1..).zip(&self.inputs) {
            let address = launch.word(2, tensor);
            if memory.contents.unknown(address, *len as u64) == *len as u64 {
                put_if_unknown(memory, address, vec![0; *len], ground);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(functor: &str, n_tensors: usize, expected: Option<&[usize]>) {
        let signature = Signature::parse(&format!(
            "void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, {n_tensors}ul> >(int, {functor}, std::array<char*, {n_tensors}ul>)"
        ));
        let found = Whole::of(&signature);
        assert_eq!(
            found.as_ref().map(|whole| whole.inputs.as_slice()),
            expected,
            "{functor}"
        );
    }

    #[test]
    fn are_arithmetic_on_whole_numbers() {
        let compare = "at::native::BUnaryFunctor<long, long, bool, at::native::(anonymous namespace)::CompareEqFunctor<long> >";
        check("at::native::CUDAFunctor_add<long>", 3, Some(&[8, 8]));
        check("at::native::CUDAFunctorOnSelf_add<int>", 2, Some(&[4]));
        check("at::native::CUDAFunctor_add<float>", 3, None);
        check("at::native::FillFunctor<long>", 1, None);
        check(compare, 2, None);
    }
}
