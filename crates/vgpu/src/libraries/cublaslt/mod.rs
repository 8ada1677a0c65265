//! cuBLASLt: descriptors that keep what is set, one algorithm for every product, and products that are not computed.

mod algorithm;
mod attributes;
mod handle;
mod matmul;

pub use algorithm::*;
pub use attributes::*;
pub use handle::*;
pub use matmul::*;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::cublas::CublasStatus;
    use crate::libraries::testing::{known_block, machine, unknown};

    /// A handle, a product, a layout and a preference.
    fn objects() -> [u64; 4] {
        machine();
        let [mut handle, mut product, mut layout, mut preference] = [0u64; 4];
        // SAFETY: places for handles.
        unsafe {
            assert_eq!(cublasLtCreate(&raw mut handle), CublasStatus::SUCCESS);
            assert_eq!(
                cublasLtMatmulDescCreate(&raw mut product, 68, 0),
                CublasStatus::SUCCESS
            );
            assert_eq!(
                cublasLtMatrixLayoutCreate(&raw mut layout, 0, 4, 4, 4),
                CublasStatus::SUCCESS
            );
            assert_eq!(
                cublasLtMatmulPreferenceCreate(&raw mut preference),
                CublasStatus::SUCCESS
            );
        }
        [handle, product, layout, preference]
    }

    #[test]
    fn a_product_has_one_algorithm_and_spoils_its_outputs() {
        let [handle, product, layout, preference] = objects();
        let [a, d, bias] = [64, 64, 16].map(known_block);
        let set = |attribute, bytes: &[u8]| {
            // SAFETY: the bytes are there.
            let status = unsafe {
                cublasLtMatmulDescSetAttribute(
                    product,
                    attribute,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                )
            };
            assert_eq!(status, CublasStatus::SUCCESS);
        };
        set(7, &512u32.to_ne_bytes()); // gradient of the bias by B
        set(8, &bias.to_ne_bytes());
        let (mut epilogue, mut written) = (0u32, 0usize);
        // SAFETY: room for four bytes.
        let got = unsafe {
            cublasLtMatmulDescGetAttribute(
                product,
                7,
                (&raw mut epilogue).cast(),
                4,
                &raw mut written,
            )
        };
        assert_eq!((got, epilogue, written), (CublasStatus::SUCCESS, 512, 4));

        let mut results = std::mem::MaybeUninit::<HeuristicResult>::uninit();
        let mut returned = -1;
        let l = layout;
        // SAFETY: room for one result.
        let found = unsafe {
            cublasLtMatmulAlgoGetHeuristic(
                handle,
                product,
                l,
                l,
                l,
                l,
                preference,
                1,
                results.as_mut_ptr(),
                &raw mut returned,
            )
        };
        assert_eq!((found, returned), (CublasStatus::SUCCESS, 1));
        let run = |d| {
            cublasLtMatmul(
                handle,
                product,
                1,
                a,
                l,
                a,
                l,
                1,
                d,
                l,
                d,
                l,
                results.as_ptr().cast(),
                0,
                0,
                0,
            )
        };
        assert_eq!(run(0), CublasStatus::INVALID_VALUE);
        assert_eq!(run(d), CublasStatus::SUCCESS);
        assert_eq!(
            [(a, 64), (d, 64), (bias, 16)].map(|(block, len)| unknown(block, len)),
            [0, 64, 16]
        );

        assert_eq!(cublasLtMatrixLayoutDestroy(layout), CublasStatus::SUCCESS);
        assert_eq!(run(d), CublasStatus::INVALID_VALUE);
        // SAFETY: places for results.
        let refused = unsafe {
            cublasLtMatmulAlgoGetHeuristic(
                handle,
                product,
                l,
                l,
                l,
                l,
                preference,
                1,
                results.as_mut_ptr(),
                &raw mut returned,
            )
        };
        assert_eq!((refused, returned), (CublasStatus::INVALID_VALUE, 0));
    }
}
