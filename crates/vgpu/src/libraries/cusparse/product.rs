//! Products and sums of two sparse matrices, whose number of elements is decided on the device.
//!
//! The count is computed when the structure of both is known. Otherwise the rows of the second matrix are taken as
//! equally long, which gives the number of intermediate products on average; the most there can be is every element
//! of the result, which would make a product of two large sparse matrices a dense one.

use oomproof_profile::Basis;

use std::collections::BTreeSet;

use super::CusparseStatus;
use super::description::{Sparse, create, destroy, element_bytes, look};
use super::handle::session_of;
use super::scratch::{Work, scratch_bytes};
use super::structure::{numbers, write_numbers};
use crate::kernels::Read;
use crate::libraries::estimate::assume;
use crate::session::Session;
use crate::status::put;

/// More products than these are not counted one by one.
const MOST_PRODUCTS: u64 = 1 << 22;

/// Row offsets and column numbers.
#[derive(Clone, Debug)]
struct Structure {
    offsets: Vec<i32>,
    columns: Vec<i32>,
}

impl Structure {
    fn of(session: &Session, sparse: &Sparse) -> Option<Self> {
        if !sparse.plain_rows {
            return None;
        }
        let known = Self {
            offsets: numbers(session, sparse.row_part, sparse.rows.checked_add(1)?)?,
            columns: numbers(session, sparse.column_numbers, sparse.elements)?,
        };
        let whole = known.offsets.first() == Some(&0)
            && known.offsets.is_sorted()
            && known.offsets.last().copied().map(i64::from) == Some(sparse.elements);
        whole.then_some(known)
    }

    /// The columns of a row.
    fn row(&self, row: usize) -> &[i32] {
        let bound = |at: usize| self.offsets.get(at).map_or(0, |offset| *offset as usize);
        self.columns
            .get(bound(row)..bound(row + 1))
            .unwrap_or_default()
    }

    fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The number of multiplications in the product with `other`.
    fn products(&self, other: &Self) -> u64 {
        self.columns
            .iter()
            .map(|&column| other.row(column as usize).len() as u64)
            .sum()
    }

    /// A matrix whose rows have the given columns.
    fn from_rows(rows: impl Iterator<Item = BTreeSet<i32>>) -> Self {
        let (mut offsets, mut columns) = (vec![0], Vec::new());
        for row in rows {
            columns.extend(row);
            offsets.push(columns.len() as i32);
        }
        Self { offsets, columns }
    }

    fn times(&self, other: &Self) -> Self {
        Self::from_rows((0..self.rows()).map(|row| {
            let columns = self.row(row).iter();
            columns
                .flat_map(|&column| other.row(column as usize))
                .copied()
                .collect()
        }))
    }

    fn plus(&self, other: &Self) -> Self {
        Self::from_rows((0..self.rows()).map(|row| {
            self.row(row)
                .iter()
                .chain(other.row(row))
                .copied()
                .collect()
        }))
    }
}

/// A count that nobody could compute is read by the host all the same.
fn assumed_count(session: &Session, name: &str, address: u64, count: i64) {
    assume(
        "the number of elements of sparse products and sums",
        "where the structure of the matrices is not known, rows are taken as equally long and no two products fall on \
         the same element; a product can have up to every element of the result",
    );
    let read = Read::by_library(session.text(name));
    session.unknown_read(address, 8, count as u64, read, Basis::Plain);
}

/// State of a product.
#[derive(Clone, Debug, Default)]
struct Product {
    /// The result, when it could be computed.
    result: Option<Structure>,
}

/// Makes the state of a product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseSpGEMM_createDescr(out: *mut u64) -> CusparseStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(out, Product::default()) }
}

/// Ends the state of a product.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSpGEMM_destroyDescr(product: u64) -> CusparseStatus {
    destroy::<Product>(product)
}

/// Both factors, as known as they are.
struct Factors {
    a: Sparse,
    b: Sparse,
    known: Option<(Structure, Structure)>,
}

impl Factors {
    fn of(session: &Session, a: u64, b: u64) -> Result<Self, CusparseStatus> {
        let a = look(a, |kept: &mut Sparse| *kept)?;
        let b = look(b, |kept: &mut Sparse| *kept)?;
        let known = Structure::of(session, &a).zip(Structure::of(session, &b));
        Ok(Self { a, b, known })
    }

    /// The number of multiplications, counted or on average.
    fn products(&self) -> u64 {
        if let Some((a, b)) = &self.known {
            return a.products(b);
        }
        let size = |size: i64| u128::try_from(size).unwrap_or(0);
        let pairs = size(self.a.elements) * size(self.b.elements);
        u64::try_from(pairs.div_ceil(size(self.b.rows).max(1))).unwrap_or(u64::MAX)
    }

    /// The number of elements when it cannot be counted.
    fn assumed_elements(&self) -> i64 {
        let all = i128::from(self.a.rows) * i128::from(self.b.columns);
        i64::try_from(all.min(i128::from(self.products()))).unwrap_or(i64::MAX)
    }
}

/// # Safety
/// `size` must be null or valid for writing.
unsafe fn ask(
    handle: u64,
    [a, b]: [u64; 2],
    size: *mut usize,
    work: impl FnOnce(&Factors) -> Work,
) -> Result<(&'static Session, Factors), CusparseStatus> {
    let found = session_of(handle).and_then(|session| Ok((session, Factors::of(session, a, b)?)));
    let bytes = found.as_ref().map_or(Some(0), |(session, factors)| {
        scratch_bytes(session, work(factors), element_bytes(factors.a.value_type))
    });
    // SAFETY: promised by the caller.
    unsafe { put(size, bytes.unwrap_or(0) as usize) };
    match bytes {
        Some(_) if !size.is_null() => found,
        _ => Err(found.err().unwrap_or(CusparseStatus::INVALID_VALUE)),
    }
}

/// The first phase: how much memory to count with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseSpGEMM_workEstimation(
    handle: u64,
    op_a: i32,
    op_b: i32,
    alpha: u64,
    a: u64,
    b: u64,
    beta: u64,
    c: u64,
    compute_type: i32,
    algorithm: i32,
    product: u64,
    size: *mut usize,
    work: u64,
) -> CusparseStatus {
    let _ = (op_a, op_b, alpha, beta, c, compute_type, algorithm, product);
    // SAFETY: the caller passes a place for a size or null.
    let asked = unsafe {
        ask(handle, [a, b], size, |factors| Work::Sum {
            rows: factors.a.rows,
        })
    };
    match asked {
        Err(error) => error,
        Ok((session, _)) => {
            session.workspace(work);
            CusparseStatus::SUCCESS
        }
    }
}

/// The second phase: with memory, the result is counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseSpGEMM_compute(
    handle: u64,
    op_a: i32,
    op_b: i32,
    alpha: u64,
    a: u64,
    b: u64,
    beta: u64,
    c: u64,
    compute_type: i32,
    algorithm: i32,
    product: u64,
    size: *mut usize,
    work: u64,
) -> CusparseStatus {
    let _ = (alpha, beta, compute_type, algorithm);
    if op_a != 0 || op_b != 0 {
        // SAFETY: the caller passes a place for a size or null.
        unsafe { put(size, 0) };
        crate::unsupported::unsupported(
            "cusparseSpGEMM_compute of a transposed matrix",
            "libcusparse.so.12",
        );
        return CusparseStatus::NOT_SUPPORTED;
    }
    let needs = |factors: &Factors| Work::SparseProduct {
        rows: factors.a.rows,
        products: factors.products(),
    };
    // SAFETY: the caller passes a place for a size or null.
    let (session, factors) = match unsafe { ask(handle, [a, b], size, needs) } {
        Ok(found) => found,
        Err(error) => return error,
    };
    if work == 0 {
        return CusparseStatus::SUCCESS;
    }
    session.workspace(work);
    let counted = factors
        .known
        .as_ref()
        .filter(|(a, b)| a.products(b) <= MOST_PRODUCTS);
    let result = counted.map(|(a, b)| a.times(b));
    let elements = if let Some(result) = &result {
        result.columns.len() as i64
    } else {
        let assumed = factors.assumed_elements();
        let name = "cusparseSpGEMM_compute";
        assumed_count(session, name, factors.a.row_part, assumed);
        assumed
    };
    let kept = look(product, |product: &mut Product| product.result = result);
    let sized = look(c, |sparse: &mut Sparse| {
        sparse.elements = elements;
    });
    kept.and(sized)
        .map_or_else(|error| error, |()| CusparseStatus::SUCCESS)
}

/// The third phase: the result is written to the memory that the caller now gave.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSpGEMM_copy(
    handle: u64,
    op_a: i32,
    op_b: i32,
    alpha: u64,
    a: u64,
    b: u64,
    beta: u64,
    c: u64,
    compute_type: i32,
    algorithm: i32,
    product: u64,
) -> CusparseStatus {
    let _ = (op_a, op_b, alpha, a, b, beta, compute_type, algorithm);
    let name = "cusparseSpGEMM_copy";
    let found = session_of(handle).and_then(|session| {
        let sparse = look(c, |sparse: &mut Sparse| *sparse)?;
        let result = look(product, |product: &mut Product| product.result.take())?;
        Ok((session, sparse, result))
    });
    match found {
        Err(error) => error,
        Ok((session, sparse, result)) => {
            session.library_wrote(
                name,
                &[sparse.values, sparse.row_part, sparse.column_numbers],
            );
            if let Some(Structure { offsets, columns }) = result {
                write_numbers(session, name, sparse.row_part, &offsets);
                write_numbers(session, name, sparse.column_numbers, &columns);
            }
            CusparseStatus::SUCCESS
        }
    }
}

/// The rows and the number of elements of a sum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusparseXcsrgeam2Nnz(
    handle: u64,
    m: i32,
    n: i32,
    description_a: u64,
    elements_a: i32,
    row_offsets_a: u64,
    column_numbers_a: u64,
    description_b: u64,
    elements_b: i32,
    row_offsets_b: u64,
    column_numbers_b: u64,
    description_c: u64,
    row_offsets_c: u64,
    total: *mut i32,
    work: u64,
) -> CusparseStatus {
    let _ = (description_a, description_b, description_c);
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => {
            // SAFETY: with scalars on the host, the caller passes a place for a count or null.
            unsafe { put(total, 0) };
            return error;
        }
    };
    session.workspace(work);
    let name = "cusparseXcsrgeam2Nnz";
    let known = |elements: i32, row_part, column_numbers| {
        let sparse = Sparse {
            rows: m.into(),
            columns: n.into(),
            elements: elements.into(),
            row_part,
            column_numbers,
            plain_rows: true,
            ..Sparse::default()
        };
        Structure::of(session, &sparse)
    };
    let a = known(elements_a, row_offsets_a, column_numbers_a);
    let b = known(elements_b, row_offsets_b, column_numbers_b);
    let count = if let Some((a, b)) = a.zip(b) {
        let sum = a.plus(&b);
        write_numbers(session, name, row_offsets_c, &sum.offsets);
        sum.columns.len() as i64
    } else {
        let all = i64::from(m) * i64::from(n);
        let count = all.min(i64::from(elements_a) + i64::from(elements_b));
        session.library_wrote(name, &[row_offsets_c]);
        assumed_count(session, name, row_offsets_c, count);
        count
    };
    let count = i32::try_from(count);
    // SAFETY: with scalars on the host, the caller passes a place for a count or null.
    unsafe { put(total, count.unwrap_or(0)) };
    if total.is_null() || count.is_err() {
        CusparseStatus::INVALID_VALUE
    } else {
        CusparseStatus::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_multiplied_and_added() {
        let matrix = |rows: &[&[i32]]| {
            Structure::from_rows(rows.iter().map(|row| row.iter().copied().collect()))
        };
        let check = |found: &Structure, expected: &[&[i32]]| {
            let rows: Vec<&[i32]> = (0..found.rows()).map(|row| found.row(row)).collect();
            assert_eq!(rows, expected);
        };
        let (a, b) = (
            matrix(&[&[0, 2], &[], &[1]]),
            matrix(&[&[1], &[0, 2], &[1, 2]]),
        );
        assert_eq!(a.products(&b), 5);
        check(&a.times(&b), &[&[1, 2], &[], &[0, 2]]);
        check(&a.plus(&b), &[&[0, 1, 2], &[0, 2], &[1, 2]]);
    }

    #[test]
    fn unknown_rows_are_taken_as_equally_long() {
        let sparse = |rows, columns, elements| Sparse {
            rows,
            columns,
            elements,
            ..Sparse::default()
        };
        let check = |a, b, products, elements| {
            let factors = Factors { a, b, known: None };
            assert_eq!(
                (factors.products(), factors.assumed_elements()),
                (products, elements)
            );
        };
        check(sparse(100, 50, 200), sparse(50, 100, 100), 400, 400);
        check(sparse(10, 50, 200), sparse(50, 10, 100), 400, 100);
        check(sparse(10, 0, 0), sparse(0, 10, 0), 0, 0);
    }
}
