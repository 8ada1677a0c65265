//! Counting and looking up: histograms and `bincount`, `searchsorted`.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::MAX_ELEMENTS;
use super::cub::Combine;
use super::iterator::pointee;
use super::offsets::Strides;
use super::slices::slice_types;

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    match signature.function() {
        "kernelHistogram1D" => histogram(signature.types()),
        "searchsorted_cuda_kernel" => search(signature.types()),
        _ => None,
    }
}

/// The type that `at::AccumulateType` gives.
fn accumulated(element: Element) -> Element {
    match element {
        Element::F64 => Element::F64,
        Element::F32 | Element::F16 | Element::BF16 => Element::F32,
        _ => Element::I64,
    }
}

/// `(counts, partial counts, input, bins, smallest, largest, n, weights)`: what is there is added to.
fn histogram(types: &[String]) -> Option<Work> {
    let [counts, _, input, n_bins, _, _, count, weights] = types else {
        return None;
    };
    let ((output, output_index), (element, input_index)) =
        (slice_types(counts)?, slice_types(input)?);
    // The first lambda reads weights, the second is 1.
    let has_weights = match weights.rsplit_once("{lambda(")?.1.split_once(")#")?.1 {
        "1}" => true,
        "2}" => false,
        _ => return None,
    };
    let numbers = [n_bins, count].map(String::clone);
    let index_len = Element::named(
        split_at_commas(input.split_once("TensorInfo<")?.1.strip_suffix('>')?).get(1)?,
    )?
    .len();
    Some(Box::new(move |launch, access| {
        let (n_bins, n) = (launch.count(3, &numbers[0])?, launch.count(6, &numbers[1])?);
        if n_bins == 0 || n_bins > MAX_ELEMENTS || n > MAX_ELEMENTS {
            return None;
        }
        let wide = accumulated(element);
        let limit = |index: usize| wide.read(&launch.argument(index)?.bytes(0, wide.len()));
        let (low, high) = (limit(4)?, limit(5)?);
        let (to, to_strides) = Strides::tensor_info(launch.argument(0)?, output_index)?;
        let (from, from_strides) = Strides::tensor_info(launch.argument(2)?, input_index)?;
        let in_bytes = |strides: &Strides, count: usize, len: usize| -> Vec<i64> {
            strides
                .offsets(0, count)
                .into_iter()
                .map(|offset| offset * len as i64)
                .collect()
        };
        let values =
            access.gather_values(element, from, &in_bytes(&from_strides, n, element.len()))?;
        let weights = if has_weights {
            let (at, strides) = Strides::tensor_info(launch.argument(7)?, index_len)?;
            Some(access.gather_values(output, at, &in_bytes(&strides, n, output.len()))?)
        } else {
            None
        };
        let places = in_bytes(&to_strides, n_bins, output.len());
        let mut totals = access.gather_values(output, to, &places)?;
        for (index, value) in values.into_iter().enumerate() {
            let Bin::Number(bin) = bin(wide, value, [low, high], n_bins)? else {
                continue;
            };
            let weight = match &weights {
                Some(weights) => weights[index],
                None => output.convert(Value::Int(1)),
            };
            let total = totals.get_mut(bin)?;
            *total = Combine::Sum.apply(output, *total, weight)?;
        }
        access.scatter_values(output, to, &places, &totals)
    }))
}

/// Where a value is counted.
enum Bin {
    Number(usize),
    Outside,
}

/// The bin of a value.
fn bin(wide: Element, value: Value, limits: [Value; 2], n_bins: usize) -> Option<Bin> {
    let bin = match (value, limits) {
        (Value::Int(value), [Value::Int(low), Value::Int(high)]) => {
            if !(low..=high).contains(&value) {
                return Some(Bin::Outside);
            }
            let scaled = (value - low).checked_mul(n_bins as i64)?;
            usize::try_from(scaled.checked_div(high - low)?).ok()?
        }
        (value, [low, high]) => {
            let (value, low, high) = (value.as_f64(), low.as_f64(), high.as_f64());
            if !(value >= low && value <= high) {
                return Some(Bin::Outside);
            }
            let step = |value: f64| wide.convert(Value::Float(value)).as_f64();
            let scaled = step(step(value - low) * step(n_bins as f64));
            let bin = step(scaled / step(high - low));
            if !bin.is_finite() {
                return None;
            }
            bin as usize
        }
    };
    Some(Bin::Number(if bin == n_bins { bin - 1 } else { bin }))
}

/// `(output, input, boundaries, order of the boundaries, elements of a row, boundaries of a row, n, right, one row)`.
fn search(types: &[String]) -> Option<Work> {
    let [
        output,
        input,
        boundaries,
        _,
        row,
        boundary_row,
        count,
        right,
        one_row,
    ] = types
    else {
        return None;
    };
    let (output, element) = (pointee(output)?, pointee(input)?);
    if pointee(boundaries)? != element || right != "bool" || one_row != "bool" {
        return None;
    }
    let numbers = [row, boundary_row, count].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (row, boundary_row) = (launch.count(4, &numbers[0])?, launch.count(5, &numbers[1])?);
        let n = launch.count(6, &numbers[2])?;
        let (right, one_row) = (
            launch.number(7, "bool")? != 0,
            launch.number(8, "bool")? != 0,
        );
        let n_rows = if one_row {
            1
        } else {
            n.checked_div(row)?.max(1)
        };
        let total = n_rows
            .checked_mul(boundary_row)
            .filter(|n| *n <= MAX_ELEMENTS)?;
        if launch.address(3)? != 0 {
            return None;
        }
        let values = access.values(element, launch.address(1)?, n)?;
        let all = access.values(element, launch.address(2)?, total)?;
        let results = values.into_iter().enumerate().map(|(index, value)| {
            let start = if one_row {
                0
            } else {
                index / row * boundary_row
            };
            let boundaries = all.get(start..start + boundary_row).unwrap_or_default();
            let place = boundaries.partition_point(|boundary| {
                let order = element.compare(*boundary, value);
                !order.is_some_and(|order| if right { order.is_gt() } else { order.is_ge() })
            });
            Value::Int(place as i64)
        });
        let results: Vec<Value> = results.collect();
        access.write_values(output, launch.address(0)?, results)
    }))
}
