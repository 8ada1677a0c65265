//! Products that are accepted and not computed.

use super::algorithm::Algorithm;
use super::attributes::{Layout, Product};
use super::handle::session_of;
use crate::libraries::cublas::CublasStatus;

/// Numbers of the attributes of a product that name memory it writes.
mod attribute {
    pub(super) const EPILOGUE: i32 = 7;
    pub(super) const BIAS: i32 = 8;
    pub(super) const EPILOGUE_AUX: i32 = 11;
    pub(super) const AMAX_D: i32 = 21;
    pub(super) const EPILOGUE_AUX_AMAX: i32 = 24;
    pub(super) const D_OUT_SCALE: i32 = 36;
}

/// Epilogues that compute a gradient of the bias write where the others read it.
const BIAS_GRADIENT: u64 = 16 | 256 | 512;

fn outputs(product: &Product, d: u64) -> Vec<u64> {
    let product = &product.0;
    let mut outputs = vec![d];
    let written = [
        attribute::EPILOGUE_AUX,
        attribute::AMAX_D,
        attribute::EPILOGUE_AUX_AMAX,
        attribute::D_OUT_SCALE,
    ];
    outputs.extend(
        written
            .into_iter()
            .map(|attribute| product.number(attribute)),
    );
    if product.number(attribute::EPILOGUE) & BIAS_GRADIENT != 0 {
        outputs.push(product.number(attribute::BIAS));
    }
    outputs.retain(|address| *address != 0);
    outputs
}

/// `D = epilogue(alpha A B + beta C)`, accepted and not computed.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtMatmul(
    handle: u64,
    product: u64,
    alpha: u64,
    a: u64,
    a_layout: u64,
    b: u64,
    b_layout: u64,
    beta: u64,
    c: u64,
    c_layout: u64,
    d: u64,
    d_layout: u64,
    algorithm: *const Algorithm,
    workspace: u64,
    workspace_bytes: usize,
    stream: u64,
) -> CublasStatus {
    let _ = (a, b, beta, c, algorithm, stream);
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    let layouts = [a_layout, b_layout, c_layout, d_layout];
    let Some(product) = Product::of(product) else {
        return CublasStatus::INVALID_VALUE;
    };
    if alpha == 0
        || d == 0
        || layouts
            .into_iter()
            .any(|layout| Layout::of(layout).is_none())
    {
        return CublasStatus::INVALID_VALUE;
    }
    if workspace_bytes > 0 {
        session.workspace(workspace);
    }
    session.library_wrote("cublasLtMatmul", &outputs(&product, d));
    CublasStatus::SUCCESS
}
