//! What the iterators in the arguments of CUB's kernels give: the elements behind a pointer, whether they are not
//! zero, or a count.

use super::super::element::{Element, Value};
use super::access::{Access, MAX_ELEMENTS};
use super::argument::Argument;

/// An input iterator, by its C++ type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iterator {
    /// The elements behind a pointer.
    Elements(Element),
    /// Whether the elements are not zero; the pointer lies at this offset.
    NonZero { element: Element, pointer_at: usize },
    /// One number after the other.
    Counting,
    /// Always the same.
    Constant,
}

/// The element type of `T*` or `T const*` or a wrapper of it, unless its type hides.
pub(super) fn pointee(cpp_type: &str) -> Option<Element> {
    Element::named(pointee_name(cpp_type)?)
}

/// The name of the type that a pointer points to.
pub(super) fn pointee_name(cpp_type: &str) -> Option<&str> {
    let plain = cpp_type.trim();
    if let Some(inside) = plain.strip_suffix('*') {
        return Some(inside.trim().trim_end_matches(" const"));
    }
    let (_, inside) = plain.split_once("::device_ptr<")?;
    Some(inside.strip_suffix('>')?.trim().trim_end_matches(" const"))
}

impl Iterator {
    pub(super) fn of(cpp_type: &str) -> Option<Self> {
        let plain = cpp_type.trim();
        let name = plain.split('<').next()?.rsplit("::").next()?;
        if let Some(element) = pointee(plain) {
            return Some(Self::Elements(element));
        }
        match name {
            // `thrust` keeps the base in front of the function, CUB the function in front of the base.
            "transform_iterator" | "TransformInputIterator" => {
                let arguments = plain.split_once('<')?.1.strip_suffix('>')?;
                let arguments = super::super::signature::split_at_commas(arguments);
                let is_function =
                    |text: &&&str| text.contains("NonZeroOp<") || text.contains("CountMaskOp");
                arguments.iter().find(is_function)?;
                let element = arguments.iter().find_map(|text| pointee(text))?;
                let pointer_at = if name == "transform_iterator" { 0 } else { 8 };
                Some(Self::NonZero {
                    element,
                    pointer_at,
                })
            }
            "counting_iterator" | "CountingInputIterator" => Some(Self::Counting),
            "constant_iterator" | "ConstantInputIterator" => Some(Self::Constant),
            _ => None,
        }
    }

    /// The first `count` values.
    pub(super) fn values(
        self,
        argument: Argument,
        count: usize,
        access: &mut Access,
    ) -> Option<Vec<Value>> {
        if count > MAX_ELEMENTS {
            return None;
        }
        match self {
            Self::Elements(element) => access.values(element, argument.u64(0), count),
            Self::NonZero {
                element,
                pointer_at,
            } => {
                let values = access.values(element, argument.u64(pointer_at), count)?;
                let truth = |value: Value| Value::truth(value.is_true() || value.is_nan());
                Some(values.into_iter().map(truth).collect())
            }
            Self::Counting => {
                let first = argument.u64(0) as i64;
                Some((first..first + count as i64).map(Value::Int).collect())
            }
            Self::Constant => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cpp_type: &str, expected: Option<Iterator>) {
        assert_eq!(Iterator::of(cpp_type), expected, "{cpp_type}");
    }

    #[test]
    fn iterators_are_known_by_their_type() {
        check("long const*", Some(Iterator::Elements(Element::I64)));
        check(
            "thrust::device_ptr<long>",
            Some(Iterator::Elements(Element::I64)),
        );
        check(
            "thrust::transform_iterator<at::native::(anonymous namespace)::NonZeroOp<bool>, bool const*, thrust::use_default, thrust::use_default>",
            Some(Iterator::NonZero {
                element: Element::Bool,
                pointer_at: 0,
            }),
        );
        check(
            "at_cuda_detail::cub::TransformInputIterator<bool, at::native::(anonymous namespace)::NonZeroOp<float>, float const*, long>",
            Some(Iterator::NonZero {
                element: Element::F32,
                pointer_at: 8,
            }),
        );
        check(
            "cub::CountingInputIterator<long, long>",
            Some(Iterator::Counting),
        );
        check("thrust::transform_iterator<F, float const*>", None);
        check("F<float*>", None);
    }
}
