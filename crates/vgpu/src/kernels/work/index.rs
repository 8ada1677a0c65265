//! Indexing: gather and scatter, `index`, `index_put`, `take`, selection of rows, masks that scatter.
//!
//! Kernels with a lambda hold an index calculator in front, and then what the lambda captured in the order of its
//! first use. Elements are moved as bytes where the kernel does no arithmetic. Where several indices are the same, the
//! last one stays, as on a CPU; a GPU may keep any.

use std::collections::BTreeMap;

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::iterator::pointee;
use super::offsets::Strides;

/// The bytes of an element that is moved: `at::native::OpaqueType<8>`, or a real type.
pub(super) fn moved_len(cpp_type: &str) -> Option<usize> {
    let plain = cpp_type.trim().trim_end_matches(" const");
    if let Some((_, len)) = plain.split_once("OpaqueType<") {
        let len = len.trim_end_matches('>').trim();
        return len
            .rsplit(')')
            .next()?
            .trim()
            .trim_end_matches('u')
            .parse()
            .ok();
    }
    match plain {
        "c10::complex<float>" => Some(8),
        "c10::complex<double>" => Some(16),
        _ if plain.starts_with("c10::Float8_") => Some(1),
        _ => Element::named(plain).map(Element::len),
    }
}

/// The template arguments that follow this name.
fn arguments_after<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.strip_prefix('<')?;
    let mut depth = 0;
    let end = rest.char_indices().find(|(_, c)| {
        match c {
            '<' | '(' | '{' => depth += 1,
            '>' | ')' | '}' => depth -= 1,
            _ => {}
        }
        depth < 0
    })?;
    Some(split_at_commas(&rest[..end.0]))
}

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    let types = signature.types();
    match signature.function() {
        "index_elementwise_kernel" => with_lambda(types),
        "_scatter_gather_elementwise_kernel" => scatter_gather(types),
        "indexSelectSmallIndex" => select(signature, None),
        "indexSelectLargeIndex" => select(signature, Some(())),
        "indexFuncSmallIndex" if signature.name().contains("ReduceAdd>") => add_rows(types),
        "vectorized_gather_kernel" => gather_rows(signature),
        "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel" => masked_scatter(types),
        "indexing_backward_kernel"
        | "indexing_backward_kernel_stride_1"
        | "indexing_backward_kernel_small_stride" => accumulate(types),
        _ => None,
    }
}

/// An index that may count from the end.
fn wrapped(index: i64, len: i64) -> Option<i64> {
    let index = if index < 0 { index + len } else { index };
    (0..len).contains(&index).then_some(index)
}

/// What an index calculator is followed by, and how many elements there are.
struct Lambda<'a> {
    strides: Strides,
    captured: Argument<'a>,
    count: usize,
}

impl<'a> Lambda<'a> {
    fn of(launch: &'a Launch, count_type: &str, n_tensors: usize) -> Option<Self> {
        let count = launch.count(0, count_type)?;
        let argument = launch.argument(1)?;
        let strides = Strides::calculator(argument, n_tensors)?;
        let fits = count > 0 && count <= MAX_ELEMENTS && strides.count() == Some(count);
        fits.then(|| Self {
            strides,
            captured: argument.from(Strides::calculator_len(n_tensors)),
            count,
        })
    }

    fn word(&self, index: usize) -> u64 {
        self.captured.u64(index * 8)
    }

    fn offsets(&self, tensor: usize) -> Vec<i64> {
        self.strides.offsets(tensor, self.count)
    }

    /// The indices of a tensor.
    fn indices(
        &self,
        access: &mut Access,
        element: Element,
        address: u64,
        tensor: usize,
    ) -> Option<Vec<i64>> {
        let values = access.gather_values(element, address, &self.offsets(tensor))?;
        Some(values.into_iter().map(Value::as_i64).collect())
    }
}

/// `index_elementwise_kernel(n, lambda)`.
fn with_lambda(types: &[String]) -> Option<Work> {
    let [count, lambda] = types else {
        return None;
    };
    if !lambda.ends_with("::{lambda(int)#1}") {
        return None;
    }
    let count = count.clone();
    let moved = |name: &str| moved_len(arguments_after(lambda, name)?.first()?);
    if lambda.contains("gpu_index_kernel<") {
        let (len, puts) = match moved("index_kernel_impl") {
            Some(len) => (len, false),
            None => (moved("index_put_kernel_impl")?, true),
        };
        return Some(Box::new(move |launch, access| {
            index(&Lambda::of(launch, &count, 3)?, access, len, puts)
        }));
    }
    if let Some(len) = moved("index_copy_kernel_impl") {
        // Tensor, indices, source, length and stride of the dimension.
        return Some(Box::new(move |launch, access| {
            let lambda = Lambda::of(launch, &count, 3)?;
            let source = access.gather(lambda.word(2), &lambda.offsets(2), len)?;
            let offsets = rows(&lambda, access, [3, 4], len)?;
            access.scatter(lambda.word(0), &offsets, len, &source)
        }));
    }
    if let Some(len) = moved("index_fill_kernel_impl") {
        // Tensor, indices, length and stride of the dimension, value.
        return Some(Box::new(move |launch, access| {
            let lambda = Lambda::of(launch, &count, 2)?;
            let value = lambda.captured.bytes(4 * 8, len);
            let offsets = rows(&lambda, access, [2, 3], len)?;
            access.scatter(lambda.word(0), &offsets, len, &value.repeat(lambda.count))
        }));
    }
    if let Some(len) = moved("flip_kernel_impl") {
        // Output and input; strides are negative.
        return Some(Box::new(move |launch, access| {
            let lambda = Lambda::of(launch, &count, 2)?;
            let bytes = access.gather(lambda.word(1), &lambda.offsets(1), len)?;
            access.scatter(lambda.word(0), &lambda.offsets(0), len, &bytes)
        }));
    }
    if let Some(arguments) = arguments_after(lambda, "cuda_take_put_kernel") {
        let (len, is_int) = (moved_len(arguments.first()?)?, arguments.get(1)? == &"int");
        let takes = lambda.contains("take_kernel(at::TensorIterator&");
        let puts = lambda.contains("put_kernel(at::TensorIterator&")
            && lambda.contains(", int)#2}")
            && !takes;
        return (is_int && (takes || puts)).then(|| -> Work {
            Box::new(move |launch, access| {
                take_or_put(&Lambda::of(launch, &count, 2)?, access, len, puts)
            })
        });
    }
    None
}

/// Offsets into the first tensor, moved along a dimension by indices; `captured` are the words with the length and the
/// stride of the dimension.
fn rows(
    lambda: &Lambda,
    access: &mut Access,
    captured: [usize; 2],
    len: usize,
) -> Option<Vec<i64>> {
    let [dim_len, dim_stride] = captured.map(|word| lambda.word(word) as i64);
    let indices = lambda.indices(access, Element::I64, lambda.word(1), 1)?;
    let starts = lambda.offsets(0);
    starts
        .iter()
        .zip(indices)
        .map(|(start, index)| Some(start + wrapped(index, dim_len)? * dim_stride * len as i64))
        .collect()
}

/// Output, input, number of indices, and for each its address, the length and the stride of its dimension.
fn index(lambda: &Lambda, access: &mut Access, len: usize, puts: bool) -> Option<()> {
    const MAX_DIMS: usize = 25;
    let (output, input) = (lambda.word(0), lambda.word(1));
    let n_indices = usize::try_from(lambda.word(2)).ok()?;
    if !(1..=MAX_DIMS).contains(&n_indices) {
        return None;
    }
    let mut moved = vec![0i64; lambda.count];
    for which in 0..n_indices {
        let address = lambda.word(3 + which);
        let dim_len = lambda.word(3 + MAX_DIMS + which) as i64;
        let dim_stride = lambda.word(3 + 2 * MAX_DIMS + which) as i64;
        let indices = lambda.indices(access, Element::I64, address, 2)?;
        for (offset, index) in moved.iter_mut().zip(indices) {
            *offset += wrapped(index, dim_len)? * dim_stride;
        }
    }
    let add = |offsets: Vec<i64>| -> Vec<i64> {
        offsets
            .iter()
            .zip(&moved)
            .map(|(offset, by)| offset + by)
            .collect()
    };
    let (mut to, mut from) = (lambda.offsets(0), lambda.offsets(1));
    if puts {
        to = add(to);
    } else {
        from = add(from);
    }
    let bytes = access.gather(input, &from, len)?;
    access.scatter(output, &to, len, &bytes)
}

/// The iterated tensor, indices, number of elements of the indexed one, whether it is contiguous, its index
/// calculator, and its address.
fn take_or_put(lambda: &Lambda, access: &mut Access, len: usize, puts: bool) -> Option<()> {
    let n_indexed = lambda.word(2) as i64;
    let is_contiguous = lambda.captured.u8(24) != 0;
    let calculator = lambda.captured.from(28);
    let indexed = Strides::calculator(calculator, 1)?;
    let indexed_at = lambda
        .captured
        .from((28 + 404usize).next_multiple_of(8))
        .u64(0);
    let indices = lambda.indices(access, Element::I64, lambda.word(1), 1)?;
    let offsets: Option<Vec<i64>> = indices
        .into_iter()
        .map(|index| {
            let index = wrapped(index, n_indexed)?;
            let offset = if is_contiguous {
                index
            } else {
                indexed.offset(0, index as usize)
            };
            Some(offset * len as i64)
        })
        .collect();
    let (offsets, iterated) = (offsets?, lambda.offsets(0));
    if puts {
        let bytes = access.gather(lambda.word(0), &iterated, len)?;
        access.scatter(indexed_at, &offsets, len, &bytes)
    } else {
        let bytes = access.gather(indexed_at, &offsets, len)?;
        access.scatter(lambda.word(0), &iterated, len, &bytes)
    }
}

/// What a scatter does with an element that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meeting {
    Assign,
    Add,
    Multiply,
    Largest,
    Smallest,
}

impl Meeting {
    fn of(lambda: &str) -> Option<Self> {
        let (_, rest) = lambda.split_once("::operator()<at::native::")?;
        Some(match rest.split('>').next()? {
            "TensorAssign" => Self::Assign,
            // A mean is divided by the number of its elements afterwards.
            "ReduceAdd" | "ReduceMean" => Self::Add,
            "ReduceMultiply" => Self::Multiply,
            "ReduceMaximum" => Self::Largest,
            "ReduceMinimum" => Self::Smallest,
            _ => return None,
        })
    }

    fn apply(self, element: Element, old: Value, new: Value) -> Option<Value> {
        use super::cub::Combine;
        let combine = match self {
            Self::Assign => return Some(new),
            Self::Add if element == Element::Bool => {
                return Some(Value::truth(old.is_true() || new.is_true()));
            }
            Self::Add => Combine::Sum,
            Self::Multiply => Combine::Product,
            _ if old.is_nan() => return Some(old),
            _ if new.is_nan() => return Some(new),
            Self::Largest => Combine::Largest,
            Self::Smallest => Combine::Smallest,
        };
        combine.apply(element, old, new)
    }
}

/// `_scatter_gather_elementwise_kernel(n, lambda)`.
fn scatter_gather(types: &[String]) -> Option<Work> {
    let [count, lambda] = types else {
        return None;
    };
    if !lambda.ends_with("::{lambda(int)#1}") {
        return None;
    }
    let count = count.clone();
    let meeting = Meeting::of(lambda)?;
    let index_of = |arguments: &[&str], at: usize| match arguments.get(at) {
        None => Some(Element::I64),
        Some(name) => Element::named(name),
    };
    if let Some(arguments) = arguments_after(lambda, "_cuda_scatter_gather_internal_kernel") {
        let [is_scatter, moved, ..] = arguments[..] else {
            return None;
        };
        let kernel = ScatterGather {
            len: moved_len(moved)?,
            element: Element::named(moved),
            index: index_of(&arguments, 2)?,
            meeting,
            is_scatter: is_scatter == "true",
        };
        return kernel.is_known().then(|| -> Work {
            Box::new(move |launch, access| kernel.carry_out(launch, &count, access))
        });
    }
    let arguments = arguments_after(lambda, "_cuda_scatter_fill_internal_kernel")?;
    let kernel = ScatterGather {
        len: moved_len(arguments.first()?)?,
        element: Element::named(arguments.first()?),
        index: index_of(&arguments, 1)?,
        meeting,
        is_scatter: true,
    };
    kernel
        .is_known()
        .then(|| -> Work { Box::new(move |launch, access| kernel.fill(launch, &count, access)) })
}

#[derive(Clone, Copy)]
struct ScatterGather {
    len: usize,
    element: Option<Element>,
    index: Element,
    meeting: Meeting,
    is_scatter: bool,
}

impl ScatterGather {
    fn is_known(self) -> bool {
        let computes = self.meeting != Meeting::Assign;
        !computes || (self.element.is_some() && self.is_scatter)
    }

    /// Indices, length of the dimension, the functor, the tensor, stride of the dimension, number of elements, source.
    fn carry_out(self, launch: &Launch, count: &str, access: &mut Access) -> Option<()> {
        let lambda = Lambda::of(launch, count, 3)?;
        let (to, from, moved) = (
            lambda.offsets(0),
            lambda.offsets(1),
            self.moves(&lambda, access, 2)?,
        );
        let (tensor, source) = (lambda.word(3), lambda.word(6));
        let add = |offsets: &[i64]| -> Vec<i64> {
            offsets
                .iter()
                .zip(&moved)
                .map(|(offset, by)| offset + by)
                .collect()
        };
        if self.is_scatter {
            let bytes = access.gather(source, &from, self.len)?;
            self.scatter(access, tensor, &add(&to), &bytes)
        } else {
            let bytes = access.gather(source, &add(&from), self.len)?;
            access.scatter(tensor, &to, self.len, &bytes)
        }
    }

    /// The same with a value in place of the source.
    fn fill(self, launch: &Launch, count: &str, access: &mut Access) -> Option<()> {
        let lambda = Lambda::of(launch, count, 2)?;
        let moved = self.moves(&lambda, access, 1)?;
        let to: Vec<i64> = lambda
            .offsets(0)
            .iter()
            .zip(&moved)
            .map(|(at, by)| at + by)
            .collect();
        let value = lambda.captured.bytes(6 * 8, self.len);
        self.scatter(access, lambda.word(3), &to, &value.repeat(lambda.count))
    }

    /// How far the indices move along the dimension, in bytes.
    fn moves(self, lambda: &Lambda, access: &mut Access, tensor: usize) -> Option<Vec<i64>> {
        let (dim_len, dim_stride) = (lambda.word(1) as i64, lambda.word(4) as i64);
        let indices = lambda.indices(access, self.index, lambda.word(0), tensor)?;
        indices
            .into_iter()
            .map(|index| {
                let is_inside = (0..dim_len).contains(&index);
                is_inside.then_some(index * dim_stride * self.len as i64)
            })
            .collect()
    }

    fn scatter(
        self,
        access: &mut Access,
        tensor: u64,
        offsets: &[i64],
        bytes: &[u8],
    ) -> Option<()> {
        if self.meeting == Meeting::Assign {
            return access.scatter(tensor, offsets, self.len, bytes);
        }
        let element = self.element?;
        let sources = offsets.iter().copied().zip(element.read_all(bytes));
        combine(access, element, tensor, sources, |old, new| {
            self.meeting.apply(element, old, new)
        })
    }
}

/// Combines values with those at these offsets of a tensor, one after the other.
fn combine(
    access: &mut Access,
    element: Element,
    tensor: u64,
    sources: impl Iterator<Item = (i64, Value)>,
    apply: impl Fn(Value, Value) -> Option<Value>,
) -> Option<()> {
    let sources: Vec<(i64, Value)> = sources.collect();
    let mut places: Vec<i64> = sources.iter().map(|(offset, _)| *offset).collect();
    places.sort_unstable();
    places.dedup();
    let old = access.gather_values(element, tensor, &places)?;
    let mut totals: BTreeMap<i64, Value> = places.into_iter().zip(old).collect();
    for (offset, value) in sources {
        let total = totals.get_mut(&offset)?;
        *total = apply(*total, value)?;
    }
    let (offsets, values): (Vec<i64>, Vec<Value>) = totals.into_iter().unzip();
    access.scatter_values(element, tensor, &offsets, &values)
}

/// The length of the moved element and the size of the index of `TensorInfo<T, index>`.
fn info_types(cpp_type: &str) -> Option<(usize, usize)> {
    let (_, inside) = cpp_type.split_once("TensorInfo<")?;
    let [moved, index] = split_at_commas(inside.strip_suffix('>')?)[..] else {
        return None;
    };
    Some((moved_len(moved)?, Element::named(index)?.len()))
}

/// `indexSelect...(output, input, indices, dimension, dimension, [total,] inner, ...)`.
fn select(signature: &Signature, large: Option<()>) -> Option<Work> {
    let types = signature.types();
    let [output, input, indices, to_dim, from_dim, rest @ ..] = types else {
        return None;
    };
    let ((len, to_index), (from_len, from_index)) = (info_types(output)?, info_types(input)?);
    let (_, inside) = indices.split_once("TensorInfo<")?;
    let index = Element::named(split_at_commas(inside.strip_suffix('>')?).first()?)?;
    let (_, indices_index) = info_types(indices)?;
    if to_dim != "int" || from_dim != "int" || len != from_len {
        return None;
    }
    let is_large = large.is_some();
    let inner_type = rest.get(usize::from(is_large))?.clone();
    Some(Box::new(move |launch, access| {
        let (to, to_strides) = Strides::tensor_info(launch.argument(0)?, to_index)?;
        let (from, from_strides) = Strides::tensor_info(launch.argument(1)?, from_index)?;
        let (at, index_strides) = Strides::tensor_info(launch.argument(2)?, indices_index)?;
        let stride_of = |strides: &Strides, dim: usize| {
            let from_last = strides.sizes.len().checked_sub(dim + 1)?;
            strides.strides[0].get(from_last).copied()
        };
        let to_stride = stride_of(&to_strides, launch.count(3, "int")?)?;
        let from_stride = stride_of(&from_strides, launch.count(4, "int")?)?;
        let n_indices = index_strides.count()?;
        // A slice is what is left of the output without the dimension.
        let inner = if is_large {
            to_strides.count()?
        } else {
            launch.count(5, &inner_type)?
        };
        let total = n_indices.checked_mul(inner)?;
        if total == 0 || total > MAX_ELEMENTS {
            return None;
        }
        let offsets: Vec<i64> = index_strides
            .offsets(0, n_indices)
            .into_iter()
            .map(|offset| offset * index.len() as i64)
            .collect();
        let indices = access.gather_values(index, at, &offsets)?;
        let (mut sources, mut places) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (row, value) in indices.into_iter().enumerate() {
            let index = value.as_i64();
            for element in 0..inner {
                let place = to_strides.offset(0, element) + row as i64 * to_stride;
                let source = from_strides.offset(0, element) + index * from_stride;
                places.push(place * len as i64);
                sources.push(source * len as i64);
            }
        }
        let bytes = access.gather(from, &sources, len)?;
        access.scatter(to, &places, len, &bytes)
    }))
}

/// `indexFuncSmallIndex(tensor, source, indices, dimension, dimension, inner, ..., functor, alpha)`.
fn add_rows(types: &[String]) -> Option<Work> {
    let [tensor, source, indices, "int", "int", inner, _, _, _, _] =
        types.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let ((len, to_index), (_, from_index)) = (info_types(tensor)?, info_types(source)?);
    let (_, inside) = tensor.split_once("TensorInfo<")?;
    let element = Element::named(inside.split(',').next()?)?;
    let (_, indices_inside) = indices.split_once("TensorInfo<")?;
    let index = Element::named(indices_inside.split(',').next()?)?;
    let ((_, indices_index), inner) = (info_types(indices)?, inner.to_owned());
    Some(Box::new(move |launch, access| {
        let (to, to_strides) = Strides::tensor_info(launch.argument(0)?, to_index)?;
        let (from, from_strides) = Strides::tensor_info(launch.argument(1)?, from_index)?;
        let (at, index_strides) = Strides::tensor_info(launch.argument(2)?, indices_index)?;
        let stride_of = |strides: &Strides, dim: usize| {
            let from_last = strides.sizes.len().checked_sub(dim + 1)?;
            strides.strides[0].get(from_last).copied()
        };
        let to_stride = stride_of(&to_strides, launch.count(3, "int")?)?;
        let from_stride = stride_of(&from_strides, launch.count(4, "int")?)?;
        let (n_indices, inner) = (index_strides.count()?, launch.count(5, &inner)?);
        let alpha = element.read(&launch.argument(9)?.bytes(0, len))?;
        let total = n_indices.checked_mul(inner)?;
        if total == 0 || total > MAX_ELEMENTS || alpha != element.convert(Value::Int(1)) {
            return None;
        }
        let offsets = index_strides.offsets(0, n_indices);
        let offsets: Vec<i64> = offsets
            .iter()
            .map(|offset| offset * index.len() as i64)
            .collect();
        let indices = access.gather_values(index, at, &offsets)?;
        let (mut sources, mut places) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (row, value) in indices.into_iter().enumerate() {
            for column in 0..inner {
                let place = to_strides.offset(0, column) + value.as_i64() * to_stride;
                let source = from_strides.offset(0, column) + row as i64 * from_stride;
                places.push(place * len as i64);
                sources.push(source * len as i64);
            }
        }
        let values = access.gather_values(element, from, &sources)?;
        combine(
            access,
            element,
            to,
            places.into_iter().zip(values),
            |old, new| Meeting::Add.apply(element, old, new),
        )
    }))
}

/// `vectorized_gather_kernel(output, input, indices, count, bytes of a row, rows, stride, stride, ...)`.
fn gather_rows(signature: &Signature) -> Option<Work> {
    let [
        _,
        _,
        indices,
        count,
        row_len,
        n_rows,
        from_stride,
        to_stride,
        ..,
    ] = signature.types()
    else {
        return None;
    };
    let index = pointee(indices)?;
    let numbers = [count, row_len, n_rows, from_stride, to_stride].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (n, row_len) = (launch.count(3, &numbers[0])?, launch.count(4, &numbers[1])?);
        let n_rows = launch.number(5, &numbers[2])?;
        let from_stride = launch.number(6, &numbers[3])?;
        let to_stride = launch.number(7, &numbers[4])?;
        if n.checked_mul(row_len)? > MAX_ELEMENTS * 8 {
            return None;
        }
        let indices = access.values(index, launch.address(2)?, n)?;
        let sources: Option<Vec<i64>> = indices
            .into_iter()
            .map(|value| Some(wrapped(value.as_i64(), n_rows)? * from_stride))
            .collect();
        let bytes = access.gather(launch.address(1)?, &sources?, row_len)?;
        let places: Vec<i64> = (0..n as i64).map(|row| row * to_stride).collect();
        access.scatter(launch.address(0)?, &places, row_len, &bytes)
    }))
}

/// The element-wise kernel whose lambda holds the source, over a tensor, its mask, and where the source's elements go.
fn masked_scatter(types: &[String]) -> Option<Work> {
    let [count, lambda, _, rest @ ..] = types else {
        return None;
    };
    let is_plain = rest
        .iter()
        .all(|text| text.contains("Trivial") || text.contains("WithoutCast"));
    let (function, parameters) = lambda.rsplit_once("::{lambda(")?;
    let parameters = split_at_commas(parameters.split(')').next()?);
    let [moved, "bool", "long"] = parameters[..] else {
        return None;
    };
    if count != "int" || !is_plain || !function.contains("launch_masked_scatter_kernel(") {
        return None;
    }
    let len = moved_len(moved)?;
    Some(Box::new(move |launch, access| {
        let n = launch.count(0, "int").filter(|n| *n <= MAX_ELEMENTS)?;
        let (source, data) = (launch.argument(1)?.u64(0), launch.argument(2)?);
        let mut bytes = access.bytes(data.u64(8), n * len)?;
        let mask = access.values(Element::Bool, data.u64(16), n)?;
        let places = access.values(Element::I64, data.u64(24), n)?;
        for (at, (is_set, place)) in mask.into_iter().zip(places).enumerate() {
            if is_set.is_true() {
                let from = source.checked_add_signed(place.as_i64() * len as i64)?;
                let piece = access.bytes(from, len)?;
                bytes
                    .get_mut(at * len..(at + 1) * len)?
                    .copy_from_slice(&piece);
            }
        }
        access.write(data.u64(0), bytes)
    }))
}

/// `(sorted indices, their places, values, tensor, n, row, rows before, outer, whether to accumulate)`.
fn accumulate(types: &[String]) -> Option<Work> {
    let [_, _, values, tensor, n, row, before, outer, adds] = types else {
        return None;
    };
    let element = pointee(tensor)?;
    if adds != "bool" || pointee(values)? != element {
        return None;
    }
    let numbers = [n, row, before, outer].map(String::clone);
    Some(Box::new(move |launch, access| {
        let (n, row) = (launch.count(4, &numbers[0])?, launch.count(5, &numbers[1])?);
        let (before, outer) = (launch.count(6, &numbers[2])?, launch.count(7, &numbers[3])?);
        let adds = launch.number(8, "bool")? != 0;
        let total = n.checked_mul(row)?.checked_mul(outer)?;
        if total == 0 || total > MAX_ELEMENTS || !adds {
            return None;
        }
        let rows = access.values(Element::I64, launch.address(0)?, n)?;
        let places = access.values(Element::I64, launch.address(1)?, n)?;
        let values = access.values(element, launch.address(2)?, total)?;
        let mut sources = Vec::with_capacity(total);
        for block in 0..outer {
            for (to, from) in rows.iter().zip(&places) {
                for column in 0..row {
                    let from = usize::try_from(from.as_i64()).ok()?;
                    let value = *values.get((block * n + from) * row + column)?;
                    let to = to.as_i64() * row as i64 + (block * before + column) as i64;
                    sources.push((to * element.len() as i64, value));
                }
            }
        }
        // Rows are summed in the type that is computed in, and rounded once.
        let wide = element.computing();
        let mut sums: BTreeMap<i64, Value> = BTreeMap::new();
        for (offset, value) in sources {
            let sum = sums
                .entry(offset)
                .or_insert_with(|| wide.convert(Value::Int(0)));
            *sum = super::cub::Combine::Sum.apply(wide, *sum, value)?;
        }
        combine(
            access,
            element,
            launch.address(3)?,
            sums.into_iter(),
            |old, sum| Meeting::Add.apply(element, old, sum),
        )
    }))
}
