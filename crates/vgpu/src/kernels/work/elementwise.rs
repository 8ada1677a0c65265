//! Element-wise kernels: one functor over tensors that are contiguous or strided, of the functor's types or of others
//! that are converted on the way.

use super::super::arithmetic::add_scaled;
use super::super::element::{Element, Value};
use super::super::operation::{Operation, enclosing_function};
use super::super::signature::Signature;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::offsets::{Strides, contiguous};
use super::{Work, arguments_of, swamped};

/// How the kernel finds its tensors.
#[derive(Clone, Copy)]
enum Layout {
    /// `kernel(n, functor, addresses)`, one element after the other.
    Contiguous,
    /// The same, with the types in memory in these parameters.
    Converting { load: usize, store: usize },
    /// `kernel(n, lambda)`, whose lambda holds an index calculator, the addresses, and the functor.
    Strided,
    /// The same, with the types in memory after the functor.
    StridedConverting,
}

/// The functor of a lambda in `gpu_kernel_impl<F>(...)` or `gpu_kernel_impl_nocast<F>(...)`.
fn strided_functor(lambda: &str) -> Option<(&str, Layout)> {
    let (rest, layout) = if let Some((_, rest)) = lambda.split_once("gpu_kernel_impl_nocast<") {
        (rest, Layout::Strided)
    } else {
        (
            lambda.split_once("gpu_kernel_impl<")?.1,
            Layout::StridedConverting,
        )
    };
    let mut depth = 0;
    let end = rest.char_indices().find(|(at, c)| {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            // Part of an arrow or of `operator->`, neither of which is in a type that is looked for.
            '>' if rest[..*at].ends_with('-') => {}
            '>' | ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    Some((rest[..end?.0].trim(), layout))
}

/// An element-wise kernel that can be carried out.
pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    let (operation, layout) = match signature.function() {
        "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel" => {
            let [count, functor, _, rest @ ..] = signature.types() else {
                return None;
            };
            let layout = match rest {
                [] => Layout::Contiguous,
                [_, _, load, store]
                    if load.ends_with("LoadWithoutCast") && store.ends_with("StoreWithoutCast") =>
                {
                    Layout::Contiguous
                }
                [_, _, load, store]
                    if load.contains("LoadWithCast<") && store.contains("StoreWithCast<1>") =>
                {
                    Layout::Converting { load: 5, store: 6 }
                }
                _ => return None,
            };
            if count != "int" || !signature.is_contiguous() {
                return None;
            }
            (Operation::of(functor)?, layout)
        }
        "elementwise_kernel" => {
            let [count, lambda] = signature.types() else {
                return None;
            };
            if count != "int" || !lambda.ends_with("::{lambda(int)#1}") {
                return None;
            }
            let (functor, layout) = strided_functor(lambda)?;
            (Operation::of(functor)?, layout)
        }
        _ => return None,
    };
    Some(Box::new(move |launch, access| {
        match carry_out(&operation, layout, launch, access) {
            None if operation.is_float_sum() => sum_in_part(&operation, layout, launch, access),
            outcome => outcome,
        }
    }))
}

/// Where a kernel's functor, addresses and types are.
struct Parts<'a> {
    functor: Argument<'a>,
    addresses: Vec<u64>,
    types: Option<Vec<u8>>,
    strides: Option<Strides>,
}

fn parts<'a>(operation: &Operation, layout: Layout, launch: &'a Launch) -> Option<Parts<'a>> {
    let n_tensors = operation.n_inputs() + 1;
    let addresses = |at: Argument| {
        (0..n_tensors)
            .map(|index| at.u64(index * 8))
            .collect::<Vec<u64>>()
    };
    Some(match layout {
        Layout::Contiguous => Parts {
            functor: launch.argument(1)?,
            addresses: addresses(launch.argument(2)?),
            types: None,
            strides: None,
        },
        Layout::Converting { load, store } => {
            let loaded = launch.argument(load)?;
            let types = std::iter::once(launch.argument(store)?.u8(0))
                .chain((0..operation.n_inputs()).map(|index| loaded.u8(index)));
            Parts {
                functor: launch.argument(1)?,
                addresses: addresses(launch.argument(2)?),
                types: Some(types.collect()),
                strides: None,
            }
        }
        Layout::Strided | Layout::StridedConverting => {
            let lambda = launch.argument(1)?;
            let addresses_at = Strides::calculator_len(n_tensors);
            let (align, len) = operation.functor_layout();
            let functor_at = (addresses_at + n_tensors * 8).next_multiple_of(align);
            let types = matches!(layout, Layout::StridedConverting)
                .then(|| lambda.bytes(functor_at + len, n_tensors));
            Parts {
                functor: lambda.from(functor_at),
                addresses: addresses(lambda.from(addresses_at)),
                types,
                strides: Some(Strides::calculator(lambda, n_tensors)?),
            }
        }
    })
}

fn carry_out(
    operation: &Operation,
    layout: Layout,
    launch: &Launch,
    access: &mut Access,
) -> Option<()> {
    let count = launch.count(0, "int")?;
    if count == 0 || count > MAX_ELEMENTS {
        return None;
    }
    let parts = parts(operation, layout, launch)?;
    if parts
        .strides
        .as_ref()
        .is_some_and(|strides| strides.count() != Some(count))
    {
        return None;
    }
    let (output, inputs) = match &parts.types {
        None => (operation.output, operation.inputs.clone()),
        Some(types) => {
            let mut types = types.iter().map(|number| Element::numbered(*number));
            let output = types.next()??;
            (output, types.collect::<Option<Vec<Element>>>()?)
        }
    };
    let offsets = |tensor: usize, element: Element| match &parts.strides {
        None => contiguous(count, element.len()),
        Some(strides) => strides.offsets(tensor, count),
    };
    let mut sources = Vec::with_capacity(inputs.len());
    for (index, element) in inputs.iter().enumerate() {
        let address = parts.addresses[index + 1];
        let values = match &parts.strides {
            None => access.values(*element, address, count)?,
            Some(_) => access.gather_values(*element, address, &offsets(index + 1, *element))?,
        };
        let wanted = operation.inputs[index];
        sources.push(if wanted == *element {
            values
        } else {
            values
                .into_iter()
                .map(|value| wanted.convert(value))
                .collect()
        });
    }
    let state = parts.functor.bytes(0, operation.functor_len());
    let mut results = Vec::with_capacity(count);
    let mut values = Vec::with_capacity(inputs.len());
    for index in 0..count {
        values.clear();
        values.extend(sources.iter().map(|source| source[index]));
        results.push(operation.apply(&state, &values)?);
    }
    match &parts.strides {
        None => access.write_values(output, parts.addresses[0], results),
        Some(_) => access.scatter_values(output, parts.addresses[0], &offsets(0, output), &results),
    }
}

/// A sum of which not all is known: see [`swamped`](super::swamped). One whose sides differ in shape is left alone: a
/// number for a whole row says nothing of its elements' order.
fn sum_in_part(
    operation: &Operation,
    layout: Layout,
    launch: &Launch,
    access: &mut Access,
) -> Option<()> {
    let count = launch.count(0, "int")?;
    if count > swamped::MAX_ELEMENTS {
        return None;
    }
    let parts = parts(operation, layout, launch)?;
    if parts.types.is_some() || parts.strides.is_some() {
        return None;
    }
    let inputs = operation.inputs.iter().zip(&parts.addresses[1..]);
    let inputs: Vec<Vec<Option<Value>>> = inputs
        .map(|(element, address)| swamped::input(access, *element, *address, count))
        .collect();
    let state = parts.functor.bytes(0, operation.functor_len());
    let results = swamped::sums(operation, &state, &inputs, count)?;
    swamped::write(access, operation.output, parts.addresses[0], results)
}

/// Kernels that compute each element from its index: `elementwise_kernel_with_index(n, lambda, output)`.
pub(super) fn recognize_indexed(signature: &Signature) -> Option<Work> {
    if signature.function() != "elementwise_kernel_with_index" {
        return None;
    }
    let [count_type, lambda, _] = signature.types() else {
        return None;
    };
    let count_type = count_type.clone();
    let function = enclosing_function(lambda)?;
    let is_range = matches!(function, "arange_cuda_out" | "range_cuda_out");
    let element = match function {
        _ if is_range => arguments_of::dispatched(lambda)?,
        // The first dispatch is over whole numbers, the second over floats.
        "linspace_cuda_out" if lambda.contains("::{lambda()#2}::operator()() const::") => {
            arguments_of::dispatched_float(lambda)?
        }
        _ => return None,
    };
    // The type that is accumulated in.
    let wide = match element {
        Element::F16 | Element::BF16 | Element::F32 => Element::F32,
        Element::F64 => Element::F64,
        _ if is_range => Element::I64,
        _ => return None,
    };
    Some(Box::new(move |launch, access| {
        let count = launch.count(0, &count_type)?;
        if count == 0 || count > MAX_ELEMENTS {
            return None;
        }
        let state = launch.argument(1)?;
        let output = launch.address(2)?;
        let number = |index: usize| wide.read(&state.bytes(index * wide.len(), wide.len()));
        if !is_range {
            return linspace(element, count, state, output, access);
        }
        let (start, step) = (number(0)?, number(1)?);
        let values = (0..count).map(|index| {
            let index = wide.convert(Value::Int(index as i64));
            add_scaled(wide, start, step, index)
        });
        access.write_values(element, output, values)
    }))
}

/// The lambda holds start, end, number of steps, step and half of the steps; the second half is counted from the end.
fn linspace(
    element: Element,
    count: usize,
    state: Argument,
    output: u64,
    access: &mut Access,
) -> Option<()> {
    let (len, wide) = (element.len(), element.computing());
    let steps_at = (2 * len).next_multiple_of(8);
    let half_at = (steps_at + 8 + wide.len()).next_multiple_of(8);
    let scalar = |of: Element, at: usize| of.read(&state.bytes(at, of.len()));
    let (start, end) = (scalar(element, 0)?, scalar(element, len)?);
    let step = scalar(wide, steps_at + 8)?;
    let (steps, half) = (state.u64(steps_at) as usize, state.u64(half_at) as usize);
    if steps != count || half != steps / 2 {
        return None;
    }
    let values = (0..count).map(|index| {
        let (from, by) = if index < half {
            (start, index as i64)
        } else {
            (end, -((steps - index - 1) as i64))
        };
        add_scaled(wide, from, step, wide.convert(Value::Int(by)))
    });
    access.write_values(element, output, values)
}
