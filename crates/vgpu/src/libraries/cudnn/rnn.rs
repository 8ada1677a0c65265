//! Recurrent networks: the buffer of weights is exact, scratch and reserve memory are estimates.

use super::CudnnStatus;
use super::handle::session_of;
use super::object::{change, look};
use super::rnn_layout::{Network, Piece};
use super::tensor::{Tensor, element_bytes};
use crate::libraries::estimate::{Scratch, assume, foresee};
use crate::status::put;

/// A network as it was set.
#[derive(Clone, Copy, Debug, Default)]
struct Rnn {
    network: Network,
}

/// The shape of a batch of sequences.
#[derive(Clone, Copy, Debug, Default)]
struct RnnData {
    longest: u64,
    batch: u64,
}

object!(Rnn, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor);
object!(
    RnnData,
    cudnnCreateRNNDataDescriptor,
    cudnnDestroyRNNDataDescriptor
);

fn positive(number: i32) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Sets what the network is.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDescriptor_v8(
    rnn: u64,
    algorithm: i32,
    cell: i32,
    bias: i32,
    direction: i32,
    input_mode: i32,
    data_type: i32,
    precision: i32,
    math: i32,
    input: i32,
    hidden: i32,
    projection: i32,
    layers: i32,
    dropout: u64,
    flags: u32,
) -> CudnnStatus {
    let _ = (algorithm, precision, math, dropout, flags);
    if input < 0 || hidden < 1 || projection < 0 || projection > hidden || layers < 1 {
        return CudnnStatus::BAD_PARAM;
    }
    let network = Network {
        cell,
        bias,
        bidirectional: direction == 1,
        skips_input: input_mode == 1,
        data_type,
        input: positive(input),
        hidden: positive(hidden),
        projection: if projection == 0 {
            positive(hidden)
        } else {
            positive(projection)
        },
        layers: positive(layers),
    };
    change(rnn, |kept: &mut Rnn| kept.network = network)
}

/// Sets the shape of a batch.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDataDescriptor(
    data: u64,
    data_type: i32,
    layout: i32,
    longest: i32,
    batch: i32,
    vector: i32,
    lengths: *const i32,
    padding: u64,
) -> CudnnStatus {
    let _ = (data_type, layout, vector, padding);
    if longest < 1 || batch < 1 || lengths.is_null() {
        return CudnnStatus::BAD_PARAM;
    }
    change(data, |kept: &mut RnnData| {
        *kept = RnnData {
            longest: positive(longest),
            batch: positive(batch),
        }
    })
}

fn network(handle: u64, rnn: u64) -> Result<Network, CudnnStatus> {
    session_of(handle)?;
    look(rnn, |rnn: &mut Rnn| rnn.network)
}

/// The size of the buffer of weights.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightSpaceSize(
    handle: u64,
    rnn: u64,
    size: *mut usize,
) -> CudnnStatus {
    let bytes =
        network(handle, rnn).map(|network| network.elements() * element_bytes(network.data_type));
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(size, bytes.unwrap_or(0) as usize) };
    match bytes {
        Err(error) => error,
        Ok(_) if size.is_null() => CudnnStatus::NULL_POINTER,
        Ok(_) => CudnnStatus::SUCCESS,
    }
}

/// Scratch memory and, for training, what the backward pass needs of the forward one: estimates.
///
/// Scratch holds the gates of one layer for all times before the recurrence, in each direction. The reserve holds for
/// each layer, direction and time the gates, the cell state and the output. cuDNN's own sizes are not known.
fn temporary_bytes(network: &Network, data: RnnData, trains: bool) -> [u64; 2] {
    let state = data.longest * data.batch * network.hidden * element_bytes(network.data_type);
    let scratch = network.directions() * network.gates() * state;
    let kept = network.gates() + 1 + u64::from(network.cell == 2);
    [
        scratch,
        if trains {
            network.pseudo_layers() * kept * state
        } else {
            0
        },
    ]
}

/// Sizes of scratch and reserve memory: estimates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNTempSpaceSizes(
    handle: u64,
    rnn: u64,
    mode: i32,
    data: u64,
    workspace: *mut usize,
    reserve: *mut usize,
) -> CudnnStatus {
    let sizes = network(handle, rnn).and_then(|network| {
        look(data, |data: &mut RnnData| {
            temporary_bytes(&network, *data, mode == 1)
        })
    });
    assume(
        "the scratch and reserve memory of recurrent networks",
        "it is counted from the gates and states of the cells, and may be half or twice as much",
    );
    let [scratch, kept] = sizes.unwrap_or_default();
    if let Ok(session) = session_of(handle) {
        let likely = scratch + kept;
        foresee(
            session,
            Scratch {
                low: likely / 2,
                likely,
                high: likely * 2,
            },
        );
    }
    // SAFETY: the caller passes places for sizes or null.
    unsafe {
        put(workspace, scratch as usize);
        put(reserve, kept as usize);
    }
    sizes.map_or_else(|error| error, |_| CudnnStatus::SUCCESS)
}

/// # Safety
/// `address` must be null or valid for writing.
unsafe fn put_piece(
    network: &Network,
    piece: Option<Piece>,
    base: u64,
    tensor: u64,
    address: *mut u64,
) -> CudnnStatus {
    let offset = |piece: Piece| base + piece.offset * element_bytes(network.data_type);
    // SAFETY: promised by the caller.
    unsafe { put(address, piece.map_or(0, offset)) };
    // A piece that does not exist has no shape either.
    let dimensions = piece.map_or_else(Vec::new, |piece| {
        vec![1, piece.rows as i32, piece.columns as i32]
    });
    if tensor == 0 {
        return CudnnStatus::SUCCESS;
    }
    change(tensor, |kept: &mut Tensor| {
        *kept = Tensor::packed(network.data_type, dimensions);
    })
}

/// Where one matrix and one bias lie.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetRNNWeightParams(
    handle: u64,
    rnn: u64,
    layer: i32,
    size: usize,
    weights: u64,
    id: i32,
    matrix: u64,
    matrix_address: *mut u64,
    bias: u64,
    bias_address: *mut u64,
) -> CudnnStatus {
    let network = network(handle, rnn);
    let known = network.unwrap_or_default();
    let fits = known.elements() * element_bytes(known.data_type) <= size as u64;
    let valid = network.is_ok() && fits && layer >= 0 && id >= 0;
    let place = valid.then(|| (positive(layer), positive(id)));
    // SAFETY: the caller passes places for addresses or null.
    let put = unsafe {
        [
            put_piece(
                &known,
                place.and_then(|(layer, id)| known.matrix(layer, id)),
                weights,
                matrix,
                matrix_address,
            ),
            put_piece(
                &known,
                place.and_then(|(layer, id)| known.bias(layer, id)),
                weights,
                bias,
                bias_address,
            ),
        ]
    };
    match network {
        Err(error) => error,
        Ok(_) if !valid => CudnnStatus::BAD_PARAM,
        Ok(_) => put
            .into_iter()
            .find(|status| !status.is_success())
            .unwrap_or(CudnnStatus::SUCCESS),
    }
}

operations! {
    cudnnRNNForward(rnn: u64, mode: i32, lengths: u64, x_layout: u64, x: u64, y_layout: u64, y: u64, h_layout: u64, hx: u64, hy: u64, c_layout: u64, cx: u64, cy: u64, weights_bytes: usize, weights: u64, workspace_bytes: usize, workspace: u64, reserve_bytes: usize, reserve: u64)
        writes [y, hy, cy, reserve] scratch [workspace];
    cudnnRNNBackwardData_v8(rnn: u64, lengths: u64, y_layout: u64, y: u64, dy: u64, x_layout: u64, dx: u64, h_layout: u64, hx: u64, dhy: u64, dhx: u64, c_layout: u64, cx: u64, dcy: u64, dcx: u64, weights_bytes: usize, weights: u64, workspace_bytes: usize, workspace: u64, reserve_bytes: usize, reserve: u64)
        writes [dx, dhx, dcx, reserve] scratch [workspace];
    cudnnRNNBackwardWeights_v8(rnn: u64, add: i32, lengths: u64, x_layout: u64, x: u64, h_layout: u64, hx: u64, y_layout: u64, y: u64, weights_bytes: usize, d_weights: u64, workspace_bytes: usize, workspace: u64, reserve_bytes: usize, reserve: u64)
        writes [d_weights] scratch [workspace];
}
