//! Sorts: CUB's radix and merge sorts, and PyTorch's sorts of the slices of a tensor in place.
//!
//! All of them are done as stable sorts. Those that are not stable on a GPU may order equal keys differently there, as
//! they may between two GPUs.

use std::cmp::Ordering;

use super::super::element::{Element, Value};
use super::super::signature::Signature;
use super::Work;
use super::access::MAX_ELEMENTS;
use super::argument::Launch;
use super::cub::Rows;
use super::iterator::{pointee, pointee_name};
use super::slices::{Slices, slice_types};

/// How two keys compare when what is not a number comes last.
pub(super) fn order(element: Element, left: Value, right: Value) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => element.compare(left, right).unwrap_or(Ordering::Equal),
        (left_is_nan, right_is_nan) => left_is_nan.cmp(&right_is_nan),
    }
}

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    match signature.function() {
        "DeviceRadixSortSingleTileKernel" => single_tile(signature),
        "DeviceRadixSortOnesweepKernel" => one_pass(signature),
        "DeviceMergeSortBlockSortKernel" => merge_sort(signature.types()),
        "bitonicSortKVInPlace" | "warpMergeSortKVInPlace" | "radixSortKVInPlace" => {
            in_place(signature.types())
        }
        "fill_reverse_indices_kernel" => reverse_indices(signature.types()),
        _ => None,
    }
}

/// Whether a radix sort is descending, by its template's arguments.
fn is_descending(signature: &Signature) -> Option<bool> {
    let (_, inside) = signature.name().split_once(signature.function())?;
    let inside = inside.trim().strip_prefix('<')?.strip_suffix('>')?;
    let order = *super::super::signature::split_at_commas(inside).get(1)?;
    match order {
        "false" => Some(false),
        "true" => Some(true),
        _ if order.ends_with("SortOrder)0") => Some(false),
        _ if order.ends_with("SortOrder)1") => Some(true),
        _ => None,
    }
}

/// The bytes of a value that goes with a key; nothing when there are none.
fn value_len(pointer: &str) -> Option<usize> {
    let name = pointee_name(pointer)?;
    if name.ends_with("NullType") {
        return Some(0);
    }
    if let Some(element) = Element::named(name) {
        return Some(element.len());
    }
    let (_, len) = name.split_once("OpaqueType<")?;
    len.trim_end_matches('>').trim().parse().ok()
}

/// The bits of a key in the order of its values.
fn bits(element: Element, key: Value) -> u64 {
    let n_bits = element.len() * 8;
    let mask = u64::MAX >> (64 - n_bits);
    let top = 1u64 << (n_bits - 1);
    if element.is_whole() {
        let Value::Int(value) = key else { return 0 };
        let is_signed = matches!(
            element,
            Element::I8 | Element::I16 | Element::I32 | Element::I64
        );
        return (value as u64 & mask) ^ if is_signed { top } else { 0 };
    }
    // The two zeros are one.
    let key = if key == Value::Float(0.0) {
        Value::Float(0.0)
    } else {
        key
    };
    let mut bytes = Vec::with_capacity(8);
    element.write(key, &mut bytes);
    bytes.resize(8, 0);
    let raw = bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if raw & top == 0 {
        raw | top
    } else {
        !raw & mask
    }
}

/// Where a radix sort's keys and values are, and which bits of the keys count.
struct RadixSort {
    element: Element,
    value_len: usize,
    is_descending: bool,
    n: usize,
    keys: [u64; 2],
    values: [u64; 2],
    first_bit: u32,
    n_bits: u32,
}

impl RadixSort {
    fn carry_out(&self, access: &mut super::Access) -> Option<()> {
        let keys = access.values(self.element, self.keys[0], self.n)?;
        if self.n_bits > 64 || self.first_bit > 63 {
            return None;
        }
        let mask = u64::MAX.checked_shr(64 - self.n_bits).unwrap_or(0);
        let digit = |key: Value| (bits(self.element, key) >> self.first_bit) & mask;
        let mut by_digit: Vec<(u64, usize)> = keys
            .iter()
            .enumerate()
            .map(|(index, key)| (digit(*key), index))
            .collect();
        if self.is_descending {
            by_digit.sort_by_key(|(digit, _)| std::cmp::Reverse(*digit));
        } else {
            by_digit.sort_by_key(|(digit, _)| *digit);
        }
        let sorted = by_digit.iter().map(|(_, index)| keys[*index]);
        access.write_values(self.element, self.keys[1], sorted)?;
        if self.value_len == 0 {
            return Some(());
        }
        let values = access.bytes(self.values[0], self.n * self.value_len)?;
        let mut sorted = Vec::with_capacity(values.len());
        for (_, index) in by_digit {
            let at = index * self.value_len;
            sorted.extend_from_slice(values.get(at..at + self.value_len)?);
        }
        access.write(self.values[1], sorted)
    }
}

/// `(keys, sorted keys, values, sorted values, n, first bit, last bit, ...)`.
fn single_tile(signature: &Signature) -> Option<Work> {
    let [keys, _, values, _, count, first, last, ..] = signature.types() else {
        return None;
    };
    if first != "int" || last != "int" {
        return None;
    }
    let (element, value_len) = (pointee(keys)?, value_len(values)?);
    let (count, is_descending) = (count.clone(), is_descending(signature)?);
    Some(Box::new(move |launch, access| {
        let (first_bit, last_bit) = (launch.number(5, "int")?, launch.number(6, "int")?);
        RadixSort {
            element,
            value_len,
            is_descending,
            n: launch.count(4, &count)?,
            keys: [launch.address(0)?, launch.address(1)?],
            values: [launch.address(2)?, launch.address(3)?],
            first_bit: u32::try_from(first_bit).ok()?,
            n_bits: u32::try_from(last_bit - first_bit).ok()?,
        }
        .carry_out(access)
    }))
}

/// `(lookback, counters, bins, bins, sorted keys, keys, sorted values, values, n, first bit, bits, ...)`.
fn one_pass(signature: &Signature) -> Option<Work> {
    let [_, _, _, _, _, keys, _, values, count, first, bits, ..] = signature.types() else {
        return None;
    };
    if first != "int" || bits != "int" {
        return None;
    }
    let (element, value_len) = (pointee(keys)?, value_len(values)?);
    let (count, is_descending) = (count.clone(), is_descending(signature)?);
    Some(Box::new(move |launch, access| {
        RadixSort {
            element,
            value_len,
            is_descending,
            n: launch.count(8, &count)?,
            keys: [launch.address(5)?, launch.address(4)?],
            values: [launch.address(7)?, launch.address(6)?],
            first_bit: u32::try_from(launch.number(9, "int")?).ok()?,
            n_bits: u32::try_from(launch.number(10, "int")?).ok()?,
        }
        .carry_out(access)
    }))
}

/// `(whether in place, keys, values, keys, values, n, buffer, buffer, compare, ...)`: sorted at once when all of it is
/// one block, which leaves the result where the first argument says.
fn merge_sort(types: &[String]) -> Option<Work> {
    let [
        in_place,
        keys,
        values,
        _,
        _,
        count,
        key_buffer,
        _,
        compare,
        ..,
    ] = types
    else {
        return None;
    };
    let rows = Rows::of(compare, 1);
    let is_less = rows.is_some() || compare.contains("LTOp<") || compare.contains("less<");
    if in_place != "bool" || !is_less || pointee(keys)? != pointee(key_buffer)? {
        return None;
    }
    let has_values = !values.contains("NullType");
    let values = if has_values {
        Some(pointee(values)?)
    } else {
        None
    };
    let (element, count) = (pointee(keys)?, count.clone());
    Some(Box::new(move |launch: &Launch, access| {
        let n = launch.count(5, &count)?;
        // With more blocks, others merge what these sorted.
        if launch.grid[0] != 1 || launch.number(0, "bool")? != 1 || n > MAX_ELEMENTS {
            return None;
        }
        let keys = access.values(element, launch.address(1)?, n)?;
        let mut sorted: Vec<usize> = (0..n).collect();
        match rows {
            None => sorted.sort_by(|left, right| order(element, keys[*left], keys[*right])),
            Some(rows) => {
                let held = launch.argument(8)?;
                let mut all_known = true;
                sorted.sort_by(|left, right| {
                    let order = rows.compare(held, access, keys[*left], keys[*right]);
                    all_known &= order.is_some();
                    order.unwrap_or(Ordering::Equal)
                });
                all_known.then_some(())?;
            }
        }
        if let Some(values) = values {
            let items = access.values(values, launch.address(2)?, n)?;
            access.write_values(
                values,
                launch.address(4)?,
                sorted.iter().map(|at| items[*at]),
            )?;
        }
        access.write_values(
            element,
            launch.address(3)?,
            sorted.iter().map(|at| keys[*at]),
        )
    }))
}

/// `(keys, slices, length, stride, values, stride, comparison or whether it is descending, ...)`.
fn in_place(types: &[String]) -> Option<Work> {
    let [
        keys,
        n_slices,
        len,
        stride,
        values,
        value_stride,
        compare,
        ..,
    ] = types
    else {
        return None;
    };
    let (key, key_index) = slice_types(keys)?;
    let (value, value_index) = slice_types(values)?;
    let descending = match compare.as_str() {
        "bool" => None,
        text if text.contains("LTOp<") => Some(false),
        text if text.contains("GTOp<") => Some(true),
        _ => return None,
    };
    let numbers = [
        n_slices.clone(),
        len.clone(),
        stride.clone(),
        value_stride.clone(),
    ];
    Some(Box::new(move |launch, access| {
        let n_slices = launch.count(1, &numbers[0])?;
        let len = launch.count(2, &numbers[1])?;
        let descending = match descending {
            None => launch.number(6, "bool")? != 0,
            Some(descending) => descending,
        };
        if n_slices.checked_mul(len)? > MAX_ELEMENTS {
            return None;
        }
        let keys = Slices::of(
            launch.argument(0)?,
            key_index,
            launch.number(3, &numbers[2])?,
        )?;
        let items = Slices::of(
            launch.argument(4)?,
            value_index,
            launch.number(5, &numbers[3])?,
        )?;
        for slice in 0..n_slices {
            let (key_offsets, item_offsets) = (
                keys.offsets(slice, len, key.len()),
                items.offsets(slice, len, value.len()),
            );
            let read_keys = access.gather_values(key, keys.address, &key_offsets)?;
            let read_items = access.gather_values(value, items.address, &item_offsets)?;
            let mut pairs: Vec<(Value, Value)> = read_keys.into_iter().zip(read_items).collect();
            pairs.sort_by(|left, right| {
                let order = order(key, left.0, right.0);
                if descending { order.reverse() } else { order }
            });
            let (sorted_keys, sorted_items): (Vec<Value>, Vec<Value>) = pairs.into_iter().unzip();
            access.scatter_values(key, keys.address, &key_offsets, &sorted_keys)?;
            access.scatter_values(value, items.address, &item_offsets, &sorted_items)?;
        }
        Some(())
    }))
}

/// `(output, n, divider)`: indices that count within slices whose length is the divider.
fn reverse_indices(types: &[String]) -> Option<Work> {
    let [output, count, _] = types else {
        return None;
    };
    let (output, count) = (pointee(output)?, count.clone());
    Some(Box::new(move |launch, access| {
        let n = launch.count(1, &count).filter(|n| *n <= MAX_ELEMENTS)?;
        let len = i64::from(launch.argument(2)?.u32(0));
        if len == 0 {
            return None;
        }
        let indices = (0..n as i64).map(|index| Value::Int(index % len));
        access.write_values(output, launch.address(0)?, indices)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_in_the_order_of_the_values() {
        let check = |element: Element, values: &[Value]| {
            let bits: Vec<u64> = values.iter().map(|value| bits(element, *value)).collect();
            assert!(bits.is_sorted(), "{element:?} {bits:?}");
        };
        let ints = |values: &[i64]| values.iter().map(|v| Value::Int(*v)).collect::<Vec<_>>();
        let floats = |values: &[f64]| values.iter().map(|v| Value::Float(*v)).collect::<Vec<_>>();
        check(Element::I64, &ints(&[i64::MIN, -1, 0, 1, i64::MAX]));
        check(Element::I8, &ints(&[-128, -1, 0, 127]));
        check(Element::U8, &ints(&[0, 1, 255]));
        for element in [Element::F16, Element::BF16, Element::F32, Element::F64] {
            check(
                element,
                &floats(&[
                    f64::NEG_INFINITY,
                    -1.0,
                    -0.0,
                    0.0,
                    0.5,
                    f64::INFINITY,
                    f64::NAN,
                ]),
            );
        }
    }
}
