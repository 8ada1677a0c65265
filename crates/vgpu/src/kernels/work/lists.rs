//! Kernels over lists of tensors, as optimizers and gradient scalers use them, and the scaler's own kernel.

use super::super::arithmetic::{Binary, Unary};
use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::super::tensor_lists::{Beside, CHUNK, Entry, TensorLists};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::Launch;

/// The tensors that are worked on; `None` when that cannot be told, or some are large.
fn entries(launch: &Launch, lists: TensorLists, access: &Access) -> Option<Vec<Entry>> {
    let n_blocks = launch.grid[0] as usize;
    let entries = launch.argument(0)?.tensor_lists(lists, n_blocks, access)?;
    let is_small = entries.iter().all(|entry| entry.n_elements <= CHUNK);
    let total: usize = entries.iter().map(Entry::count).sum();
    (is_small && total <= MAX_ELEMENTS).then_some(entries)
}

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    match signature.function() {
        "multi_tensor_apply_kernel" => apply(signature.types()),
        "amp_update_scale_cuda_kernel" => update_scale(signature.types()),
        _ => None,
    }
}

/// `Name<a, b>`: the name without scopes, and the arguments.
fn template(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, inside) = text.split_once('<')?;
    let name = name.rsplit("::").next()?;
    Some((name, split_at_commas(inside.trim_end().strip_suffix('>')?)))
}

/// The function of two values, by the C++ type of its functor.
fn binary(cpp_type: &str) -> Option<Binary> {
    let (name, _) = template(cpp_type)?;
    Some(match name {
        "plus" => Binary::Add,
        "minus" => Binary::Subtract,
        "multiplies" => Binary::Multiply,
        "divides" => Binary::Divide,
        "maximum" => Binary::Maximum,
        "minimum" => Binary::Minimum,
        "power_functor" => Binary::Power,
        _ => return None,
    })
}

fn unary(cpp_type: &str) -> Option<Unary> {
    let (name, _) = template(cpp_type)?;
    Some(match name {
        "Copy" | "Identity" => Unary::Identity,
        "Sqrt" => Unary::SquareRoot,
        "Abs" => Unary::Absolute,
        "Exp" => Unary::Exp,
        "Log" => Unary::Log,
        "Round" => Unary::Round,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        "Trunc" => Unary::Truncate,
        "Reciprocal" => Unary::Reciprocal,
        _ => return None,
    })
}

/// `multi_tensor_apply_kernel(lists, functor, arguments...)`.
#[expect(clippy::too_many_lines, reason = "a table: one arm for each functor")]
fn apply(types: &[String]) -> Option<Work> {
    let [lists, functor, rest @ ..] = types else {
        return None;
    };
    let lists = TensorLists::of(lists).filter(|lists| lists.beside == Beside::Nothing)?;
    let n_lists = lists.n_lists;
    let (name, arguments) = template(functor)?;
    let element = Element::named(arguments.first()?)?;
    let wide = element.computing();
    // The list that the result is written to is the last number of the functor's type.
    let result: usize = arguments
        .last()?
        .parse()
        .ok()
        .filter(|list| *list < n_lists)?;
    let rest: Vec<&str> = rest
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let each =
        move |launch: &Launch, access: &mut Access, compute: &dyn Fn(&[Value]) -> Option<Value>| {
            for entry in entries(launch, lists, access)? {
                let mut columns = Vec::with_capacity(n_lists);
                for (list, address) in entry.addresses.iter().enumerate() {
                    // A list that is only written may hold anything.
                    let is_read = list != result || n_lists == 1 || result == 0;
                    columns.push(if is_read {
                        access.values(element, *address, entry.count())?
                    } else {
                        vec![Value::Int(0); entry.count()]
                    });
                }
                let results: Option<Vec<Value>> = (0..entry.count())
                    .map(|index| {
                        let row: Vec<Value> = columns.iter().map(|column| column[index]).collect();
                        compute(&row)
                    })
                    .collect();
                access.write_values(element, entry.addresses[result], results?)?;
            }
            Some(())
        };
    let scalar = move |launch: &Launch, index: usize| {
        wide.read(&launch.argument(index)?.bytes(0, wide.len()))
    };
    let work: Work = match (name, rest.as_slice()) {
        ("ZeroFunctor", []) => Box::new(move |launch, access| {
            for entry in entries(launch, lists, access)? {
                access.write(entry.addresses[0], vec![0; entry.count() * element.len()])?;
            }
            Some(())
        }),
        ("BinaryOpScalarFunctor", [operation, _]) => {
            let operation = binary(operation)?;
            Box::new(move |launch, access| {
                let scalar = scalar(launch, 3)?;
                each(launch, access, &|row| operation.apply(wide, row[0], scalar))
            })
        }
        ("BinaryOpScalarTensorFunctor", [operation, _, _]) => {
            let operation = binary(operation)?;
            Box::new(move |launch, access| {
                let held = access.value(element, launch.address(3)?)?;
                let by = Binary::Multiply.apply(wide, scalar(launch, 4)?, held)?;
                each(launch, access, &|row| operation.apply(wide, row[0], by))
            })
        }
        ("BinaryOpListAlphaFunctor", [operation, _]) => {
            let operation = binary(operation)?;
            Box::new(move |launch, access| {
                let alpha = scalar(launch, 3)?;
                each(launch, access, &|row| {
                    let right = Binary::Multiply.apply(wide, alpha, row[1])?;
                    operation.apply(wide, row[0], right)
                })
            })
        }
        ("UnaryOpFunctor", [operation]) if operation.contains("_amp_foreach_non_finite_check") => {
            // The lambda holds where to say that something is not finite, and where the inverse of the scale is.
            Box::new(move |launch, access| {
                let held = launch.argument(2)?;
                let (found, inverse) = (held.u64(0), held.u64(8));
                let inverse = access.value(Element::F32, inverse)?.as_f64();
                let is_finite = std::cell::Cell::new(true);
                each(launch, access, &|row| {
                    let value = row[0].as_f64();
                    is_finite.set(is_finite.get() && value.is_finite());
                    Some(Value::Float(value * inverse))
                })?;
                if is_finite.get() {
                    return Some(());
                }
                access.write_values(Element::F32, found, [Value::Float(1.0)])
            })
        }
        ("UnaryOpFunctor", [operation]) => {
            let operation = unary(operation)?;
            Box::new(move |launch, access| {
                each(launch, access, &|row| operation.apply(wide, row[0]))
            })
        }
        _ => return None,
    };
    Some(work)
}

/// `(scale, successes, whether something was not finite, growth, backoff, interval)`.
fn update_scale(types: &[String]) -> Option<Work> {
    let expected = ["float*", "int*", "float const*", "double", "double", "int"];
    if types != expected {
        return None;
    }
    Some(Box::new(|launch, access| {
        let [scale_at, successes_at, found_at] = [0, 1, 2].map(|index| launch.address(index));
        let (scale_at, successes_at) = (scale_at?, successes_at?);
        let scale = access.value(Element::F32, scale_at)?.as_f64();
        let successes = access.value(Element::I32, successes_at)?.as_i64();
        let factor = |index: usize| Element::F64.read(&launch.argument(index)?.bytes(0, 8));
        let found = access.value(Element::F32, found_at?)?.is_true();
        let scaled = |factor: f64| Element::F32.convert(Value::Float(scale * factor));
        let (scale, successes) = if found {
            (Some(scaled(factor(4)?.as_f64())), 0)
        } else if successes + 1 == launch.number(5, "int")? {
            let grown = scaled(factor(3)?.as_f64());
            (grown.as_f64().is_finite().then_some(grown), 0)
        } else {
            (None, successes + 1)
        };
        if let Some(scale) = scale {
            access.write_values(Element::F32, scale_at, [scale])?;
        }
        access.write_values(Element::I32, successes_at, [Value::Int(successes)])
    }))
}
