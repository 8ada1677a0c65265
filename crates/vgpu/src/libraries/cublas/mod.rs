//! cuBLAS: nothing is multiplied, so all that matters is which handle is valid, which memory a call would have
//! written, and which memory it was given as scratch.
//!
//! The functions that compute are tables of signatures; the rest is the state of a handle. What is exported here and
//! missing from the tables (rotations set up on the host, grouped products, logging) is left to the stand-ins.

#[macro_use]
mod launch;

mod batched;
mod handle;
mod matrix_matrix;
mod matrix_vector;
mod reductions;
mod status;
mod transfers;

mod vectors;

pub use batched::*;
pub use handle::*;
pub(super) use handle::{is_cublas_handle, version, version_number};
pub use matrix_matrix::*;
pub use matrix_vector::*;
pub use reductions::*;
pub use status::*;
pub use transfers::*;

pub use vectors::*;

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;
    use crate::libraries::testing::{known_block, machine, unknown};

    fn handle() -> u64 {
        machine();
        let mut handle = 0;
        assert_eq!(
            // SAFETY: a place for a handle.
            unsafe { cublasCreate_v2(&raw mut handle) },
            CublasStatus::SUCCESS
        );
        handle
    }

    #[test]
    fn a_product_spoils_its_output_and_nothing_else() {
        let handle = handle();
        let [a, b, c] = [64, 64, 64].map(known_block);
        assert_eq!(
            cublasSgemm_v2(handle, 0, 0, 4, 4, 4, 0, a, 4, b, 4, 0, c, 4),
            CublasStatus::SUCCESS
        );
        assert_eq!([a, b, c].map(|block| unknown(block, 64)), [0, 0, 64]);
    }

    #[test]
    fn an_ended_handle_is_refused_everywhere() {
        let ended = handle();
        assert_eq!(cublasDestroy_v2(ended), CublasStatus::SUCCESS);
        let mut mode = 5;
        assert_eq!(
            // SAFETY: a place for a mode.
            unsafe { cublasGetMathMode(ended, &raw mut mode) },
            CublasStatus::NOT_INITIALIZED
        );
        assert_eq!(mode, 0);
        assert_eq!(cublasDestroy_v2(ended), CublasStatus::NOT_INITIALIZED);
        assert_eq!(cublasSetStream_v2(ended, 0), CublasStatus::NOT_INITIALIZED);
        let block = known_block(64);
        assert_eq!(
            cublasSscal_v2(ended, 1, 0, block, 1),
            CublasStatus::NOT_INITIALIZED
        );
        assert_eq!(unknown(block, 64), 0);
    }

    #[test]
    fn a_handle_gives_back_what_was_set() {
        let handle = handle();
        let mut found = 0;
        assert_eq!(cublasSetMathMode(handle, 3), CublasStatus::SUCCESS);
        assert_eq!(
            // SAFETY: a place for a mode.
            unsafe { cublasGetMathMode(handle, &raw mut found) },
            CublasStatus::SUCCESS
        );
        assert_eq!(found, 3);
        assert_eq!(
            cublasSetPointerMode_v2(handle, 2),
            CublasStatus::INVALID_VALUE
        );
        assert_eq!(
            cublasSetSmCountTarget(handle, 1000),
            CublasStatus::INVALID_VALUE
        );
        assert_eq!(
            // SAFETY: null is allowed.
            unsafe { cublasGetMathMode(handle, null_mut()) },
            CublasStatus::INVALID_VALUE
        );
    }

    #[test]
    fn a_result_goes_where_the_pointer_mode_says() {
        let handle = handle();
        let mut result = 5f32;
        // SAFETY: in host mode the result is a place on the host.
        let on_host = unsafe { cublasSdot_v2(handle, 1, 0, 1, 0, 1, (&raw mut result) as u64) };
        assert_eq!((on_host, result), (CublasStatus::SUCCESS, 0.0));
        let block = known_block(4);
        assert_eq!(cublasSetPointerMode_v2(handle, 1), CublasStatus::SUCCESS);
        assert_eq!(
            // SAFETY: in device mode nothing on the host is written.
            unsafe { cublasSdot_v2(handle, 1, 0, 1, 0, 1, block) },
            CublasStatus::SUCCESS
        );
        assert_eq!(unknown(block, 4), 4);
        assert_eq!(
            // SAFETY: null is allowed.
            unsafe { cublasSdot_v2(handle, 1, 0, 1, 0, 1, 0) },
            CublasStatus::INVALID_VALUE
        );
    }
}
