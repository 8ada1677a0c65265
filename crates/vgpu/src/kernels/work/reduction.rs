//! Reductions over some or all dimensions: are all, is any, the largest and where it is, sums, means, norms, variances.
//!
//! The kernel's one argument is a `ReduceOp`: the operation, its identity, sizes, two index calculators, and then the
//! addresses. Its offsets follow from the sizes of the types, and are used only if the numbers found there agree with
//! the element's size and with each other. Sums of floats are accumulated in double precision in the order of the
//! elements, so their last digits can differ from those of a GPU, which adds in another order.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, index_calculator_len, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::offsets::Strides;

/// Bytes of the sizes in front of the calculators.
const SIZES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    All,
    Any,
    Largest,
    Smallest,
    Sum,
    Product,
    Mean,
    LargestAndIndex,
    SmallestAndIndex,
    IndexOfLargest,
    IndexOfSmallest,
    SmallestAndLargest,
    NormZero,
    NormOne,
    NormTwo,
    Norm,
    LargestMagnitude,
    SmallestMagnitude,
    Variance,
}

/// A reduction that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reduction {
    action: Action,
    /// The type of the input.
    element: Element,
    /// The type that the operation accumulates in.
    wide: Element,
    /// Bytes of the operation, and size and alignment of what it accumulates.
    operation_len: usize,
    accumulated: (usize, usize),
    /// The type of the first result.
    output: Element,
    /// Whether the root of a norm is taken.
    takes_root: bool,
}

impl Reduction {
    /// The reduction of a `ReduceOp` by its C++ type.
    fn of(text: &str) -> Option<Self> {
        let arguments = text
            .trim()
            .strip_prefix("at::native::ReduceOp<")?
            .strip_suffix('>')?;
        let [element, operation, index, output, ..] = split_at_commas(arguments)[..] else {
            return None;
        };
        let element = Element::named(element)?;
        if index != "unsigned int" {
            return None;
        }
        let of = |action, wide: Element, output| {
            Some(Self {
                action,
                element,
                wide,
                operation_len: 1,
                accumulated: (wide.len(), wide.len()),
                output,
                takes_root: true,
            })
        };
        if let Some(output) = Element::named(output)
            && operation.starts_with("at::native::func_wrapper_t<")
        {
            return Self::of_wrapped(operation, element)
                .and_then(|(action, wide)| of(action, wide, output));
        }
        let (name, types) = operation.split_once('<')?;
        let types = split_at_commas(types.trim_end().strip_suffix('>')?);
        let output = Element::named(output);
        let wide = |index: usize| Element::named(types.get(index)?);
        let pair = |action, output| {
            let mut reduction = of(action, element, output)?;
            reduction.accumulated = (16, 8);
            Some(reduction)
        };
        match name.rsplit("::").next()? {
            "MeanOps" => {
                let wide = wide(1)?;
                // It holds the factor.
                let mut reduction = of(Action::Mean, wide, output?)?;
                reduction.operation_len = Element::named(types.get(2)?)?.len();
                (types.get(2) == types.get(1)).then_some(reduction)
            }
            "ArgMaxOps" => pair(Action::IndexOfLargest, Element::I64),
            "ArgMinOps" => pair(Action::IndexOfSmallest, Element::I64),
            "MaxOps" => pair(Action::LargestAndIndex, element),
            "MinOps" => pair(Action::SmallestAndIndex, element),
            "MinMaxOps" => {
                let mut reduction = of(Action::SmallestAndLargest, wide(1)?, wide(1)?)?;
                reduction.accumulated = (reduction.wide.len() * 2, reduction.wide.len());
                Some(reduction)
            }
            "NormZeroOps" => of(Action::NormZero, wide(1)?, output?),
            "NormOneOps" => of(Action::NormOne, wide(1)?, output?),
            "NormTwoOps" => {
                let mut reduction = of(Action::NormTwo, wide(1)?, output?)?;
                reduction.takes_root = types.get(3).is_none_or(|root| *root == "true");
                Some(reduction)
            }
            "NormOps" => {
                let mut reduction = of(Action::Norm, wide(1)?, output?)?;
                reduction.operation_len = reduction.wide.len();
                reduction.takes_root = types.get(3).is_none_or(|root| *root == "true");
                Some(reduction)
            }
            "AbsMaxOps" => of(Action::LargestMagnitude, wide(1)?, output?),
            "AbsMinOps" => of(Action::SmallestMagnitude, wide(1)?, output?),
            "WelfordOps" if types.get(2) == Some(&"int") => {
                let wide = wide(1)?;
                let mut reduction = of(Action::Variance, wide, output?)?;
                // A correction and whether the root is taken; means, squares, and the count as two types.
                reduction.operation_len = wide.len() * 2;
                reduction.accumulated = (
                    (wide.len() * 2 + 4).next_multiple_of(wide.len()) + wide.len(),
                    wide.len(),
                );
                Some(reduction)
            }
            _ => None,
        }
    }

    /// The action of `func_wrapper_t<output, function>`, and the type it accumulates in.
    fn of_wrapped(operation: &str, element: Element) -> Option<(Action, Element)> {
        let action = if operation.contains("and_kernel_cuda(") {
            Action::All
        } else if operation.contains("or_kernel_cuda(") {
            Action::Any
        } else if operation.contains("MaxNanFunctor<") {
            Action::Largest
        } else if operation.contains("MinNanFunctor<") {
            Action::Smallest
        } else if operation.contains("sum_functor<") && !operation.contains("nansum") {
            Action::Sum
        } else if operation.contains("prod_functor<") {
            Action::Product
        } else {
            return None;
        };
        // A lambda takes what was accumulated and an element; in other operations the two are of one type.
        let wide = match operation.rsplit_once("{lambda(") {
            Some((_, parameters)) => Element::named(parameters.split([',', ')']).next()?)?,
            None => element,
        };
        Some((action, wide))
    }

    /// Offset of the sizes.
    fn sizes_at(self) -> usize {
        let (len, align) = self.accumulated;
        (self.operation_len.next_multiple_of(align) + len).next_multiple_of(4)
    }

    /// Offset of the input's address.
    fn addresses_at(self) -> usize {
        (self.sizes_at() + SIZES + index_calculator_len(1) + index_calculator_len(2))
            .next_multiple_of(8)
    }

    fn carry_out(self, launch: &Launch, access: &mut Access) -> Option<()> {
        let argument = launch.argument(0)?;
        let sizes = argument.from(self.sizes_at());
        let n_inputs = usize::try_from(sizes.i32(4)).ok()?;
        let n_outputs = usize::try_from(sizes.i32(8)).ok()?;
        let total = n_inputs.checked_mul(n_outputs)?;
        let accumulated_len = usize::try_from(sizes.i32(0)).ok()?;
        if total == 0 || total > MAX_ELEMENTS || accumulated_len != self.accumulated.0 {
            return None;
        }
        let calculators = sizes.from(SIZES);
        let input = Strides::calculator(calculators, 1)?;
        let output = Strides::calculator(calculators.from(index_calculator_len(1)), 2)?;
        let addresses = argument.from(self.addresses_at());
        // Input, two results, two buffers, semaphores, the first index, whether to add to what is there, whether this is the last part, and the
        // number of results.
        let (accumulates, is_final, n_results) =
            (addresses.u8(56), addresses.u8(57), addresses.i32(60));
        let sizes_agree = input.count() == Some(n_inputs) && output.count() == Some(n_outputs);
        if !sizes_agree || accumulates != 0 || is_final != 1 || !(1..=2).contains(&n_results) {
            return None;
        }
        let (from, to) = (addresses.u64(0), [addresses.u64(8), addresses.u64(16)]);
        let within = input.offsets(0, n_inputs);
        let (starts, places) = (output.offsets(1, n_outputs), output.offsets(0, n_outputs));
        let offsets: Vec<i64> = starts
            .iter()
            .flat_map(|start| within.iter().map(move |offset| start + offset))
            .collect();
        let values = access.gather_values(self.element, from, &offsets)?;
        let mut results = Vec::with_capacity(n_outputs);
        for slice in values.chunks_exact(n_inputs) {
            results.push(self.reduce(argument, slice)?);
        }
        let first: Vec<Value> = results.iter().map(|result| result.0).collect();
        access.scatter_values(self.output, to[0], &places, &first)?;
        if n_results == 2 {
            let second: Option<Vec<Value>> = results.iter().map(|result| result.1).collect();
            let element = match self.action {
                Action::LargestAndIndex | Action::SmallestAndIndex => Element::I64,
                _ => self.output,
            };
            // The calculator counts in bytes of the first result.
            let places: Vec<i64> = places
                .iter()
                .map(|offset| offset / self.output.len() as i64 * element.len() as i64)
                .collect();
            access.scatter_values(element, to[1], &places, &second?)?;
        }
        Some(())
    }

    /// The results over at least one value.
    fn reduce(self, argument: Argument, values: &[Value]) -> Option<(Value, Option<Value>)> {
        let one = |value| Some((value, None));
        let factor = || self.wide.read(&argument.bytes(0, self.wide.len()));
        let magnitude = |value: &Value| match value {
            Value::Float(value) => value.abs(),
            Value::Int(value) => *value as f64,
        };
        let best = |is_better: fn(std::cmp::Ordering) -> bool| {
            let (mut at, mut best) = (0, *values.first()?);
            for (index, value) in values.iter().enumerate().skip(1) {
                if best.is_nan() {
                    break;
                }
                if value.is_nan() || is_better(self.element.compare(*value, best)?) {
                    (at, best) = (index, *value);
                }
            }
            Some((best, Value::Int(at as i64)))
        };
        let sum =
            |power: &dyn Fn(f64) -> f64| values.iter().map(|v| power(magnitude(v))).sum::<f64>();
        match self.action {
            Action::All => one(Value::truth(values.iter().all(|value| value.is_true()))),
            Action::Any => one(Value::truth(values.iter().any(|value| value.is_true()))),
            Action::Largest => one(best(std::cmp::Ordering::is_gt)?.0),
            Action::Smallest => one(best(std::cmp::Ordering::is_lt)?.0),
            Action::LargestAndIndex => {
                best(std::cmp::Ordering::is_gt).map(|(value, at)| (value, Some(at)))
            }
            Action::SmallestAndIndex => {
                best(std::cmp::Ordering::is_lt).map(|(value, at)| (value, Some(at)))
            }
            Action::IndexOfLargest => one(best(std::cmp::Ordering::is_gt)?.1),
            Action::IndexOfSmallest => one(best(std::cmp::Ordering::is_lt)?.1),
            Action::SmallestAndLargest => Some((
                best(std::cmp::Ordering::is_lt)?.0,
                Some(best(std::cmp::Ordering::is_gt)?.0),
            )),
            Action::Sum | Action::Mean | Action::Product => {
                let total = self.total(values)?;
                if self.action != Action::Mean {
                    return one(total);
                }
                let mean = self.wide.convert(total).as_f64() * factor()?.as_f64();
                one(self.wide.convert(Value::Float(mean)))
            }
            Action::NormZero => one(Value::Float(
                values
                    .iter()
                    .filter(|value| value.is_true() || value.is_nan())
                    .count() as f64,
            )),
            Action::NormOne => one(Value::Float(sum(&|value| value))),
            Action::NormTwo => {
                let squares = sum(&|value| value * value);
                one(Value::Float(if self.takes_root {
                    squares.sqrt()
                } else {
                    squares
                }))
            }
            Action::Norm => {
                let power = factor()?.as_f64();
                let powers = sum(&|value| value.powf(power));
                one(Value::Float(if self.takes_root {
                    powers.powf(1.0 / power)
                } else {
                    powers
                }))
            }
            Action::LargestMagnitude | Action::SmallestMagnitude => {
                let magnitudes = values.iter().map(magnitude);
                let pick: fn(f64, f64) -> f64 = match self.action {
                    Action::LargestMagnitude => |a, b| if a.is_nan() || a > b { a } else { b },
                    _ => |a, b| if a.is_nan() || a < b { a } else { b },
                };
                one(Value::Float(magnitudes.reduce(pick)?))
            }
            Action::Variance => {
                let correction = factor()?.as_f64();
                let takes_root = argument.u8(self.wide.len()) != 0;
                let count = values.len() as f64;
                let mean = sum_of(values) / count;
                let squares: f64 = values.iter().map(|v| (v.as_f64() - mean).powi(2)).sum();
                let variance = squares / (count - correction).max(0.0);
                let result = if takes_root {
                    variance.sqrt()
                } else {
                    variance
                };
                Some((Value::Float(result), Some(Value::Float(mean))))
            }
        }
    }

    /// The sum or product.
    fn total(self, values: &[Value]) -> Option<Value> {
        let is_product = self.action == Action::Product;
        if self.wide.is_whole() {
            let mut total = i64::from(is_product);
            for value in values {
                let Value::Int(value) = value else {
                    return None;
                };
                total = if is_product {
                    total.wrapping_mul(*value)
                } else {
                    total.wrapping_add(*value)
                };
            }
            return Some(Value::Int(total));
        }
        Some(Value::Float(if is_product {
            values.iter().map(|value| value.as_f64()).product()
        } else {
            sum_of(values)
        }))
    }
}

fn sum_of(values: &[Value]) -> f64 {
    values.iter().map(|value| value.as_f64()).sum()
}

/// `reduce_kernel(ReduceOp)`.
pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    let [operation] = signature.types() else {
        return None;
    };
    if signature.function() != "reduce_kernel" {
        return None;
    }
    let reduction = Reduction::of(operation)?;
    Some(Box::new(move |launch, access| {
        reduction.carry_out(launch, access)
    }))
}
