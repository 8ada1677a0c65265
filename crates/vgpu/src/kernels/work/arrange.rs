//! Kernels that put elements in other places: `cat`, `roll`, triangles, repeats, and what `nonzero` and `unique` end
//! with.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::index::moved_len;
use super::iterator::{Iterator, pointee, pointee_name};
use super::offsets::Strides;
use super::slices::slice_types;

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    let types = signature.types();
    match signature.function() {
        "CatArrayBatchedCopy"
        | "CatArrayBatchedCopy_contig"
        | "CatArrayBatchedCopy_aligned16_contig"
        | "CatArrayBatchedCopy_alignedK_contig" => cat(signature, None),
        "CatArrayBatchedCopy_vectorized" => cat(signature, Some(())),
        "roll_cuda_kernel" => roll(types),
        "triu_tril_kernel" => triangle(signature),
        "tril_indices_kernel" => triangle_indices(types),
        "compute_cuda_kernel" => repeat(types),
        "adjacent_difference_kernel" => differences(types),
        "scatter_kernel" if signature.name().contains("internal::") => inverse(types),
        "write_indices" => coordinates(signature),
        _ => None,
    }
}

/// The arguments of a kernel's template.
fn template_arguments(signature: &Signature) -> Option<Vec<&str>> {
    let (_, inside) = signature.name().split_once(signature.function())?;
    Some(split_at_commas(
        inside.trim().strip_prefix('<')?.strip_suffix('>')?,
    ))
}

/// Sizes and strides of up to four dimensions.
struct Shape<'a> {
    argument: Argument<'a>,
    n_dims: usize,
}

impl Shape<'_> {
    fn size(&self, dim: usize) -> u64 {
        u64::from(self.argument.u32(dim * 4))
    }

    fn stride(&self, dim: usize) -> u64 {
        u64::from(self.argument.u32(16 + dim * 4))
    }

    /// The offset of an element of one of the inputs, whose size along the dimension differs.
    fn offset(&self, dim: usize, dim_len: u64, index: usize) -> Option<i64> {
        let (mut rest, mut offset) = (index as u64, 0);
        for at in (1..self.n_dims).rev() {
            let size = if at == dim { dim_len } else { self.size(at) };
            offset += rest.checked_rem(size)? * self.stride(at);
            rest /= size;
        }
        Some((offset + rest * self.stride(0)) as i64)
    }
}

/// `(output, inputs, shape of the output, dimension, stride of the dimension)`. The inputs are lists: addresses, places
/// along the dimension, lengths, numbers of elements, whether each is contiguous, and their shape.
fn cat(signature: &Signature, vectorized: Option<()>) -> Option<Work> {
    let arguments = template_arguments(signature)?;
    let [moved, index, n_dims, batch, strides, rest @ ..] = arguments.as_slice() else {
        return None;
    };
    let (len, n_dims) = (moved_len(moved)?, n_dims.parse::<usize>().ok()?);
    let (batch, n_shapes) = (batch.parse::<usize>().ok()?, strides.parse::<usize>().ok()?);
    // Vectors are as long as the alignment; they hold so many elements.
    let unit = match (vectorized, rest) {
        (None, _) => Some((len, 1)),
        (Some(()), [alignment, elements]) => {
            Some((alignment.parse().ok()?, elements.parse::<u64>().ok()?))
        }
        _ => None,
    };
    let (unit, per_unit) = unit?;
    if *index != "unsigned int" || !(1..=4).contains(&n_dims) {
        return None;
    }
    let is_vectorized = vectorized.is_some();
    let is_contiguous = is_vectorized || signature.function() != "CatArrayBatchedCopy";
    Some(Box::new(move |launch, access| {
        let inputs = launch.argument(1)?;
        let n_inputs = launch.grid[1] as usize;
        if !(1..=batch).contains(&n_inputs) {
            return None;
        }
        let lists = inputs.from(batch * 8);
        let number = |list: usize, input: usize| u64::from(lists.u32((list * batch + input) * 4));
        let flags = lists.from(3 * batch * 4);
        let input_shapes = flags.from(batch.next_multiple_of(4));
        let shape = Shape {
            argument: launch.argument(2)?,
            n_dims,
        };
        let (dim, dim_stride) = (
            launch.count(3, "int")?,
            u64::from(launch.argument(4)?.u32(0)),
        );
        let output = launch.address(0)?;
        let mut is_any_known = false;
        for input in 0..n_inputs {
            let address = inputs.u64(input * 8);
            let count = (number(2, input) / per_unit) as usize;
            if count > MAX_ELEMENTS {
                return None;
            }
            let scale = |value: u64| {
                if is_vectorized {
                    value * dim_stride / per_unit
                } else {
                    value
                }
            };
            let (place, dim_len) = (number(0, input), scale(number(1, input)));
            let start = if is_vectorized {
                scale(place)
            } else {
                place * dim_stride
            };
            let is_whole = is_contiguous || flags.u8(input) != 0;
            let bytes = if is_whole {
                access.bytes(address, count * unit)
            } else {
                let own = if n_shapes > 1 { input } else { 0 };
                let own = Shape {
                    argument: input_shapes.from(own * 32),
                    n_dims,
                };
                let offsets: Option<Vec<i64>> = (0..count)
                    .map(|index| Some(own.offset(dim, dim_len, index)? * unit as i64))
                    .collect();
                access.gather(address, &offsets?, unit)
            };
            let place_of =
                |index| Some((shape.offset(dim, dim_len, index)? + start as i64) * unit as i64);
            if let Some(bytes) = bytes {
                let offsets: Option<Vec<i64>> = (0..count).map(place_of).collect();
                write_part(access, output, &offsets?, unit, &bytes)?;
                is_any_known |= count > 0;
                continue;
            }
            access.leave_rest_unknown();
            if is_whole && let Some(pieces) = access.pieces(address, count, unit) {
                let pieces = pieces.into_iter().enumerate();
                let known = pieces.filter_map(|(index, piece)| Some((place_of(index)?, piece?)));
                let (offsets, bytes): (Vec<i64>, Vec<Vec<u8>>) = known.unzip();
                write_part(access, output, &offsets, unit, &bytes.concat())?;
                is_any_known |= !offsets.is_empty();
            }
        }
        is_any_known.then_some(())
    }))
}

/// Writes pieces that lie in runs, without the bytes between them.
fn write_part(
    access: &mut Access,
    output: u64,
    offsets: &[i64],
    unit: usize,
    bytes: &[u8],
) -> Option<()> {
    let mut from = 0;
    for at in 1..=offsets.len() {
        let continues = at < offsets.len() && offsets[at] == offsets[at - 1] + unit as i64;
        if !continues {
            let piece = bytes.get(from * unit..at * unit)?.to_vec();
            access.write(output.checked_add_signed(offsets[from])?, piece)?;
            from = at;
        }
    }
    Some(())
}

/// `(input, output, n, length, start, size, stride, ...)`.
fn roll(types: &[String]) -> Option<Work> {
    let [input, _, count, ..] = types else {
        return None;
    };
    if types.len() < 7 || types[2..7].iter().any(|text| text != "long") {
        return None;
    }
    let (len, count) = (moved_len(pointee_name(input)?)?, count.clone());
    Some(Box::new(move |launch, access| {
        let n = launch.count(2, &count).filter(|n| *n <= MAX_ELEMENTS)?;
        let number = |index: usize| launch.number(index, "long");
        let (start, size, stride) = (number(4)?, number(5)?, number(6)?);
        if size <= 0 || stride <= 0 {
            return None;
        }
        let bytes = access.bytes(launch.address(0)?, n * len)?;
        let mut rolled = Vec::with_capacity(bytes.len());
        for index in 0..n as i64 {
            let at = index % (stride * size) / stride;
            let source = if at >= size - start {
                index - (size - start) * stride
            } else {
                index + start * stride
            };
            let at = usize::try_from(source).ok()? * len;
            rolled.extend_from_slice(bytes.get(at..at + len)?);
        }
        access.write(launch.address(1)?, rolled)
    }))
}

/// `triu_tril_kernel<T, index, upper, ...>(output, input, diagonal, ...)`.
fn triangle(signature: &Signature) -> Option<Work> {
    let arguments = template_arguments(signature)?;
    let is_upper = match *arguments.get(2)? {
        "true" => true,
        "false" => false,
        _ => return None,
    };
    let [output, _, diagonal, ..] = signature.types() else {
        return None;
    };
    let (element, index_len) = slice_types(output)?;
    let diagonal = diagonal.clone();
    Some(Box::new(move |launch, access| {
        let (to, to_strides) = Strides::tensor_info(launch.argument(0)?, index_len)?;
        let (from, from_strides) = Strides::tensor_info(launch.argument(1)?, index_len)?;
        let diagonal = launch.number(2, &diagonal)?;
        let n = to_strides
            .count()
            .filter(|n| *n > 0 && *n <= MAX_ELEMENTS)?;
        let [columns, rows, ..] = to_strides.sizes[..] else {
            return None;
        };
        if from_strides.sizes != to_strides.sizes {
            return None;
        }
        let in_bytes = |offsets: Vec<i64>| -> Vec<i64> {
            offsets
                .into_iter()
                .map(|offset| offset * element.len() as i64)
                .collect()
        };
        let mut values =
            access.gather_values(element, from, &in_bytes(from_strides.offsets(0, n)))?;
        for (index, value) in values.iter_mut().enumerate() {
            let index = index as i64;
            let above = index % columns - index / columns % rows;
            let is_kept = if is_upper {
                above >= diagonal
            } else {
                above <= diagonal
            };
            if !is_kept {
                *value = element.convert(Value::Int(0));
            }
        }
        access.scatter_values(element, to, &in_bytes(to_strides.offsets(0, n)), &values)
    }))
}

/// `(output, first row, elements of the first row, columns, size of the trapezoid, size)`: all rows, then all columns.
fn triangle_indices(types: &[String]) -> Option<Work> {
    let element = pointee(types.first()?)?;
    if types.len() != 6 || types[1..].iter().any(|text| text != "long") {
        return None;
    }
    Some(Box::new(move |launch, access| {
        let number = |index: usize| launch.number(index, "long");
        let (mut row, mut len) = (number(1)?, number(2)?);
        let (columns, n) = (number(3)?, launch.count(5, "long")?);
        if n > MAX_ELEMENTS || len < 1 || columns < 1 {
            return None;
        }
        let (mut rows, mut places) = (Vec::with_capacity(n), Vec::with_capacity(n));
        while rows.len() < n {
            for column in 0..len.min(columns) {
                rows.push(Value::Int(row));
                places.push(Value::Int(column));
            }
            row += 1;
            len += 1;
        }
        if rows.len() != n {
            return None;
        }
        rows.extend(places);
        access.write_values(element, launch.address(0)?, rows)
    }))
}

/// `(repeats, their running totals, output, n, length of the output)`.
fn repeat(types: &[String]) -> Option<Work> {
    let [repeats, totals, output, count, len] = types else {
        return None;
    };
    let (repeats, totals, output) = (pointee(repeats)?, pointee(totals)?, pointee(output)?);
    let (count, len) = (count.clone(), len.clone());
    Some(Box::new(move |launch, access| {
        let n = launch.count(3, &count)?;
        let len = launch.count(4, &len).filter(|len| *len <= MAX_ELEMENTS)?;
        let repeats = access.values(repeats, launch.address(0)?, n)?;
        let totals = access.values(totals, launch.address(1)?, n)?;
        let mut indices = Vec::with_capacity(len);
        for (index, (times, total)) in repeats.into_iter().zip(totals).enumerate() {
            let times = usize::try_from(times.as_i64()).ok()?;
            indices.extend(std::iter::repeat_n(Value::Int(index as i64), times));
            if indices.len() as i64 != total.as_i64() {
                return None;
            }
        }
        (indices.len() == len).then_some(())?;
        access.write_values(output, launch.address(2)?, indices)
    }))
}

/// `(n, sorted input, output)`: whether each differs from the one before.
fn differences(types: &[String]) -> Option<Work> {
    let [count, input, output] = types else {
        return None;
    };
    let (count, input, output) = (count.clone(), Iterator::of(input)?, pointee(output)?);
    Some(Box::new(move |launch: &Launch, access: &mut Access| {
        let n = launch.count(0, &count)?;
        let values = input.values(launch.argument(1)?, n, access)?;
        let first = values.first().map(|_| Value::Int(0));
        let rest = values
            .windows(2)
            .map(|pair| Value::truth(pair[0] != pair[1]));
        access.write_values(output, launch.address(2)?, first.into_iter().chain(rest))
    }))
}

/// `(n, input, places, output)`: each element goes to its place.
fn inverse(types: &[String]) -> Option<Work> {
    let [count, input, places, output] = types else {
        return None;
    };
    let (count, input, places, output) = (
        count.clone(),
        pointee(input)?,
        pointee(places)?,
        pointee(output)?,
    );
    Some(Box::new(move |launch, access| {
        let n = launch.count(0, &count)?;
        let values = access.values(input, launch.address(1)?, n)?;
        let places = access.values(places, launch.address(2)?, n)?;
        let len = output.len() as i64;
        let offsets: Vec<i64> = places
            .into_iter()
            .map(|place| place.as_i64() * len)
            .collect();
        access.scatter_values(output, launch.address(3)?, &offsets, &values)
    }))
}

/// `write_indices<index>(places, sizes, dimensions, n[, ...])`: flat places become one row for each dimension.
fn coordinates(signature: &Signature) -> Option<Work> {
    let [places, _, n_dims, count, rest @ ..] = signature.types() else {
        return None;
    };
    let size = Element::named(template_arguments(signature)?.first()?)?;
    if pointee(places)? != Element::I64 || n_dims != "int" {
        return None;
    }
    let (count, takes_total) = (count.clone(), !rest.is_empty());
    Some(Box::new(move |launch, access| {
        // With a total there may be fewer places than there is room for.
        if takes_total && launch.address(4)? != 0 {
            return None;
        }
        let (n_dims, n) = (launch.count(2, "int")?, launch.count(3, &count)?);
        if n_dims > 25 || n.checked_mul(n_dims)? > MAX_ELEMENTS {
            return None;
        }
        let sizes = launch.argument(1)?;
        let mut flat = access.values(Element::I64, launch.address(0)?, n)?;
        let mut rows = vec![Vec::new(); n_dims];
        for dim in (0..n_dims).rev() {
            let len = size
                .read(&sizes.bytes(dim * size.len(), size.len()))?
                .as_i64();
            for place in &mut flat {
                let at = place.as_i64();
                rows[dim].push(Value::Int(at.checked_rem(len)?));
                *place = Value::Int(at / len);
            }
        }
        access.write_values(Element::I64, launch.address(0)?, rows.concat())
    }))
}
