//! Softmax of short rows: `softmax_warp_forward(output, input, rows, stride, length, mask, ...)`.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::MAX_ELEMENTS;
use super::iterator::pointee;

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    if signature.function() != "softmax_warp_forward" {
        return None;
    }
    let (_, inside) = signature.name().split_once("softmax_warp_forward")?;
    let arguments = split_at_commas(inside.trim().strip_prefix('<')?.strip_suffix('>')?);
    let [_, _, wide, _, is_log, "false", ..] = arguments[..] else {
        return None;
    };
    let (wide, is_log) = (Element::named(wide)?, is_log == "true");
    let [output, input, "int", "int", "int", ..] = &signature
        .types()
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let (output, input) = (pointee(output)?, pointee(input)?);
    Some(Box::new(move |launch, access| {
        let [rows, stride, length] = [2, 3, 4].map(|index| launch.count(index, "int"));
        let (rows, stride, length) = (rows?, stride?, length?);
        if rows * stride > MAX_ELEMENTS || length == 0 || stride != length {
            return None;
        }
        let values = access.values(input, launch.address(1)?, rows * length)?;
        let mut results = Vec::with_capacity(values.len());
        for row in values.chunks_exact(length) {
            let row: Vec<f64> = row.iter().map(|value| value.as_f64()).collect();
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|value| (value - largest).exp()).sum();
            results.extend(row.iter().map(|value| {
                let result = if is_log {
                    value - largest - sum.ln()
                } else {
                    (value - largest).exp() / sum
                };
                wide.convert(Value::Float(result))
            }));
        }
        access.write_values(output, launch.address(0)?, results)
    }))
}
