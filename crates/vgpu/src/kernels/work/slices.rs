//! Slices of a tensor along one dimension, and what picks elements of them: `topk`, `kthvalue`, `median`, `mode`,
//! cumulative sums.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::cub::Combine;
use super::iterator::pointee;
use super::offsets::Strides;
use super::sort::order;

/// A tensor that is read or written in slices.
pub(super) struct Slices {
    pub(super) address: u64,
    starts: Strides,
    /// From one element of a slice to the next, in elements.
    stride: i64,
}

/// The element and the size of the index of `TensorInfo<T, index>`.
pub(super) fn slice_types(cpp_type: &str) -> Option<(Element, usize)> {
    let (_, inside) = cpp_type.split_once("TensorInfo<")?;
    let [element, index] = split_at_commas(inside.strip_suffix('>')?)[..] else {
        return None;
    };
    Some((Element::named(element)?, Element::named(index)?.len()))
}

impl Slices {
    pub(super) fn of(argument: Argument, index_len: usize, stride: i64) -> Option<Self> {
        let (address, starts) = Strides::tensor_info(argument, index_len)?;
        Some(Self {
            address,
            starts,
            stride,
        })
    }

    /// The offsets in bytes of the first `len` elements of a slice.
    pub(super) fn offsets(&self, slice: usize, len: usize, element_len: usize) -> Vec<i64> {
        let start = self.starts.offset(0, slice);
        (0..len as i64)
            .map(|index| (start + index * self.stride) * element_len as i64)
            .collect()
    }
}

/// Where elements that were picked from slices go, and the places they were picked from.
struct Picks {
    element: Element,
    values: Slices,
    index: Element,
    places: Slices,
}

impl Picks {
    /// Writes those of one slice: the elements of `all` at `at`.
    fn write(&self, access: &mut Access, slice: usize, all: &[Value], at: &[usize]) -> Option<()> {
        let values: Vec<Value> = at.iter().map(|at| all[*at]).collect();
        let places: Vec<Value> = at.iter().map(|at| Value::Int(*at as i64)).collect();
        let outputs = [
            (self.element, &self.values, values),
            (self.index, &self.places, places),
        ];
        for (element, output, values) in outputs {
            let offsets = output.offsets(slice, at.len(), element.len());
            access.scatter_values(element, output.address, &offsets, &values)?;
        }
        Some(())
    }
}

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    let types = signature.types();
    match signature.function() {
        "gatherTopK" if signature.name().contains("sbtopk") => top(types),
        "gatherKthValue" => kth_value(types),
        "gatherMedian" => median(types),
        "compute_mode" => mode(types),
        "tensor_kernel_scan_innermost_dim" => scan_rows(types),
        "tensor_kernel_scan_outer_dim" => scan_columns(types),
        "tensor_kernel_scan_innermost_dim_with_indices" => scan_rows_with_indices(types),
        _ => None,
    }
}

/// `(input, length, k, whether largest, slices, stride, values, stride, indices, stride, ...)`. As on a GPU, what is
/// above the k-th comes first, in the order of the input, and then what equals it.
fn top(types: &[String]) -> Option<Work> {
    let [
        input,
        length,
        k,
        largest,
        n_slices,
        stride,
        values,
        value_stride,
        indices,
        index_stride,
        ..,
    ] = types
    else {
        return None;
    };
    if largest != "bool" {
        return None;
    }
    let (element, input_index) = slice_types(input)?;
    let (value, value_index) = slice_types(values)?;
    let (index, indices_index) = slice_types(indices)?;
    if value != element {
        return None;
    }
    let numbers = [length, k, n_slices, stride, value_stride, index_stride].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (length, k) = (launch.count(1, &numbers[0])?, launch.count(2, &numbers[1])?);
        let is_largest = launch.number(3, "bool")? != 0;
        let n_slices = launch.count(4, &numbers[2])?;
        if length.checked_mul(n_slices)? > MAX_ELEMENTS || k > length || k == 0 {
            return None;
        }
        let input = Slices::of(
            launch.argument(0)?,
            input_index,
            launch.number(5, &numbers[3])?,
        )?;
        let picks = Picks {
            element,
            values: Slices::of(
                launch.argument(6)?,
                value_index,
                launch.number(7, &numbers[4])?,
            )?,
            index,
            places: Slices::of(
                launch.argument(8)?,
                indices_index,
                launch.number(9, &numbers[5])?,
            )?,
        };
        for slice in 0..n_slices {
            let offsets = input.offsets(slice, length, element.len());
            let all = access.gather_values(element, input.address, &offsets)?;
            let better = |left: Value, right: Value| {
                let order = order(element, left, right);
                if is_largest { order.reverse() } else { order }
            };
            let mut sorted = all.clone();
            sorted.sort_by(|left, right| better(*left, *right));
            let limit = sorted[k - 1];
            let above = (0..length).filter(|at| better(all[*at], limit).is_lt());
            let equal = (0..length).filter(|at| better(all[*at], limit).is_eq());
            let chosen: Vec<usize> = above.chain(equal).take(k).collect();
            picks.write(access, slice, &all, &chosen)?;
        }
        Some(())
    }))
}

/// `(input, length, k, slices, stride, values, indices)`.
fn kth_value(types: &[String]) -> Option<Work> {
    let [input, length, k, n_slices, stride, values, indices] = types else {
        return None;
    };
    let (element, input_index) = slice_types(input)?;
    let ((value, value_index), (index, indices_index)) =
        (slice_types(values)?, slice_types(indices)?);
    if value != element {
        return None;
    }
    let numbers = [length, k, n_slices, stride].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (length, k) = (launch.count(1, &numbers[0])?, launch.count(2, &numbers[1])?);
        let n_slices = launch.count(3, &numbers[2])?;
        if length.checked_mul(n_slices)? > MAX_ELEMENTS || !(1..=length).contains(&k) {
            return None;
        }
        let input = Slices::of(
            launch.argument(0)?,
            input_index,
            launch.number(4, &numbers[3])?,
        )?;
        let picks = Picks {
            element,
            values: Slices::of(launch.argument(5)?, value_index, 1)?,
            index,
            places: Slices::of(launch.argument(6)?, indices_index, 1)?,
        };
        for slice in 0..n_slices {
            let offsets = input.offsets(slice, length, element.len());
            let all = access.gather_values(element, input.address, &offsets)?;
            let at = ranked(element, &all, k - 1);
            picks.write(access, slice, &all, &[at])?;
        }
        Some(())
    }))
}

/// The index of the first element that has this rank.
fn ranked(element: Element, all: &[Value], rank: usize) -> usize {
    let mut sorted: Vec<usize> = (0..all.len()).collect();
    sorted.sort_by(|left, right| order(element, all[*left], all[*right]));
    let value = all[sorted[rank]];
    (0..all.len())
        .find(|at| order(element, all[*at], value).is_eq())
        .unwrap_or(0)
}

/// `(values, indices, input, length, slices, stride, whether to ignore what is not a number)`.
fn median(types: &[String]) -> Option<Work> {
    let [
        values,
        indices,
        input,
        length,
        n_slices,
        stride,
        ignores_nan,
    ] = types
    else {
        return None;
    };
    if ignores_nan != "bool" {
        return None;
    }
    let (element, input_index) = slice_types(input)?;
    let ((_, value_index), (index, indices_index)) = (slice_types(values)?, slice_types(indices)?);
    let numbers = [length, n_slices, stride].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (length, n_slices) = (launch.count(3, &numbers[0])?, launch.count(4, &numbers[1])?);
        let ignores_nan = launch.number(6, "bool")? != 0;
        if length.checked_mul(n_slices)? > MAX_ELEMENTS || length == 0 {
            return None;
        }
        let picks = Picks {
            element,
            values: Slices::of(launch.argument(0)?, value_index, 1)?,
            index,
            places: Slices::of(launch.argument(1)?, indices_index, 1)?,
        };
        let input = Slices::of(
            launch.argument(2)?,
            input_index,
            launch.number(5, &numbers[2])?,
        )?;
        for slice in 0..n_slices {
            let offsets = input.offsets(slice, length, element.len());
            let all = access.gather_values(element, input.address, &offsets)?;
            let n_nan = all.iter().filter(|value| value.is_nan()).count();
            let rank = match n_nan {
                0 => (length - 1) / 2,
                _ if ignores_nan && n_nan < length => (length - n_nan - 1) / 2,
                _ => length - n_nan,
            };
            let at = ranked(element, &all, rank.min(length - 1));
            picks.write(access, slice, &all, &[at])?;
        }
        Some(())
    }))
}

/// `(input, values, indices, length, slices)`: the input is contiguous. Which of several modes a GPU takes, and which
/// of its places, is not specified, so ties are left unknown.
fn mode(types: &[String]) -> Option<Work> {
    let [input, values, indices, length, n_slices] = types else {
        return None;
    };
    let element = pointee(input)?;
    let ((_, value_index), (index, indices_index)) = (slice_types(values)?, slice_types(indices)?);
    let numbers = [length, n_slices].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (length, n_slices) = (launch.count(3, &numbers[0])?, launch.count(4, &numbers[1])?);
        let total = length
            .checked_mul(n_slices)
            .filter(|n| *n <= MAX_ELEMENTS && *n > 0)?;
        let all = access.values(element, launch.address(0)?, total)?;
        let picks = Picks {
            element,
            values: Slices::of(launch.argument(1)?, value_index, 1)?,
            index,
            places: Slices::of(launch.argument(2)?, indices_index, 1)?,
        };
        for (slice, elements) in all.chunks_exact(length).enumerate() {
            let mut sorted = elements.to_vec();
            sorted.sort_by(|left, right| order(element, *left, *right));
            let mut runs: Vec<(usize, Value)> = sorted
                .chunk_by(|left, right| order(element, *left, *right).is_eq())
                .map(|run| (run.len(), run[0]))
                .collect();
            runs.sort_by_key(|run| std::cmp::Reverse(run.0));
            if runs.len() > 1 && runs[0].0 == runs[1].0 {
                return None;
            }
            let mode = runs[0].1;
            let at = elements.iter().rposition(|each| *each == mode)?;
            picks.write(access, slice, elements, &[at])?;
        }
        Some(())
    }))
}

/// The running totals of values that follow each other.
fn running(
    combine: Combine,
    element: Element,
    values: impl IntoIterator<Item = Value>,
) -> Option<Vec<Value>> {
    let mut total = None;
    let mut results = Vec::new();
    for value in values {
        let next = match total {
            None => value,
            Some(total) => combine.apply(element, total, value)?,
        };
        results.push(next);
        total = Some(next);
    }
    Some(results)
}

/// `(output, input, rows, length, logarithm of threads, first value, combine)`.
fn scan_rows(types: &[String]) -> Option<Work> {
    let [output, _, n_rows, length, .., combine] = types else {
        return None;
    };
    let (element, combine) = (pointee(output)?, Combine::of(combine)?);
    let (n_rows, length) = (n_rows.clone(), length.clone());
    Some(Box::new(move |launch, access| {
        let (n_rows, length) = (launch.count(2, &n_rows)?, launch.count(3, &length)?);
        let n = n_rows.checked_mul(length).filter(|n| *n > 0)?;
        let values = access.values(element, launch.address(1)?, n)?;
        let mut results = Vec::with_capacity(n);
        for row in values.chunks_exact(length) {
            results.extend(running(combine, element, row.iter().copied())?);
        }
        access.write_values(element, launch.address(0)?, results)
    }))
}

/// `(output, input, outer rows, inner rows, length, first value, combine)`.
fn scan_columns(types: &[String]) -> Option<Work> {
    let [output, _, n_outer, n_inner, length, _, combine] = types else {
        return None;
    };
    let (element, combine) = (pointee(output)?, Combine::of(combine)?);
    let numbers = [n_outer, n_inner, length].map(String::clone);
    Some(Box::new(move |launch: &Launch, access: &mut Access| {
        let n_outer = launch.count(2, &numbers[0])?;
        let (n_inner, length) = (launch.count(3, &numbers[1])?, launch.count(4, &numbers[2])?);
        let n = n_outer.checked_mul(n_inner)?.checked_mul(length)?;
        let mut values = access.values(element, launch.address(1)?, n)?;
        for outer in 0..n_outer {
            for inner in 0..n_inner {
                let at = |index: usize| (outer * length + index) * n_inner + inner;
                let column = (0..length)
                    .map(|index| values[at(index)])
                    .collect::<Vec<_>>();
                for (index, total) in running(combine, element, column)?.into_iter().enumerate() {
                    values[at(index)] = total;
                }
            }
        }
        access.write_values(element, launch.address(0)?, values)
    }))
}

/// `(input, values, indices, rows, length, ...)`: the best so far, of equal ones the latest.
fn scan_rows_with_indices(types: &[String]) -> Option<Work> {
    let [input, values, indices, n_rows, length, .., better] = types else {
        return None;
    };
    let (element, index) = (pointee(input)?, pointee(indices)?);
    let takes_larger = match better.split('<').next()?.rsplit("::").next()? {
        "greater_equal" => true,
        "less_equal" => false,
        _ => return None,
    };
    if pointee(values)? != element {
        return None;
    }
    let (n_rows, length) = (n_rows.clone(), length.clone());
    Some(Box::new(move |launch, access| {
        let (n_rows, length) = (launch.count(3, &n_rows)?, launch.count(4, &length)?);
        let n = n_rows.checked_mul(length).filter(|n| *n > 0)?;
        let all = access.values(element, launch.address(0)?, n)?;
        let (mut best_values, mut places) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for row in all.chunks_exact(length) {
            let (mut best, mut at) = (row[0], 0);
            for (index, value) in row.iter().enumerate() {
                let order = element.compare(*value, best);
                let is_better = value.is_nan()
                    || (!best.is_nan()
                        && order.is_some_and(|order| {
                            if takes_larger {
                                order.is_ge()
                            } else {
                                order.is_le()
                            }
                        }));
                if is_better {
                    (best, at) = (*value, index);
                }
                best_values.push(best);
                places.push(Value::Int(at as i64));
            }
        }
        access.write_values(element, launch.address(1)?, best_values)?;
        access.write_values(index, launch.address(2)?, places)
    }))
}
