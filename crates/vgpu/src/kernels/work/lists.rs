//! Kernels over lists of tensors, as optimizers and gradient scalers use them, and the scaler's own kernel.
//!
//! The lists' argument is 4 KiB long, or 32 KiB since some release for CUDA 13, and nothing in the names tells which.
//! Each layout says how many blocks work on which tensor; a layout is believed when all that it says makes sense and what the
//! other says does not.

use super::super::arithmetic::{Binary, Unary};
use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};

/// Elements that one block works on.
const CHUNK: u64 = 65_536;

/// How long the lists are, by their number; how many blocks there can be; bytes of the number of a tensor.
#[derive(Clone, Copy)]
struct Layout {
    lengths: [usize; 5],
    n_blocks: usize,
    tensor_len: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout {
        lengths: [110, 64, 48, 36, 30],
        n_blocks: 320,
        tensor_len: 1,
    },
    Layout {
        lengths: [770, 448, 336, 252, 210],
        n_blocks: 2240,
        tensor_len: 2,
    },
];

/// A tensor of the lists: its address in each of them, and its number of elements.
struct Entry {
    addresses: Vec<u64>,
    count: usize,
}

impl Layout {
    /// The tensors that are worked on; `None` when it cannot be this layout, or some are large.
    fn entries(
        self,
        lists: Argument,
        n_lists: usize,
        launch: &Launch,
        access: &Access,
    ) -> Option<Vec<Entry>> {
        let length = *self.lengths.get(n_lists.checked_sub(1)?)?;
        let n_blocks = launch.grid[0] as usize;
        if n_blocks == 0 || n_blocks > self.n_blocks {
            return None;
        }
        let counts_at = n_lists * length * 8;
        let tensors_at = counts_at + length * 8;
        let chunks_at = (tensors_at + self.n_blocks * self.tensor_len).next_multiple_of(4);
        // An argument that would leave the stack is a shorter one.
        if !lists.reaches(chunks_at + self.n_blocks * 4) {
            return None;
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut total = 0;
        for block in 0..n_blocks {
            let at = tensors_at + block * self.tensor_len;
            let tensor = match self.tensor_len {
                1 => usize::from(lists.u8(at)),
                _ => usize::from(lists.u8(at)) | usize::from(lists.u8(at + 1)) << 8,
            };
            // Small tensors are one chunk each, so they come one after the other.
            if tensor != block || lists.i32(chunks_at + block * 4) != 0 || tensor >= length {
                return None;
            }
            let count = lists.u64(counts_at + tensor * 8);
            let addresses: Vec<u64> = (0..n_lists)
                .map(|list| lists.u64((list * length + tensor) * 8))
                .collect();
            let is_memory = addresses.iter().all(|address| access.is_memory(*address));
            if count == 0 || count > CHUNK || !is_memory {
                return None;
            }
            total += count as usize;
            entries.push(Entry {
                addresses,
                count: count as usize,
            });
        }
        (total <= MAX_ELEMENTS).then_some(entries)
    }
}

fn entries(launch: &Launch, n_lists: usize, access: &Access) -> Option<Vec<Entry>> {
    let lists = launch.argument(0)?;
    let [old, new] = LAYOUTS.map(|layout| layout.entries(lists, n_lists, launch, access));
    match (old, new) {
        (Some(entries), None) | (None, Some(entries)) => Some(entries),
        _ => None,
    }
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
    let (_, n_lists) = lists.split_once("TensorListMetadata<")?;
    let n_lists: usize = n_lists.strip_suffix('>')?.trim().parse().ok()?;
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
            for entry in entries(launch, n_lists, access)? {
                let mut columns = Vec::with_capacity(n_lists);
                for (list, address) in entry.addresses.iter().enumerate() {
                    // A list that is only written may hold anything.
                    let is_read = list != result || n_lists == 1 || result == 0;
                    columns.push(if is_read {
                        access.values(element, *address, entry.count)?
                    } else {
                        vec![Value::Int(0); entry.count]
                    });
                }
                let results: Option<Vec<Value>> = (0..entry.count)
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
            for entry in entries(launch, n_lists, access)? {
                access.write(entry.addresses[0], vec![0; entry.count * element.len()])?;
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
