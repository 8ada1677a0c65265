//! What a graph of operations asks of the device, read off its descriptors.
//!
//! Arithmetic is counted of convolutions, products and attention; of everything else only the tensors that come and go.
//! A mask is not looked at: attention that leaves out half of its scores is counted whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::backend::{Node, Value};
use super::workspace::{Convolution, Operand, format};
use crate::clock::{Cost, Format};

/// Numbers of attributes.
mod attribute {
    pub(super) const DIMENSIONS: i32 = 902;
    pub(super) const ID: i32 = 906;
    pub(super) const IS_VIRTUAL: i32 = 907;
    pub(super) const PRODUCT: [i32; 3] = [1520, 1521, 1522];
    /// Query, key and output.
    pub(super) const ATTENTION: [i32; 3] = [2800, 2801, 2803];
    /// Gradients of query, key and value.
    pub(super) const ATTENTION_BACKWARD: [i32; 3] = [2859, 2860, 2861];
}

/// Multiply-adds of an operation, and the tensor whose type decides how fast they are.
fn multiply_adds(operation: &Node) -> Option<(u64, &Node)> {
    if let Some(convolution) = Convolution::of(operation) {
        let tensor = [704, 710, 716]
            .iter()
            .find_map(|image| first(operation, *image))?;
        return Some((convolution.cost(Format::Rounded).operations / 2, tensor));
    }
    let three = |attributes: [i32; 3]| -> Option<[&Node; 3]> {
        let [a, b, c] = attributes.map(|attribute| first(operation, attribute));
        Some([a?, b?, c?])
    };
    if let Some([a, _, c]) = three(attribute::PRODUCT) {
        return Some((elements(c).saturating_mul(size(a, 0)), a));
    }
    if let Some([query, key, output]) = three(attribute::ATTENTION) {
        let columns = elements(query).saturating_add(elements(output));
        return Some((columns.saturating_mul(size(key, 1)), query));
    }
    let [query, key, value] = three(attribute::ATTENTION_BACKWARD)?;
    let output = (elements(query) / size(query, 0).max(1)).saturating_mul(size(value, 0));
    let columns = elements(query)
        .saturating_mul(3)
        .saturating_add(output.saturating_mul(2));
    Some((columns.saturating_mul(size(key, 1)), query))
}

fn first(operation: &Node, attribute: i32) -> Option<&Node> {
    operation.nodes(attribute).first().map(AsRef::as_ref)
}

/// The size of a tensor in a dimension, counted from the last.
fn size(tensor: &Node, from_last: usize) -> u64 {
    let sizes = tensor.numbers(attribute::DIMENSIONS);
    sizes.iter().rev().nth(from_last).copied().unwrap_or(0)
}

fn elements(tensor: &Node) -> u64 {
    Operand::of(tensor).elements
}

fn is_virtual(tensor: &Node) -> bool {
    match tensor.attributes.get(&attribute::IS_VIRTUAL) {
        Some(Value::Bytes { bytes, .. }) => bytes.first().is_some_and(|byte| *byte != 0),
        _ => false,
    }
}

/// What operations ask of the device together.
pub(super) fn cost(operations: &[Arc<Node>]) -> Cost {
    let mut tensors = BTreeMap::new();
    let mut cost = Cost {
        bytes: 0,
        operations: 0,
        format: Format::Single,
    };
    for operation in operations {
        for value in operation.attributes.values() {
            let Value::Nodes(nodes) = value else { continue };
            for tensor in nodes.iter().filter(|tensor| !is_virtual(tensor)) {
                if let Some(id) = tensor.numbers(attribute::ID).first() {
                    tensors.insert(*id, Operand::of(tensor).bytes());
                }
            }
        }
        if let Some((multiply_adds, tensor)) = multiply_adds(operation) {
            if cost.operations == 0 {
                cost.format = format(Operand::of(tensor).data_type, Format::Rounded);
            }
            cost.operations = cost
                .operations
                .saturating_add(multiply_adds.saturating_mul(2));
        }
    }
    cost.bytes = tensors.into_values().fold(0, u64::saturating_add);
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(of: i32, bytes: &[u8]) -> Value {
        Value::Bytes {
            of,
            bytes: bytes.to_vec(),
        }
    }

    /// A tensor of half precision, or a virtual one of single precision.
    fn tensor(id: i64, sizes: &[i64], is_virtual: bool) -> Value {
        let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_ne_bytes()).collect();
        let data_type = if is_virtual { 0 } else { 2i32 };
        let node = Node {
            attributes: [
                (901, bytes(1, &data_type.to_ne_bytes())),
                (902, bytes(3, &sizes)),
                (906, bytes(3, &id.to_ne_bytes())),
                (907, bytes(2, &[u8::from(is_virtual)])),
            ]
            .into(),
            ..Node::default()
        };
        Value::Nodes(vec![Arc::new(node)])
    }

    fn check(operations: &[(i32, &[(i32, Value)])], bytes: u64, counted: u64, format: Format) {
        let nodes: Vec<Arc<Node>> = operations
            .iter()
            .map(|(kind, attributes)| {
                Arc::new(Node {
                    kind: *kind,
                    attributes: attributes.iter().cloned().collect(),
                    ..Node::default()
                })
            })
            .collect();
        let expected = Cost {
            bytes,
            operations: counted,
            format,
        };
        assert_eq!(cost(&nodes), expected);
    }

    #[test]
    fn arithmetic_is_that_of_the_shapes() {
        // Images of 16 channels, 32 filters of 3 by 3.
        let filter = (703, tensor(1, &[32, 16, 3, 3], false));
        let image = (704, tensor(2, &[4, 16, 8, 8], false));
        let output = (705, tensor(3, &[4, 32, 8, 8], false));
        let convolution: &[(i32, Value)] = &[filter, image, output];
        let sizes = 2 * (32 * 16 * 9 + 4 * 16 * 64 + 4 * 32 * 64);
        check(
            &[(10, convolution)],
            sizes,
            2 * 4 * 32 * 64 * 16 * 9,
            Format::Half,
        );

        // Attention as two products with a tensor between them that is never stored.
        let [query, key] = [1, 2].map(|id| tensor(id, &[2, 8, 128, 64], false));
        let turned = tensor(2, &[2, 8, 64, 128], false);
        let scores = tensor(3, &[2, 8, 128, 128], true);
        let out = tensor(4, &[2, 8, 128, 64], false);
        let first: &[(i32, Value)] = &[
            (1520, query.clone()),
            (1521, turned),
            (1522, scores.clone()),
        ];
        let second: &[(i32, Value)] = &[(1520, scores), (1521, key.clone()), (1522, out.clone())];
        let stored = 2 * 3 * 2 * 8 * 128 * 64;
        let forward = 4 * 2 * 8 * 128 * 128 * 64;
        check(&[(9, first), (9, second)], stored, forward, Format::Half);

        // The same as one operation, and backward.
        let whole: &[(i32, Value)] = &[(2800, query.clone()), (2801, key.clone()), (2803, out)];
        check(&[(40, whole)], stored, forward, Format::Half);
        let value = tensor(5, &[2, 8, 128, 64], false);
        let back: &[(i32, Value)] = &[(2859, query), (2860, key), (2861, value)];
        check(&[(41, back)], stored, forward / 2 * 5, Format::Half);
    }

    #[test]
    fn other_operations_cost_their_tensors() {
        let pointwise: &[(i32, Value)] = &[
            (752, tensor(1, &[10, 10], false)),
            (753, tensor(2, &[10, 10], false)),
        ];
        check(&[(20, pointwise)], 400, 0, Format::Single);
    }
}
