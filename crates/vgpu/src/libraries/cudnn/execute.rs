//! Executing a plan: nothing is computed, but the tensors that its operations write are known by their identifiers.

use std::collections::HashSet;
use std::sync::Arc;

use super::CudnnStatus;
use super::backend::{Node, node};
use super::cost::cost;
use super::engines::{kind, operations, scratch};
use super::handle::timing_of;
use crate::clock::Timing;
use crate::libraries::estimate::in_use;

/// Attributes of operations that are the tensors they write.
///
/// Where an attribute is read in one mode and written in another, such as the mean of a norm, it counts as written.
const WRITTEN: &[std::ops::RangeInclusive<i32>] = &[
    705..=705,   // convolution forward: y
    710..=710,   // backward of the data: dx
    715..=715,   // backward of the filter: dw
    753..=753,   // pointwise: y
    756..=756,   // pointwise backward: dx
    773..=774,   // statistics: sum and sum of squares
    788..=793,   // batch norm finalize: running and saved statistics, scale and bias
    1522..=1522, // product: c
    1611..=1611, // reduction: y
    1626..=1630, // batch norm backward: gradients and equivalents
    1711..=1712, // resample: y and indices
    1720..=1720, // resample backward: dx
    1803..=1803, // concatenation
    1901..=1901, // signal: the flag
    1904..=1904, // signal: y
    1951..=1951, // paged cache: y
    2003..=2004, // norm: mean and inverse variance
    2011..=2013, // norm: running statistics and y
    2107..=2109, // norm backward: gradients
    2201..=2201, // reshape
    2251..=2251, // band matrix: expanded
    2271..=2271, // band matrix: contracted
    2310..=2310, // random numbers
    2501..=2502, // quantization: y and scales
    2602..=2602, // dequantization
    2803..=2804, // attention: output and statistics
    2817..=2817, // attention: dump of the dropout mask
    2828..=2829, // attention: largest values
    2859..=2861, // attention backward: gradients of query, key and value
    2864..=2864, // attention backward: gradient of the sink
    2905..=2905, // grouped product
    2953..=2953, // grouped product backward
    3006..=3006, // mask of a diagonal band
    3101..=3104, // softmax: output and statistics
    3201..=3201, // transpose
    3301..=3301, // slice
    3401..=3401, // rotary embedding
    3411..=3411, // rotary embedding backward
];

const TENSOR_ID: i32 = 906;
const PACK_IDS: i32 = 1000;
const PACK_POINTERS: i32 = 1001;
const PACK_WORKSPACE: i32 = 1003;

/// The tensors that an operation writes.
fn outputs_of(operation: &Node) -> impl Iterator<Item = &Arc<Node>> {
    WRITTEN
        .iter()
        .cloned()
        .flatten()
        .flat_map(|attribute| operation.nodes(attribute))
}

/// The tensors that operations write.
pub(super) fn outputs(operations: &[Arc<Node>]) -> Vec<&Arc<Node>> {
    operations
        .iter()
        .flat_map(|operation| outputs_of(operation))
        .collect()
}

/// Identifiers of the tensors that operations write; `None` when one of them is not known well enough.
fn written(operations: &[Arc<Node>]) -> Option<HashSet<u64>> {
    let mut ids = HashSet::new();
    for operation in operations {
        let before = ids.len();
        ids.extend(outputs_of(operation).flat_map(|tensor| tensor.numbers(TENSOR_ID)));
        if ids.len() == before {
            return None;
        }
    }
    Some(ids)
}

/// Executes a plan on the memory that a variant pack names.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendExecute(handle: u64, plan: u64, pack: u64) -> CudnnStatus {
    let (session, timing) = match timing_of(handle, None) {
        Ok(found) => found,
        Err(error) => return error,
    };
    let (plan, pack) = match (node(plan), node(pack)) {
        (Ok(plan), Ok(pack)) => (plan, pack),
        (Err(error), _) | (_, Err(error)) => return error,
    };
    if plan.kind != kind::PLAN || pack.kind != kind::VARIANT_PACK {
        return CudnnStatus::DESCRIPTOR_TYPE;
    }
    if !plan.finalized || !pack.finalized {
        return CudnnStatus::NOT_FINALIZED;
    }
    for address in pack.numbers(PACK_WORKSPACE) {
        session.workspace(address);
    }
    in_use(session, scratch(&plan));
    let ids = written(operations(&plan));
    let outputs: Vec<u64> = pack
        .numbers(PACK_IDS)
        .into_iter()
        .zip(pack.numbers(PACK_POINTERS))
        .filter(|(id, _)| ids.as_ref().is_none_or(|ids| ids.contains(id)))
        .map(|(_, address)| address)
        .collect();
    let timing = Timing {
        cost: Some(cost(operations(&plan))),
        ..timing
    };
    session.library_worked("cudnnBackendExecute", &outputs, timing);
    CudnnStatus::SUCCESS
}
