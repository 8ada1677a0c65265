//! cuDNN: descriptors that keep what is set, graphs that are all supported, and operations that are not carried out.
//!
//! Memory depends on three things only: the scratch sizes that cuDNN asks for, which are estimates and each in one
//! named function with its reason; the layout of recurrent weights, which is exact; and which memory an operation
//! would have written.

#[macro_use]
mod object;
#[macro_use]
mod operation;

mod backend;
mod batch_norm;
mod convolution;
mod cost;
mod ctc_loss;
mod dropout;
mod engines;
mod execute;
mod handle;
mod pooling;
mod rnn;
mod rnn_layout;
mod spatial_transformer;
mod status;
mod tensor;
mod workspace;

pub use backend::*;
pub use batch_norm::*;
pub use convolution::*;
pub use ctc_loss::*;
pub use dropout::*;
pub use execute::*;
pub use handle::*;
pub use pooling::*;
pub use rnn::*;
pub use spatial_transformer::*;
pub use status::*;
pub use tensor::*;

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;
    use crate::libraries::testing::{known_block, machine, unknown};

    /// A descriptor with attributes of 64-bit numbers and of descriptors.
    fn descriptor(kind: i32, attributes: &[(i32, i32, &[u64])]) -> u64 {
        machine();
        let mut handle = 0;
        assert_eq!(
            // SAFETY: a place for a handle.
            unsafe { cudnnBackendCreateDescriptor(kind, &raw mut handle) },
            CudnnStatus::SUCCESS
        );
        for (attribute, of, values) in attributes {
            // SAFETY: as many values as are said.
            let set = unsafe {
                cudnnBackendSetAttribute(
                    handle,
                    *attribute,
                    *of,
                    values.len() as i64,
                    values.as_ptr().cast(),
                )
            };
            assert_eq!(set, CudnnStatus::SUCCESS);
        }
        assert_eq!(cudnnBackendFinalize(handle), CudnnStatus::SUCCESS);
        handle
    }

    fn get(handle: u64, attribute: i32, of: i32, into: &mut [u64]) -> (CudnnStatus, i64) {
        let mut count = -1;
        // SAFETY: room for as many values as are asked for.
        let status = unsafe {
            cudnnBackendGetAttribute(
                handle,
                attribute,
                of,
                into.len() as i64,
                &raw mut count,
                into.as_mut_ptr().cast(),
            )
        };
        (status, count)
    }

    #[test]
    fn a_convolution_finds_an_engine_and_spoils_its_output() {
        let [x, y, scratch] = [64, 64, 64].map(known_block);
        let tensor = |id| {
            let (dimensions, strides) = ([1, 2, 4, 4], [32, 16, 4, 1]);
            let shape: [(i32, i32, &[u64]); 3] =
                [(906, 3, &[id]), (902, 3, &dimensions), (903, 3, &strides)];
            descriptor(17, &shape)
        };
        let operation = descriptor(
            10,
            &[
                (704, 15, &[tensor(1)]),
                (703, 15, &[tensor(2)]),
                (705, 15, &[tensor(3)]),
            ],
        );
        let graph = descriptor(15, &[(801, 15, &[operation])]);
        let heuristics = descriptor(4, &[(201, 15, &[graph])]);
        assert_eq!(get(heuristics, 202, 15, &mut []), (CudnnStatus::SUCCESS, 3));
        let mut found = [descriptor(3, &[])];
        assert_eq!(
            get(heuristics, 202, 15, &mut found),
            (CudnnStatus::SUCCESS, 1)
        );
        let plan = descriptor(5, &[(401, 15, &found)]);
        // A plan outlives what it was made of.
        for handle in [operation, graph, heuristics, found[0]] {
            assert_eq!(cudnnBackendDestroyDescriptor(handle), CudnnStatus::SUCCESS);
        }
        let mut size = [u64::MAX];
        assert_eq!(get(plan, 402, 3, &mut size), (CudnnStatus::SUCCESS, 1));
        // Three tensors of 32 numbers in single precision, in another layout.
        assert_eq!(size, [3 * 32 * 4]);

        let pack = descriptor(
            16,
            &[
                (1000, 3, &[1, 3]),
                (1001, 6, &[x, y]),
                (1003, 6, &[scratch]),
            ],
        );
        let mut handle = 0;
        assert_eq!(
            // SAFETY: a place for a handle.
            unsafe { cudnnCreate(&raw mut handle) },
            CudnnStatus::SUCCESS
        );
        assert_eq!(
            cudnnBackendExecute(handle, pack, plan),
            CudnnStatus::DESCRIPTOR_TYPE
        );
        assert_eq!(
            cudnnBackendExecute(handle, plan, pack),
            CudnnStatus::SUCCESS
        );
        assert_eq!([x, y].map(|block| unknown(block, 64)), [0, 64]);
        assert_eq!(cudnnDestroy(handle), CudnnStatus::SUCCESS);
        assert_eq!(
            cudnnBackendExecute(handle, plan, pack),
            CudnnStatus::BAD_PARAM
        );
    }

    #[test]
    fn attributes_are_given_back_as_they_were_set() {
        let tensor = descriptor(17, &[(902, 3, &[4, 5, 6])]);
        let mut dimensions = [0; 2];
        assert_eq!(
            get(tensor, 902, 3, &mut dimensions),
            (CudnnStatus::SUCCESS, 3)
        );
        assert_eq!(dimensions, [4, 5]);
        assert_eq!(
            get(tensor, 902, 6, &mut dimensions),
            (CudnnStatus::ATTRIBUTE_TYPE, 3)
        );
        assert_eq!(
            get(tensor, 903, 3, &mut dimensions),
            (CudnnStatus::NOT_SUPPORTED, 0)
        );
        assert_eq!(get(0, 903, 3, &mut dimensions), (CudnnStatus::BAD_PARAM, 0));
        let engine = descriptor(2, &[]);
        assert_eq!(get(engine, 1303, 11, &mut []), (CudnnStatus::SUCCESS, 0));
        assert_eq!(get(engine, 1305, 19, &mut []), (CudnnStatus::SUCCESS, 0));
    }

    #[test]
    fn sizes_are_written_when_the_call_is_refused() {
        machine();
        let mut size = 99;
        // SAFETY: a place for a size.
        unsafe {
            assert_eq!(
                cudnnGetBatchNormalizationTrainingExReserveSpaceSize(0, 1, 0, 0, 0, &raw mut size),
                CudnnStatus::BAD_PARAM
            );
            assert_eq!(std::mem::replace(&mut size, 99), 0);
            assert_eq!(
                cudnnGetRNNWeightSpaceSize(0, 0, &raw mut size),
                CudnnStatus::BAD_PARAM
            );
            assert_eq!(std::mem::replace(&mut size, 99), 0);
            assert_eq!(
                cudnnDropoutGetStatesSize(0, &raw mut size),
                CudnnStatus::BAD_PARAM
            );
            assert_eq!(size, 0);
            assert_eq!(cudnnCreate(null_mut()), CudnnStatus::NULL_POINTER);
        }
    }
}
