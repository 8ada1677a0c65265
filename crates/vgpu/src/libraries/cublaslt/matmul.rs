//! Products that are accepted and not computed: what they would write, and how long they would take.

use super::algorithm::Algorithm;
use super::attributes::{Layout, Product};
use super::handle::session_of;
use crate::clock::{Cost, Timing};
use crate::libraries::cublas::CublasStatus;
use crate::libraries::product::{Product as Multiplication, Singles};
use crate::session::Session;

/// Numbers of the attributes of a product that name memory it writes.
mod attribute {
    pub(super) const COMPUTE_TYPE: i32 = 0;
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

/// A matrix as its layout describes it.
struct Matrix {
    data_type: i32,
    rows: i64,
    columns: i64,
    batch: i64,
}

impl Matrix {
    fn of(session: &Session, layout: u64) -> Option<Self> {
        session.handles::<Layout>().with(layout, |layout| {
            let number = |attribute| layout.0.number(attribute).cast_signed();
            Self {
                data_type: number(0) as i32,
                rows: number(2),
                columns: number(3),
                batch: number(5).max(1),
            }
        })
    }
}

/// What `D = A B` asks of the device, whichever of the factors are stored transposed.
fn cost(product: &Product, [a, b, d]: [&Matrix; 3]) -> Cost {
    let product = Multiplication {
        m: d.rows,
        n: d.columns,
        k: a.rows
            .saturating_mul(a.columns)
            .checked_div(d.rows)
            .unwrap_or(0),
        batch: d.batch,
        factors: [a.data_type, b.data_type],
        result: d.data_type,
        compute_type: product.0.number(attribute::COMPUTE_TYPE) as i32,
    };
    product.cost(Singles::Whole)
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
    let _ = (a, b, beta, c, algorithm);
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    let layouts = [a_layout, b_layout, c_layout, d_layout];
    let [Some(of_a), Some(of_b), Some(_), Some(of_d)] =
        layouts.map(|layout| Matrix::of(session, layout))
    else {
        return CublasStatus::INVALID_VALUE;
    };
    let Some(product) = Product::of(product).filter(|_| alpha != 0 && d != 0) else {
        return CublasStatus::INVALID_VALUE;
    };
    if workspace_bytes > 0 {
        session.workspace(workspace);
    }
    let timing = Timing {
        stream: Some(stream),
        cost: Some(cost(&product, [&of_a, &of_b, &of_d])),
    };
    session.library_worked("cublasLtMatmul", &outputs(&product, d), timing);
    CublasStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Format;

    #[test]
    fn the_inner_size_is_found_whichever_way_the_factor_lies() {
        let matrix = |data_type, rows, columns| Matrix {
            data_type,
            rows,
            columns,
            batch: 2,
        };
        let check = |a: Matrix, compute_type: i32, format| {
            let mut product = Product::default();
            product
                .0
                .set(attribute::COMPUTE_TYPE, &compute_type.to_ne_bytes());
            let (b, d) = (matrix(a.data_type, 30, 20), matrix(a.data_type, 10, 20));
            let cost = cost(&product, [&a, &b, &d]);
            assert_eq!(cost.operations, 2 * 2 * 10 * 20 * 30);
            assert_eq!(cost.format, format);
        };
        check(matrix(14, 10, 30), 68, Format::Brain);
        check(matrix(14, 30, 10), 68, Format::Brain);
        check(matrix(0, 30, 10), 77, Format::Rounded);
        check(matrix(0, 30, 10), 68, Format::Single);
        let none = cost(
            &Product::default(),
            [&matrix(0, 9, 9), &matrix(0, 9, 9), &matrix(0, 0, 9)],
        );
        assert_eq!(none.operations, 0);
    }
}
