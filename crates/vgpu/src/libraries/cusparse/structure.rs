//! The structure of sparse matrices: row numbers to row offsets, and elements in order.
//!
//! These are whole numbers that decide about sizes later on, so they are computed wherever the input is known.

use super::CusparseStatus;
use super::handle::session_of;
use crate::session::Session;

/// More than this is not computed.
const MOST: usize = 1 << 22;

/// `count` known 32-bit numbers at `address`.
pub(super) fn numbers(session: &Session, address: u64, count: i64) -> Option<Vec<i32>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
    let mut bytes = vec![0; count * 4];
    let unknown = session.memory().contents.read(address, &mut bytes);
    let number = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().unwrap_or_default());
    (unknown == 0).then(|| bytes.chunks_exact(4).map(number).collect())
}

/// Writes numbers that are known.
pub(super) fn write_numbers(session: &Session, name: &str, address: u64, numbers: &[i32]) {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    session.library_wrote(name, &[address]);
    session.memory().contents.write(address, &bytes);
}

/// Row offsets of elements that are in the order of their rows; `None` when they are not.
fn offsets(row_numbers: &[i32], rows: usize, base: i32) -> Option<Vec<i32>> {
    let mut offsets = vec![0; rows + 1];
    for &row in row_numbers {
        let row = usize::try_from(row.checked_sub(base)?).ok()?;
        *offsets.get_mut(row + 1)? += 1;
    }
    offsets[0] = base;
    for row in 0..rows {
        offsets[row + 1] += offsets[row];
    }
    Some(offsets)
}

/// Row numbers to row offsets.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseXcoo2csr(
    handle: u64,
    row_numbers: u64,
    elements: i32,
    rows: i32,
    row_offsets: u64,
    base: i32,
) -> CusparseStatus {
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    let Ok(rows) = usize::try_from(rows) else {
        return CusparseStatus::INVALID_VALUE;
    };
    let known = numbers(session, row_numbers, elements.into()).filter(|_| rows <= MOST);
    match known.and_then(|known| offsets(&known, rows, base)) {
        Some(offsets) => write_numbers(session, "cusparseXcoo2csr", row_offsets, &offsets),
        None => session.library_wrote("cusparseXcoo2csr", &[row_offsets]),
    }
    CusparseStatus::SUCCESS
}

/// The numbers from 0 on.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseCreateIdentityPermutation(
    handle: u64,
    count: i32,
    places: u64,
) -> CusparseStatus {
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    let name = "cusparseCreateIdentityPermutation";
    if usize::try_from(count).is_ok_and(|count| count <= MOST) {
        let identity: Vec<i32> = (0..count).collect();
        write_numbers(session, name, places, &identity);
    } else {
        session.library_wrote(name, &[places]);
    }
    CusparseStatus::SUCCESS
}

/// Elements in the order of row and column, with their places moved alike.
fn sort(
    session: &Session,
    name: &str,
    rows: &[i32],
    arrays: [u64; 2],
    count: i64,
) -> Option<Vec<i32>> {
    let [columns_at, places_at] = arrays;
    let columns = numbers(session, columns_at, count)?;
    let places = numbers(session, places_at, count);
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&at| (rows.get(at).copied(), columns[at]));
    let moved = |numbers: &[i32]| -> Vec<i32> {
        order
            .iter()
            .filter_map(|&at| numbers.get(at).copied())
            .collect()
    };
    write_numbers(session, name, columns_at, &moved(&columns));
    match places {
        Some(places) => write_numbers(session, name, places_at, &moved(&places)),
        None => session.library_wrote(name, &[places_at]),
    }
    Some(moved(rows))
}

/// Orders elements by row, then column.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseXcoosortByRow(
    handle: u64,
    m: i32,
    n: i32,
    elements: i32,
    row_numbers: u64,
    column_numbers: u64,
    places: u64,
    work: u64,
) -> CusparseStatus {
    let _ = (m, n);
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    session.workspace(work);
    let name = "cusparseXcoosortByRow";
    let rows = numbers(session, row_numbers, elements.into());
    let sorted = rows.and_then(|rows| {
        sort(
            session,
            name,
            &rows,
            [column_numbers, places],
            elements.into(),
        )
    });
    match sorted {
        Some(rows) => write_numbers(session, name, row_numbers, &rows),
        None => session.library_wrote(name, &[row_numbers, column_numbers, places]),
    }
    CusparseStatus::SUCCESS
}

/// Orders the elements of each row by column.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseXcsrsort(
    handle: u64,
    m: i32,
    n: i32,
    elements: i32,
    description: u64,
    row_offsets: u64,
    column_numbers: u64,
    places: u64,
    work: u64,
) -> CusparseStatus {
    let _ = (n, description);
    let session = match session_of(handle) {
        Ok(session) => session,
        Err(error) => return error,
    };
    session.workspace(work);
    let name = "cusparseXcsrsort";
    let offsets = numbers(session, row_offsets, i64::from(m) + 1);
    let rows = offsets
        .filter(|offsets| offsets.last() == Some(&elements))
        .map(|offsets| {
            let lengths = offsets
                .windows(2)
                .map(|pair| usize::try_from(pair[1] - pair[0]).unwrap_or(0));
            (0..)
                .zip(lengths)
                .flat_map(|(row, length)| std::iter::repeat_n(row, length))
                .collect::<Vec<i32>>()
        });
    if rows
        .and_then(|rows| {
            sort(
                session,
                name,
                &rows,
                [column_numbers, places],
                elements.into(),
            )
        })
        .is_none()
    {
        session.library_wrote(name, &[column_numbers, places]);
    }
    CusparseStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted() {
        let check = |numbers: &[i32], rows, base, expected: Option<&[i32]>| {
            assert_eq!(
                offsets(numbers, rows, base).as_deref(),
                expected,
                "{numbers:?}"
            );
        };
        check(&[], 2, 0, Some(&[0, 0, 0]));
        check(&[0, 0, 2], 3, 0, Some(&[0, 2, 2, 3]));
        check(&[1, 3], 3, 1, Some(&[1, 2, 2, 3]));
        check(&[3], 3, 0, None);
        check(&[-1], 3, 0, None);
    }
}
