//! Sums with a number so large that one of ordinary size is lost when the sum is rounded: the sum is known even where
//! the other side is not. Scores that must not be chosen are marked so.

use super::super::element::{Element, Value};
use super::super::operation::Operation;
use super::access::Access;

/// Nobody's numbers are larger than this, when they are scores, logarithms or activations.
const ORDINARY: f64 = 32.0;

/// Marks stand in tables of candidates. Sums of activations are far larger and far more frequent, and nothing large is
/// looked for in them.
pub(super) const MAX_ELEMENTS: usize = 1 << 12;

/// More pieces than this are not written.
const MAX_RUNS: usize = 1 << 12;

/// From which size on a sum does not depend on an ordinary number.
fn least(element: Element) -> f64 {
    // Neighbors are twice as far from each other as what is rounded away.
    let digits = match element {
        Element::BF16 => 8,
        Element::F16 => 11,
        Element::F32 => 24,
        _ => 53,
    };
    ORDINARY * 2f64.powi(digits)
}

/// The elements of a tensor, each if it is known; empty when none is.
pub(super) fn input(
    access: &mut Access,
    element: Element,
    address: u64,
    count: usize,
) -> Vec<Option<Value>> {
    let pieces = access.pieces(address, count, element.len());
    let value = |piece: Option<Vec<u8>>| element.read(&piece?);
    pieces.unwrap_or_default().into_iter().map(value).collect()
}

/// What is known of the sums; `None` when nothing is.
pub(super) fn sums(
    operation: &Operation,
    functor: &[u8],
    inputs: &[Vec<Option<Value>>],
    count: usize,
) -> Option<Vec<Option<Value>>> {
    let least = least(operation.output);
    let is_large = |value: &Value| value.as_f64().abs() >= least;
    // Most sums have no such number, and are done with here.
    if !inputs.iter().flatten().flatten().any(is_large) {
        return None;
    }
    let sum = |index: usize| {
        let values: Vec<Option<Value>> = inputs
            .iter()
            .map(|input| input.get(index).copied().flatten())
            .collect();
        let of = |unknown: f64| {
            let or_unknown = |value: &Option<Value>| value.unwrap_or(Value::Float(unknown));
            let values: Vec<Value> = values.iter().map(or_unknown).collect();
            operation.apply(functor, &values)
        };
        let result = of(0.0)?;
        let is_known = values.iter().all(Option::is_some);
        (is_known || is_large(&result)).then_some(result)
    };
    Some((0..count).map(sum).collect())
}

/// Writes what is known of a result; the rest is unknown.
pub(super) fn write(
    access: &mut Access,
    element: Element,
    address: u64,
    results: Vec<Option<Value>>,
) -> Option<()> {
    let mut runs: Vec<(i64, Vec<u8>)> = Vec::new();
    for (index, value) in results.into_iter().enumerate() {
        let offset = (index * element.len()) as i64;
        let Some(value) = value else { continue };
        match runs.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as i64 == offset => {
                element.write(value, bytes);
            }
            _ => {
                let mut bytes = Vec::new();
                element.write(value, &mut bytes);
                runs.push((offset, bytes));
            }
        }
    }
    if runs.is_empty() || runs.len() > MAX_RUNS {
        return None;
    }
    access.leave_rest_unknown();
    for (offset, bytes) in runs {
        access.write(address.checked_add_signed(offset)?, bytes)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(functor: &str, inputs: [Option<f64>; 2], expected: Option<f64>) {
        let operation = Operation::of(functor).unwrap();
        let inputs = inputs.map(|value| vec![value.map(Value::Float), Some(Value::Float(-1e30))]);
        let alpha = 1f32.to_ne_bytes();
        let found = sums(&operation, &alpha, &inputs, 1).unwrap();
        assert_eq!(found, [expected.map(Value::Float)], "{functor} {inputs:?}");
    }

    #[test]
    fn a_large_number_alone_decides() {
        let float = "at::native::CUDAFunctor_add<float>";
        check(float, [None, Some(-1e9)], Some(-1e9));
        check(
            float,
            [Some(f64::NEG_INFINITY), None],
            Some(f64::NEG_INFINITY),
        );
        check(float, [None, Some(1e4)], None);
        check(float, [Some(1.0), Some(2.0)], Some(3.0));
        check(float, [None, None], None);
        check(
            "at::native::CUDAFunctor_add<c10::BFloat16>",
            [None, Some(-65536.0)],
            Some(-65536.0),
        );
    }
}
