//! Reductions of a whole tensor to one element that are carried out when the input is known and small: are all, is any,
//! the largest, the smallest, the sum of whole numbers.
//!
//! The kernel's one argument is a `ReduceOp`: the operation, its identity, sizes, two index calculators, and then the
//! addresses. Its offsets follow from the size of the elements, and are used only if the address found there is the
//! one that the pattern of its tail shows too.

use super::element::{Element, Value};
use super::signature::{index_calculator_len, split_at_commas};

/// Bytes of the sizes in front of the calculators.
const SIZES: usize = 64;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    All,
    Any,
    Largest,
    Smallest,
    Sum,
}

/// A reduction that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    action: Action,
    /// The type of the input.
    pub(crate) element: Element,
    /// The type that is accumulated in, which is that of the identity.
    identity: Element,
    /// The type of the result.
    pub(crate) output: Element,
}

impl Reduction {
    /// The reduction of a `ReduceOp` by its C++ type.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let arguments = text
            .trim()
            .strip_prefix("at::native::ReduceOp<")?
            .strip_suffix('>')?;
        let [element, operation, _, output, ..] = split_at_commas(arguments)[..] else {
            return None;
        };
        let (element, output) = (Element::named(element)?, Element::named(output)?);
        let action = if operation.contains("and_kernel_cuda(") {
            Action::All
        } else if operation.contains("or_kernel_cuda(") {
            Action::Any
        } else if operation.contains("MaxNanFunctor<") {
            Action::Largest
        } else if operation.contains("MinNanFunctor<") {
            Action::Smallest
        } else if operation.contains("sum_functor<") && element.is_whole() {
            Action::Sum
        } else {
            return None;
        };
        let is_truth = matches!(action, Action::All | Action::Any);
        let expected = element == output || (is_truth && output == Element::Bool);
        // A lambda takes what was accumulated and an element; in other operations the two are of one type.
        let identity = match operation.rsplit_once("{lambda(") {
            Some((_, parameters)) => Element::named(parameters.split([',', ')']).next()?)?,
            None => element,
        };
        expected.then_some(Self {
            action,
            element,
            identity,
            output,
        })
    }

    /// Offset of the sizes: the operation takes one byte, and its identity follows.
    fn sizes_at(self) -> usize {
        (self.identity.len() * 2).next_multiple_of(4)
    }

    /// Word of the argument that holds the input's address.
    pub(crate) fn input_word(self) -> usize {
        (self.sizes_at() + SIZES + index_calculator_len(1) + index_calculator_len(2)).div_ceil(8)
    }

    /// Number of elements when the whole of a contiguous tensor becomes one element; `argument` is the `ReduceOp`.
    pub(crate) fn whole_len(self, argument: &[u8]) -> Option<usize> {
        let int = |at: usize| {
            argument
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(i32::from_ne_bytes)
        };
        let sizes = self.sizes_at();
        let [identity_len, n_elements, n_outputs] = [int(sizes)?, int(sizes + 4)?, int(sizes + 8)?];
        let calculator_at = sizes + SIZES;
        let (n_dims, stride) = (int(calculator_at)?, int(calculator_at + 4 + 25 * 12)?);
        let is_contiguous = n_dims == 0 || (n_dims == 1 && stride == self.element.len() as i32);
        let expected =
            identity_len == self.identity.len() as i32 && n_outputs == 1 && is_contiguous;
        usize::try_from(n_elements).ok().filter(|_| expected)
    }

    /// The result over `bytes`, which hold whole elements; at least one.
    pub(crate) fn apply(self, bytes: &[u8]) -> Option<Value> {
        let mut values = bytes
            .chunks_exact(self.element.len())
            .filter_map(|one| self.element.read(one));
        let first = values.next()?;
        let truth = |holds: bool| Value::Int(i64::from(holds));
        Some(match self.action {
            Action::All => truth(first.is_true() && values.all(Value::is_true)),
            Action::Any => truth(first.is_true() || values.any(Value::is_true)),
            Action::Largest => values.fold(first, |best, value| {
                if beats(value, best, f64::gt, i64::gt) {
                    value
                } else {
                    best
                }
            }),
            Action::Smallest => values.fold(first, |best, value| {
                if beats(value, best, f64::lt, i64::lt) {
                    value
                } else {
                    best
                }
            }),
            Action::Sum => {
                let sum = std::iter::once(first)
                    .chain(values)
                    .try_fold(0i64, |sum, value| match value {
                        Value::Int(value) => Some(sum.wrapping_add(value)),
                        Value::Float(_) => None,
                    });
                Value::Int(sum?)
            }
        })
    }
}

/// Whether `value` takes the place of `best`; what is not a number always does.
fn beats(
    value: Value,
    best: Value,
    floats: fn(&f64, &f64) -> bool,
    ints: fn(&i64, &i64) -> bool,
) -> bool {
    match (value, best) {
        (Value::Int(value), Value::Int(best)) => ints(&value, &best),
        (Value::Float(value), Value::Float(best)) => value.is_nan() || floats(&value, &best),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Value::{Float, Int};
    use super::*;

    fn of(element: &str, operation: &str) -> Option<Reduction> {
        Reduction::of(&format!(
            "at::native::ReduceOp<{element}, at::native::func_wrapper_t<{element}, {operation}>, unsigned int, {element}, 4, 4>"
        ))
    }

    #[test]
    fn is_known_by_its_type() {
        let all = "at::native::and_kernel_cuda(at::TensorIterator&)::{lambda()#1}::operator()() const::{lambda(bool, bool)#1}";
        let reduction = of("bool", all).unwrap();
        assert_eq!(
            (reduction.action, reduction.input_word()),
            (Action::All, 122)
        );
        assert_eq!(
            of("long", "at::native::MaxNanFunctor<long> ")
                .unwrap()
                .input_word(),
            124
        );
        assert_eq!(
            of("float", "at::native::MinNanFunctor<float> ")
                .unwrap()
                .input_word(),
            123
        );
        assert_eq!(
            of(
                "float",
                "at::native::sum_functor<float, float, float>::operator()"
            ),
            None,
            "order matters"
        );
        assert_eq!(
            Reduction::of(
                "at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>"
            ),
            None
        );
    }

    fn check(action: Action, values: &[f32], expected: Value) {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        let result = Reduction {
            action,
            element: Element::F32,
            identity: Element::F32,
            output: Element::F32,
        }
        .apply(&bytes)
        .unwrap();
        assert!(
            result == expected
                || matches!((result, expected), (Float(a), Float(b)) if a.is_nan() && b.is_nan()),
            "{result:?}"
        );
    }

    #[test]
    fn computes_what_pytorch_does() {
        check(Action::All, &[1.0, 2.0], Int(1));
        check(Action::All, &[1.0, 0.0], Int(0));
        check(Action::Any, &[0.0, 3.0], Int(1));
        check(Action::Any, &[0.0], Int(0));
        check(Action::Largest, &[1.0, 5.0, 2.0], Float(5.0));
        check(Action::Smallest, &[1.0, 5.0, -2.0], Float(-2.0));
        check(Action::Largest, &[1.0, f32::NAN, 2.0], Float(f64::NAN));
        check(Action::Smallest, &[1.0, f32::NAN, 2.0], Float(f64::NAN));
        let longs: Vec<u8> = [1i64, 2, -7]
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        assert_eq!(
            Reduction {
                action: Action::Sum,
                element: Element::I64,
                identity: Element::I64,
                output: Element::I64
            }
            .apply(&longs),
            Some(Int(-4))
        );
        assert_eq!(
            Reduction {
                action: Action::Sum,
                element: Element::I64,
                identity: Element::I64,
                output: Element::I64
            }
            .apply(&[]),
            None
        );
    }
}
