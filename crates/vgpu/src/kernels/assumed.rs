//! What the host is given for bytes that it reads and that are not known.
//!
//! Training must go on as it would on a real GPU: a loss is a number one can take the logarithm of, and the answer to
//! "is everything in order?" is yes. So a float is a positive number, the result of "all of these are true" is true, and
//! everything else is zero: flags, and counts and indices that no policy knows of. Each such read is in the profile.

use super::scalar::Scalar;
use super::signature::{Signature, split_at_commas};

/// A value that stands in for an unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Assumed {
    #[default]
    Zero,
    True,
    /// A number with a fraction: one.
    One(Scalar),
}

/// One in the float of this C++ name; zero when it is none.
fn one(name: &str) -> Assumed {
    match Scalar::named(name) {
        Some(float) if !float.is_whole() => Assumed::One(float),
        _ => Assumed::Zero,
    }
}

/// What a pointer that is written through points to.
pub(super) fn pointee(cpp_type: &str) -> Option<&str> {
    let pointee = cpp_type.trim().strip_suffix('*')?.trim();
    (!pointee.ends_with("const") && !pointee.starts_with("const ")).then_some(pointee)
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
            // The first thing that is written through a pointer.
            (_, types) => types
                .iter()
                .find_map(|text| pointee(text))
                .map_or(Self::Zero, one),
        }
    }

    /// What tells a kernel with this value from others of its name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Zero => "",
            Self::True => ", all true",
            Self::One(Scalar::Half) => ", half floats",
            Self::One(Scalar::BFloat16) => ", bfloat16",
            Self::One(Scalar::Double) => ", doubles",
            Self::One(_) => ", floats",
        }
    }

    /// The type of float that was written.
    pub(crate) fn float(self) -> Option<Scalar> {
        match self {
            Self::One(float) => Some(float),
            _ => None,
        }
    }

    /// The byte that stands in for every unknown one of what is no float.
    pub(crate) fn byte(self) -> u8 {
        u8::from(self == Self::True)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let one = Assumed::One(Scalar::Float);
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
            Assumed::One(Scalar::BFloat16),
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
        check("void scale(float*, int*, float const*)", one);
        check(
            "void norm(float const*, c10::BFloat16*)",
            Assumed::One(Scalar::BFloat16),
        );
    }
}
