//! What the host is given for bytes that it reads and that are not known.
//!
//! Training must go on as it would on a real GPU: a loss is a number one can take the logarithm of, and the answer to
//! "is everything in order?" is yes. So a float is one, the result of "all of these are true" is true, and everything
//! else is zero: counts, indices, flags for overflow or not-a-number. Each such read is in the profile.

use super::signature::{Signature, split_at_commas};

/// A value that stands in for an unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Assumed {
    #[default]
    Zero,
    True,
    /// The bytes of 1 in some type of float.
    One(&'static [u8]),
}

const FLOATS: [(&str, &[u8]); 4] = [
    ("float", &1f32.to_ne_bytes()),
    ("double", &1f64.to_ne_bytes()),
    ("c10::BFloat16", &0x3f80_u16.to_ne_bytes()),
    ("c10::Half", &0x3c00_u16.to_ne_bytes()),
];

/// One in the float of this C++ name; zero when it is none.
fn one(name: &str) -> Assumed {
    let name = name.trim();
    FLOATS
        .iter()
        .find(|(float, _)| *float == name)
        .map_or(Assumed::Zero, |(_, bytes)| Assumed::One(bytes))
}

/// The template arguments of a C++ type.
fn arguments(text: &str) -> Vec<&str> {
    text.split_once('<')
        .and_then(|(_, rest)| rest.trim_end().strip_suffix('>'))
        .map_or(Vec::new(), split_at_commas)
}

impl Assumed {
    /// What stands in for the unknown output of a kernel.
    pub(crate) fn of(signature: &Signature) -> Self {
        let types = signature.types();
        let name = signature.name();
        match (signature.function(), types) {
            ("reduce_kernel", [operation]) => {
                if name.contains("and_kernel_cuda(") {
                    return Self::True;
                }
                // The fourth argument is the type of the result.
                arguments(operation).get(3).copied().map_or(Self::Zero, one)
            }
            ("vectorized_elementwise_kernel" | "unrolled_elementwise_kernel", [_, functor, ..]) => {
                if functor.contains("MulFunctor<bool>")
                    || functor.contains("BitwiseAndFunctor<bool>")
                {
                    return Self::True;
                }
                let arguments = arguments(functor);
                let is_binary =
                    functor.contains("BinaryFunctor<") || functor.contains("UnaryFunctor<");
                arguments
                    .get(if is_binary { 2 } else { 0 })
                    .copied()
                    .map_or(Self::Zero, one)
            }
            // Lists of parameters, gradients and optimizer state; the operation names its element first.
            ("multi_tensor_apply_kernel", [_, operation, ..]) => arguments(operation)
                .first()
                .copied()
                .map_or(Self::Zero, one),
            (function, _) if function.starts_with("nll_loss") => {
                let inside = name.rsplit_once(function).map_or("", |(_, rest)| rest);
                arguments(inside).first().copied().map_or(Self::Zero, one)
            }
            _ => Self::Zero,
        }
    }

    /// What tells a kernel with this value from others of its name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Zero => "",
            Self::True => ", all true",
            Self::One(bytes) if bytes.len() == 2 => ", half floats",
            Self::One(bytes) if bytes.len() == 4 => ", floats",
            Self::One(_) => ", doubles",
        }
    }

    /// Fills `out` with the value, repeated.
    pub(crate) fn fill(self, out: &mut [u8]) {
        match self {
            Self::Zero => out.fill(0),
            Self::True => out.fill(1),
            Self::One(one) if out.len().is_multiple_of(one.len()) => {
                out.chunks_exact_mut(one.len())
                    .for_each(|element| element.copy_from_slice(one));
            }
            Self::One(_) => out.fill(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: Assumed = Assumed::One(&1f32.to_ne_bytes());
    const BFLOAT16: &[u8] = &0x3f80_u16.to_ne_bytes();

    fn check(text: &str, expected: Assumed) {
        assert_eq!(Assumed::of(&Signature::parse(text)), expected, "{text}");
    }

    #[test]
    fn training_goes_on() {
        let elementwise = |functor: &str| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 2ul> >(int, {functor}, std::array<char*, 2ul>)"
            )
        };
        let reduction = |operation: &str| {
            format!("void at::native::reduce_kernel<512, 1, {operation} >({operation})")
        };
        let one = FLOAT;
        check(
            &reduction(
                "at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>",
            ),
            one,
        );
        check(
            &reduction(
                "at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>",
            ),
            Assumed::Zero,
        );
        check(
            &reduction(
                "at::native::ReduceOp<bool, at::native::func_wrapper_t<bool, at::native::and_kernel_cuda(at::TensorIterator&)::{lambda(bool, bool)#1}>, unsigned int, bool, 4, 4>",
            ),
            Assumed::True,
        );
        check(
            &elementwise(
                "at::native::BinaryFunctor<bool, bool, bool, at::native::binary_internal::MulFunctor<bool> >",
            ),
            Assumed::True,
        );
        check(
            &elementwise(
                "at::native::BinaryFunctor<float, float, bool, at::native::(anonymous namespace)::CompareEqFunctor<float> >",
            ),
            Assumed::Zero,
        );
        check(
            &elementwise(
                "at::native::BUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
            ),
            one,
        );
        check(
            &elementwise("at::native::CUDAFunctor_add<c10::BFloat16>"),
            Assumed::One(BFLOAT16),
        );
        check(
            "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*, float*)",
            one,
        );
        check(
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<M, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>, float>(at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>, float)",
            one,
        );
        check("void count<float>(int*)", Assumed::Zero);
    }

    #[test]
    fn fills_whole_elements() {
        let filled = |assumed: Assumed, len: usize| {
            let mut out = vec![9; len];
            assumed.fill(&mut out);
            out
        };
        assert_eq!(filled(Assumed::True, 2), [1, 1]);
        assert_eq!(filled(FLOAT, 8), [0, 0, 128, 63, 0, 0, 128, 63]);
        assert_eq!(filled(FLOAT, 3), [0, 0, 0], "not whole floats");
    }
}
