//! CUB's device-wide reductions, selections, scans and runs, which `nonzero`, masks, `cumsum` and `unique` are made of.
//!
//! Their kernels hand partial results to each other in temporary memory. Here the last kernel computes the result from
//! the input alone, and what the others leave behind is unknown, except for a reduction's partial results.

use super::super::element::{Element, Value};
use super::super::signature::Signature;
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::iterator::{Iterator, pointee};

/// What is accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    Sum,
    Product,
    Largest,
    Smallest,
}

impl Combine {
    /// The operation of a functor such as `std::plus<long>`.
    pub(super) fn of(cpp_type: &str) -> Option<Self> {
        let name = cpp_type.split('<').next()?.rsplit("::").next()?;
        Some(match name.trim() {
            "plus" | "Sum" | "SumOp" => Self::Sum,
            "multiplies" => Self::Product,
            "Max" | "maximum" => Self::Largest,
            "Min" | "minimum" => Self::Smallest,
            _ => return None,
        })
    }

    /// Two values combined, in this type.
    pub(super) fn apply(self, element: Element, left: Value, right: Value) -> Option<Value> {
        let result = match (self, left, right) {
            (Self::Sum, Value::Int(left), Value::Int(right)) => {
                Value::Int(left.wrapping_add(right))
            }
            (Self::Product, Value::Int(left), Value::Int(right)) => {
                Value::Int(left.wrapping_mul(right))
            }
            (Self::Sum, left, right) => Value::Float(left.as_f64() + right.as_f64()),
            (Self::Product, left, right) => Value::Float(left.as_f64() * right.as_f64()),
            (Self::Largest, left, right) => {
                return Some(if element.compare(left, right)?.is_ge() {
                    left
                } else {
                    right
                });
            }
            (Self::Smallest, left, right) => {
                return Some(if element.compare(left, right)?.is_le() {
                    left
                } else {
                    right
                });
            }
        };
        Some(element.convert(result))
    }

    fn all(self, element: Element, values: Vec<Value>) -> Option<Value> {
        let mut values = values.into_iter();
        let first = element.convert(values.next()?);
        values.try_fold(first, |total, value| {
            self.apply(element, total, element.convert(value))
        })
    }
}

/// Whether a functor compares two values by `==`.
fn is_equality(cpp_type: &str) -> bool {
    cpp_type.contains("equal_to<") || cpp_type.ends_with("cub::Equality")
}

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    if !signature.name().contains("cub") {
        return None;
    }
    match signature.function() {
        "DeviceReduceSingleTileKernel" => single_reduction(signature.types()),
        "DeviceReduceKernel" => partial_reduction(signature.types()),
        "DeviceSelectSweepKernel" => selection(signature.types()),
        "DeviceScanKernel" => scan(signature.types()),
        "DeviceReduceByKeyKernel" => runs(signature.types()),
        "DeviceUniqueByKeySweepKernel" => unique_pairs(signature.types()),
        "transform_kernel" => sequence(signature.types()),
        _ => None,
    }
}

/// `(input, output, n, combine, first, ...)`.
fn single_reduction(types: &[String]) -> Option<Work> {
    let [input, output, count, combine, first, ..] = types else {
        return None;
    };
    let (input, output) = (Iterator::of(input)?, pointee(output)?);
    let (count, combine, first) = (count.clone(), Combine::of(combine)?, Element::named(first)?);
    Some(Box::new(move |launch, access| {
        let n = launch.count(2, &count).filter(|n| *n > 0)?;
        let values = input.values(launch.argument(0)?, n, access)?;
        let total = combine.all(output, values)?;
        let first = first.read(&launch.argument(4)?.bytes(0, first.len()))?;
        let total = combine.apply(output, output.convert(first), total)?;
        access.write_values(output, launch.address(1)?, [total])
    }))
}

/// `(input, partial results, n, ...)`: all goes into the first partial result, and the others change nothing.
fn partial_reduction(types: &[String]) -> Option<Work> {
    let [input, partial, count, _, combine, ..] = types else {
        return None;
    };
    let (input, partial) = (Iterator::of(input)?, pointee(partial)?);
    let (count, combine) = (count.clone(), Combine::of(combine)?);
    Some(Box::new(move |launch, access| {
        let n = launch.count(2, &count).filter(|n| *n > 0)?;
        let values = input.values(launch.argument(0)?, n, access)?;
        let total = combine.all(partial, values)?;
        let n_partial = (launch.grid[0] as usize).clamp(1, MAX_ELEMENTS);
        let neutral = match combine {
            Combine::Sum => Value::Int(0),
            Combine::Product => Value::Int(1),
            Combine::Largest | Combine::Smallest => total,
        };
        let rest = std::iter::repeat_n(partial.convert(neutral), n_partial - 1);
        let values = std::iter::once(total).chain(rest);
        access.write_values(partial, launch.address(1)?, values)
    }))
}

/// `(input, flags, output, count of selected, tiles, select, equal, n, ...)`: what is flagged, or of equal neighbors
/// the first.
fn selection(types: &[String]) -> Option<Work> {
    let [
        input,
        flags,
        output,
        n_selected,
        _,
        select,
        equal,
        count,
        ..,
    ] = types
    else {
        return None;
    };
    let is_null = |text: &String| text.contains("NullType");
    let (input, output, n_selected) =
        (Iterator::of(input)?, pointee(output)?, pointee(n_selected)?);
    let flags = if is_null(flags) {
        None
    } else {
        Some(Iterator::of(flags)?)
    };
    let rows = Rows::of(equal, 2);
    let is_unique = flags.is_none() && (is_equality(equal) || rows.is_some());
    let is_flagged = flags.is_some() && is_null(equal);
    if !is_null(select) || !(is_unique || is_flagged) {
        return None;
    }
    let count = count.clone();
    Some(Box::new(move |launch, access| {
        let n = launch.count(7, &count)?;
        let values = input.values(launch.argument(0)?, n, access)?;
        let mut kept: Vec<Value> = Vec::new();
        if let Some(flags) = flags {
            let flags = flags.values(launch.argument(1)?, n, access)?;
            let flagged = values.into_iter().zip(flags);
            kept.extend(flagged.filter_map(|(value, flag)| flag.is_true().then_some(value)));
        } else {
            for value in values {
                let is_same = match (kept.last(), rows) {
                    (None, _) => false,
                    (Some(last), None) => *last == value,
                    (Some(last), Some(rows)) => rows
                        .compare(launch.argument(6)?, access, *last, value)?
                        .is_eq(),
                };
                if !is_same {
                    kept.push(value);
                }
            }
        }
        let total = Value::Int(kept.len() as i64);
        access.write_values(output, launch.address(2)?, kept)?;
        access.write_values(n_selected, launch.address(3)?, [total])
    }))
}

/// `(input, output, tiles, first tile, combine, first value, n)`.
fn scan(types: &[String]) -> Option<Work> {
    let [input, output, _, _, combine, first, count] = types else {
        return None;
    };
    let (input, output, combine) = (
        Iterator::of(input)?,
        pointee(output)?,
        Combine::of(combine)?,
    );
    // An exclusive scan has a first value: a flag whether it is still to be computed, and then the value or where it
    // will be.
    let first = if first.contains("NullType") {
        None
    } else {
        let arguments = first.split_once("InputValue<")?.1.strip_suffix('>')?;
        Some(Element::named(
            super::super::signature::split_at_commas(arguments).first()?,
        )?)
    };
    let count = count.clone();
    Some(Box::new(move |launch, access| {
        let n = launch.count(6, &count)?;
        let values = input.values(launch.argument(0)?, n, access)?;
        let mut results = Vec::with_capacity(n);
        if let Some(first) = first {
            let argument = launch.argument(5)?;
            let mut total = match argument.u8(0) {
                0 => first.read(&argument.bytes(8, first.len()))?,
                _ => access.value(first, argument.u64(8))?,
            };
            for value in values {
                results.push(total);
                total = combine.apply(output, total, output.convert(value))?;
            }
        } else {
            let mut total = None;
            for value in values {
                let value = output.convert(value);
                let next = match total {
                    None => value,
                    Some(total) => combine.apply(output, total, value)?,
                };
                results.push(next);
                total = Some(next);
            }
        }
        access.write_values(output, launch.address(1)?, results)
    }))
}

/// `(keys, unique keys, ones, lengths, number of runs, tiles, first tile, equal, combine, n, ...)`: the runs of equal
/// keys and their lengths.
fn runs(types: &[String]) -> Option<Work> {
    let [
        keys,
        unique,
        ones,
        lengths,
        n_runs,
        _,
        _,
        equal,
        combine,
        count,
        ..,
    ] = types
    else {
        return None;
    };
    let is_encoding = Iterator::of(ones)? == Iterator::Constant
        && is_equality(equal)
        && Combine::of(combine)? == Combine::Sum;
    if !is_encoding {
        return None;
    }
    let (keys, unique) = (Iterator::of(keys)?, pointee(unique)?);
    let (lengths, n_runs) = (pointee(lengths)?, pointee(n_runs)?);
    let count = count.clone();
    Some(Box::new(move |launch, access| {
        let n = launch.count(9, &count)?;
        let mut runs: Vec<(Value, i64)> = Vec::new();
        for key in keys.values(launch.argument(0)?, n, access)? {
            match runs.last_mut() {
                Some((last, len)) if *last == key => *len += 1,
                _ => runs.push((key, 1)),
            }
        }
        access.write_values(unique, launch.address(1)?, runs.iter().map(|run| run.0))?;
        let sizes = runs.iter().map(|run| Value::Int(run.1));
        access.write_values(lengths, launch.address(3)?, sizes)?;
        access.write_values(n_runs, launch.address(4)?, [Value::Int(runs.len() as i64)])
    }))
}

/// `(keys, values, unique keys, their values, count of selected, tiles, equal, n, ...)`.
fn unique_pairs(types: &[String]) -> Option<Work> {
    let [
        keys,
        values,
        keys_out,
        values_out,
        n_selected,
        _,
        equal,
        count,
        ..,
    ] = types
    else {
        return None;
    };
    if !is_equality(equal) {
        return None;
    }
    let (keys, values) = (Iterator::of(keys)?, Iterator::of(values)?);
    let (keys_out, values_out, n_selected) = (
        pointee(keys_out)?,
        pointee(values_out)?,
        pointee(n_selected)?,
    );
    let count = count.clone();
    Some(Box::new(move |launch: &Launch, access: &mut Access| {
        let n = launch.count(7, &count)?;
        let keys = keys.values(launch.argument(0)?, n, access)?;
        let values = values.values(launch.argument(1)?, n, access)?;
        let mut kept: Vec<(Value, Value)> = Vec::new();
        for (key, value) in keys.into_iter().zip(values) {
            if kept.last().is_none_or(|last| last.0 != key) {
                kept.push((key, value));
            }
        }
        access.write_values(keys_out, launch.address(2)?, kept.iter().map(|pair| pair.0))?;
        access.write_values(
            values_out,
            launch.address(3)?,
            kept.iter().map(|pair| pair.1),
        )?;
        access.write_values(
            n_selected,
            launch.address(4)?,
            [Value::Int(kept.len() as i64)],
        )
    }))
}

/// A comparison of rows by their indices, in `unique` of a dimension: it holds the length of a row and the address of
/// the rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    element: Element,
}

impl Rows {
    /// The first lambda says whether one row is less than another, the second whether they are equal.
    pub(super) fn of(cpp_type: &str, number: u32) -> Option<Self> {
        let (_, rest) = cpp_type.split_once("unique_dim_cuda_template<")?;
        let element = Element::named(rest.split('>').next()?)?;
        cpp_type
            .ends_with(&format!("::{{lambda(long, long)#{number}}}"))
            .then_some(Self { element })
    }

    pub(super) fn compare(
        self,
        held: Argument,
        access: &mut Access,
        left: Value,
        right: Value,
    ) -> Option<std::cmp::Ordering> {
        let (len, rows) = (usize::try_from(held.u64(0)).ok()?, held.u64(8));
        let row_len = len.checked_mul(self.element.len())?;
        let mut row = |index: Value| {
            let at = index.as_i64().checked_mul(row_len as i64)?;
            access.values(self.element, rows.checked_add_signed(at)?, len)
        };
        let (left, right) = (row(left)?, row(right)?);
        let different = left.iter().zip(&right).find_map(|(left, right)| {
            let order = self.element.compare(*left, *right);
            order.filter(|order| order.is_ne())
        });
        Some(different.unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// `transform_kernel(n, ..., function, output, input)`, which writes a sequence of numbers.
fn sequence(types: &[String]) -> Option<Work> {
    let [count, .., function, output, input] = types else {
        return None;
    };
    let is_sequence = function.contains("identity") && input.contains("counting_iterator<long");
    let (at, count, output) = (types.len() - 2, count.clone(), pointee(output)?);
    is_sequence.then(|| -> Work {
        Box::new(move |launch, access| {
            let n = launch.count(0, &count).filter(|n| *n <= MAX_ELEMENTS)?;
            let first = launch.argument(at + 1)?.u64(0) as i64;
            let values = (first..first + n as i64).map(Value::Int);
            access.write_values(output, launch.address(at)?, values)
        })
    })
}
