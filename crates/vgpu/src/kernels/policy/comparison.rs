//! Comparisons of values that nobody knows. Masks decide sizes, so they are taken at their upper bound: true. A test of
//! whether a number is infinite or not a number has the answer that lets training go on.
//!
//! An unknown tensor that is compared with one number is taken to hold numbers for which the comparison holds, so that
//! later ones agree with it: what is below one threshold is not above another, and a part and the rest make a whole.
//!
//! A single number is no mask but a loss or a norm, and a comparison with it the test for convergence. It is taken to
//! be the one that a read of it would give; only what is asked to lie above a number just below zero is the slope of a
//! loss, which a minimizer follows as long as it falls.

use super::launch::Launch;
use super::{Ground, fill, room};
use crate::contents::{Assumption, Pattern};
use crate::kernels::scalar::Scalar;
use crate::kernels::signature::{Parameter, Signature, index_calculator_len, split_at_commas};
use crate::memory::Memory;

/// What the first read of an unknown number gives.
const UNKNOWN_NUMBER: f64 = 1.0;
/// What an unknown slope is taken to be.
const UNKNOWN_SLOPE: f64 = -1.0;
/// Numbers below zero up to this far are tolerances.
const TOLERANCE: f64 = 1e-3;

/// What a comparison asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    LessOrEqual,
    Less,
}

impl Relation {
    fn numbered(number: u32, is_equality: bool) -> Option<Self> {
        Some(match (is_equality, number) {
            (true, 0) => Self::Equal,
            (true, 1) => Self::NotEqual,
            (false, 0) => Self::GreaterOrEqual,
            (false, 1) => Self::Greater,
            (false, 2) => Self::LessOrEqual,
            (false, 3) => Self::Less,
            _ => return None,
        })
    }

    /// The relation with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Greater => Self::Less,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Less => Self::Greater,
            same => same,
        }
    }

    /// A number that is in this relation to `other`, and close to it.
    fn satisfied_near(self, other: f64) -> Option<f64> {
        let step = (other.abs() / 2.0).max(if other == 0.0 { 1.0 } else { 0.0 });
        match self {
            Self::Equal | Self::GreaterOrEqual | Self::LessOrEqual => Some(other),
            Self::Greater => Some(other + step),
            Self::Less => Some(other - step),
            Self::NotEqual => None,
        }
    }

    /// Whether this asks of a float whether it is below zero. Of a number alone, most often a norm or a loss, that is
    /// asked to find out that something broke; elsewhere it makes a mask.
    fn asks_for_sign(self, other: f64, element: Scalar) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual) && other == 0.0 && !element.is_whole()
    }

    /// Whether this asks of a float whether it is not clearly below zero, which is asked of the slope along a direction
    /// of search, to stop where it does not fall.
    fn asks_for_slope(self, other: f64, element: Scalar) -> bool {
        matches!(self, Self::Greater | Self::GreaterOrEqual)
            && (-TOLERANCE..0.0).contains(&other)
            && !element.is_whole()
    }

    /// Whether `number` is in this relation to `other`.
    fn holds(self, number: f64, other: f64) -> bool {
        match self {
            Self::Equal => number.total_cmp(&other).is_eq(),
            Self::NotEqual => number.total_cmp(&other).is_ne(),
            Self::GreaterOrEqual => number >= other,
            Self::Greater => number > other,
            Self::LessOrEqual => number <= other,
            Self::Less => number < other,
        }
    }

    /// Whether a number that nobody knows is taken to be in this relation to `other`: it is finite, and a whole number
    /// is hardly ever a certain one.
    fn is_assumed(self, other: f64, element: Scalar) -> bool {
        match self {
            Self::Equal => other.is_finite() && !element.is_whole(),
            Self::NotEqual => true,
            Self::Greater | Self::GreaterOrEqual => other.is_finite() || other == f64::NEG_INFINITY,
            Self::Less | Self::LessOrEqual => other.is_finite() || other == f64::INFINITY,
        }
    }
}

/// A number that a tensor is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    /// Whether it comes first.
    is_left: bool,
    /// The type it is kept in.
    element: Scalar,
}

impl Number {
    /// Offset in the functor: the relation, four bytes, comes first.
    fn offset(self) -> usize {
        4usize.next_multiple_of(self.element.width())
    }
}

/// How the tensors of a comparison are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Each from its first byte to its last; the argument that tells the output's type, where the kernel's does not.
    Whole { stored: Option<usize> },
    /// Over strided memory, after a calculator.
    Strided,
}

/// An element-wise comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    element: Scalar,
    number: Option<Number>,
    /// Equal or not equal, rather than an order.
    is_equality: bool,
    layout: Layout,
}

impl Comparison {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        match (signature.function(), signature.types()) {
            (
                "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel",
                [count, functor, _, rest @ ..],
            ) if count == "int"
                && signature.is_contiguous()
                && signature.parameters()[2] == Parameter::PointerArray =>
            {
                let stored = rest.iter().position(|text| text.contains("StoreWithCast<"));
                let stored = stored.map(|at| at + 3);
                Self::of_functor(functor, Layout::Whole { stored })
            }
            ("elementwise_kernel", [_, lambda]) => {
                let inside = lambda.split_once("gpu_kernel_impl_nocast<")?.1;
                // A functor that is a lambda is named with its function's parameters.
                let functor = inside
                    .rsplit_once(">(at::TensorIteratorBase&")
                    .map_or(inside, |(functor, _)| functor);
                Self::of_functor(functor, Layout::Strided)
            }
            _ => None,
        }
    }

    fn of_functor(functor: &str, layout: Layout) -> Option<Self> {
        let last = |text: &str| -> Option<String> {
            Some(text.split('<').next()?.rsplit("::").next()?.to_owned())
        };
        if functor.contains("compare_scalar_kernel<") {
            let (_, lambda) = functor.rsplit_once("{lambda(")?;
            let element = Scalar::named(lambda.split_once(')')?.0)?;
            let is_left = false;
            return Some(Self {
                element,
                number: Some(Number { is_left, element }),
                is_equality: false,
                layout,
            });
        }
        let (_, inside) = functor.split_once('<')?;
        let inside = split_at_commas(inside.trim_end().strip_suffix('>')?);
        let (element, is_left, inner) = match (last(functor)?.as_str(), inside.as_slice()) {
            ("CompareFunctor" | "CompareEqFunctor", [element]) => (*element, None, functor),
            ("BinaryFunctor", [left, right, "bool", inner]) if left == right => {
                (*left, None, *inner)
            }
            ("AUnaryFunctor", [left, right, "bool", inner]) if left == right => {
                (*left, Some(true), *inner)
            }
            ("BUnaryFunctor", [left, right, "bool", inner]) if left == right => {
                (*left, Some(false), *inner)
            }
            _ => return None,
        };
        let is_equality = match last(inner)?.as_str() {
            "CompareFunctor" => false,
            "CompareEqFunctor" => true,
            _ => return None,
        };
        let element = Scalar::named(element)?;
        let number = is_left.map(|is_left| Number {
            is_left,
            // These functors keep what the kernel computes with.
            element: match element {
                Scalar::Half | Scalar::BFloat16 => Scalar::Float,
                other => other,
            },
        });
        Some(Self {
            element,
            number,
            is_equality,
            layout,
        })
    }

    pub(super) fn assume(&self, memory: &mut Memory, launch: Launch, ground: Ground) {
        let n_tensors = if self.number.is_some() { 2 } else { 3 };
        let (argument, functor, addresses) = match self.layout {
            Layout::Whole { stored } => {
                // The code of `bool` among the types of elements.
                if stored.is_some_and(|stored| launch.int_at(stored, 0) as u8 != 11) {
                    return;
                }
                let word = |tensor| launch.word(2, tensor);
                (
                    1,
                    0,
                    [word(0), word(1), if n_tensors == 3 { word(2) } else { 0 }],
                )
            }
            Layout::Strided => {
                let calculator = index_calculator_len(n_tensors);
                if !is_dense(launch, n_tensors) {
                    return;
                }
                let at = calculator.next_multiple_of(8);
                let word = |tensor: usize| launch.long_at(1, at + tensor * 8);
                let third = if n_tensors == 3 { word(2) } else { 0 };
                (1, at + n_tensors * 8, [word(0), word(1), third])
            }
        };
        let count = u64::from(launch.int(0));
        let relation = launch.int_at(argument, functor);
        let Some(relation) = Relation::numbered(relation, self.is_equality) else {
            return;
        };
        let [output, first, second] = addresses;
        let (holds, assumption) = match self.number {
            // A tensor and itself: the test for what is not a number.
            None if first == second => (relation != Relation::NotEqual, ground.health),
            None => (
                relation != Relation::Equal || !self.element.is_whole(),
                ground.assumption,
            ),
            Some(number) => {
                let value = launch.long_at(argument, functor + number.offset());
                let value = number.element.number(value.to_ne_bytes());
                let relation = if number.is_left {
                    relation.mirrored()
                } else {
                    relation
                };
                if count == 1 && value.is_finite() && !self.element.is_whole() {
                    let (unknown, assumption) = if relation.asks_for_slope(value, self.element) {
                        (UNKNOWN_SLOPE, ground.slope)
                    } else if relation.asks_for_sign(value, self.element) {
                        (UNKNOWN_NUMBER, ground.sign)
                    } else {
                        (UNKNOWN_NUMBER, ground.assumption)
                    };
                    let ground = Ground {
                        assumption,
                        ..ground
                    };
                    if self.layout == (Layout::Whole { stored: None }) && first != output {
                        self.settle(memory, (first, count), Some(unknown), ground);
                    }
                    let holds = relation.holds(unknown, value);
                    fill(memory, output, count, &[u8::from(holds)], ground);
                    return;
                }
                let holds = relation.is_assumed(value, self.element);
                if holds && self.layout == (Layout::Whole { stored: None }) && first != output {
                    self.settle(
                        memory,
                        (first, count),
                        relation.satisfied_near(value),
                        ground,
                    );
                }
                let is_health = !value.is_finite() && !self.element.is_whole();
                (
                    holds,
                    if is_health {
                        ground.health
                    } else {
                        ground.assumption
                    },
                )
            }
        };
        let ground = Ground {
            assumption,
            ..ground
        };
        fill(memory, output, count, &[u8::from(holds)], ground);
    }

    /// Takes an unknown input, an address and a number of elements, to be this number throughout.
    fn settle(
        &self,
        memory: &mut Memory,
        (input, count): (u64, u64),
        value: Option<f64>,
        ground: Ground,
    ) {
        let len = count * self.element.width() as u64;
        let assumption: Option<Assumption> = ground.assumption;
        if let Some(value) = value.filter(|value| value.is_finite())
            && let Some(pattern) = Pattern::new(&self.element.bytes(value))
            && room(memory, input, len) == len
            && memory.contents.unknown(input, len) == len
        {
            memory
                .contents
                .fill_assumed(input, len, pattern, assumption);
        }
    }
}

/// Whether the output of a kernel over strided memory, of single bytes, lies from its first to its last without gaps.
fn is_dense(launch: Launch, n_tensors: usize) -> bool {
    let n_dims = launch.int_at(1, 0) as usize;
    let mut expected = 1u64;
    n_dims <= 25
        && (0..n_dims).all(|dim| {
            let size = launch.int_at(1, 4 + dim * 12);
            let stride = launch.int_at(1, 4 + 25 * 12 + dim * n_tensors * 4);
            let is_next = u64::from(stride) == expected;
            expected *= u64::from(size);
            is_next
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(functor: &str, n_tensors: usize) -> Option<Comparison> {
        Comparison::of(&Signature::parse(&format!(
            "void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, {n_tensors}ul> >(int, {functor}, std::array<char*, {n_tensors}ul>)"
        )))
    }

    #[test]
    fn are_known_by_their_functor() {
        let eq = "at::native::(anonymous namespace)::CompareEqFunctor";
        let found = whole(
            &format!("at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, bool, {eq}<c10::BFloat16> >"),
            2,
        )
        .unwrap();
        let number = found.number.unwrap();
        assert_eq!(
            (
                found.element,
                found.is_equality,
                number.element,
                number.offset(),
                number.is_left
            ),
            (Scalar::BFloat16, true, Scalar::Float, 4, true)
        );
        let lambda = "at::native::compare_scalar_kernel<c10::Half>(at::TensorIteratorBase&, at::native::(anonymous namespace)::OpType, c10::Half)::{lambda(c10::Half)#1}";
        let number = whole(lambda, 2).unwrap().number.unwrap();
        assert_eq!((number.element, number.offset()), (Scalar::Half, 4));
        let strided = format!(
            "at::native::gpu_kernel_impl_nocast<{lambda}>(at::TensorIteratorBase&, {lambda} const&)::{{lambda(int)#1}}"
        );
        let strided = Comparison::of(&Signature::parse(&format!(
            "void at::native::elementwise_kernel<128, 2, {strided}>(int, {strided})"
        )));
        assert_eq!(strided.unwrap().layout, Layout::Strided);
        for other in [
            "at::native::BinaryFunctor<bool, bool, bool, at::native::BitwiseAndFunctor<bool> >",
            "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
            "at::native::AbsFunctor<float>",
        ] {
            assert_eq!(whole(other, 2), None, "{other}");
        }
    }

    #[test]
    fn a_settled_number_satisfies_its_comparison() {
        for other in [0.0, 0.5, -0.5, 3.0, -1e30, 1e30] {
            for relation in [
                Relation::Greater,
                Relation::Less,
                Relation::GreaterOrEqual,
                Relation::LessOrEqual,
                Relation::Equal,
            ] {
                for element in [
                    Scalar::BFloat16,
                    Scalar::Half,
                    Scalar::Float,
                    Scalar::Double,
                ] {
                    if element == Scalar::Half && f64::abs(other) > 6e4 {
                        continue;
                    }
                    let mut bytes = [0; 8];
                    let stored = element.bytes(relation.satisfied_near(other).unwrap());
                    bytes[..stored.len()].copy_from_slice(&stored);
                    let value = element.number(bytes);
                    let holds = match relation {
                        Relation::Greater => value > other,
                        Relation::Less => value < other,
                        _ => (value - other).abs() <= other.abs() / 64.0,
                    };
                    assert!(holds, "{value} {relation:?} {other} in {element:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_below_zero_is_asked_for() {
        for (relation, other, element, expected) in [
            (Relation::Less, 0.0, Scalar::Float, true),
            (Relation::LessOrEqual, -0.0, Scalar::BFloat16, true),
            (Relation::Less, 0.5, Scalar::Float, false),
            (Relation::Less, 0.0, Scalar::Whole(8), false),
            (Relation::Greater, 0.0, Scalar::Float, false),
            (Relation::Equal, 0.0, Scalar::Float, false),
        ] {
            let found = relation.asks_for_sign(other, element);
            assert_eq!(found, expected, "{relation:?} {other} {element:?}");
        }
    }

    #[test]
    fn what_is_not_clearly_below_zero_is_asked_of_a_slope() {
        for (relation, other, element, expected) in [
            (Relation::Greater, -1e-9, Scalar::Float, true),
            (Relation::GreaterOrEqual, -1e-3, Scalar::Double, true),
            (Relation::Greater, -0.5, Scalar::Float, false),
            (Relation::Greater, 0.0, Scalar::Float, false),
            (Relation::Greater, 1e-9, Scalar::Float, false),
            (Relation::Less, -1e-9, Scalar::Float, false),
            (Relation::Greater, -1e-9, Scalar::Whole(8), false),
        ] {
            let found = relation.asks_for_slope(other, element);
            assert_eq!(found, expected, "{relation:?} {other} {element:?}");
        }
    }

    #[test]
    fn nothing_is_infinite() {
        for (relation, other, expected) in [
            (Relation::Equal, f64::INFINITY, false),
            (Relation::NotEqual, f64::INFINITY, true),
            (Relation::Less, f64::INFINITY, true),
            (Relation::Greater, f64::INFINITY, false),
            (Relation::Equal, f64::NEG_INFINITY, false),
            (Relation::Greater, f64::NEG_INFINITY, true),
            (Relation::Equal, f64::NAN, false),
        ] {
            assert_eq!(
                relation.is_assumed(other, Scalar::Float),
                expected,
                "{relation:?} {other}"
            );
        }
    }
}
