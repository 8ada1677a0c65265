//! Where the elements of strided tensors lie: PyTorch's index calculators and tensor descriptions, as they lie in the
//! arguments of kernels.
//!
//! A layout is used only if what it shows makes sense: a number of dimensions, sizes that multiply to the number of
//! elements. Whatever does not is not an index calculator, and the kernel is not carried out.

use super::super::signature::index_calculator_len;
use super::argument::Argument;

/// PyTorch's largest number of dimensions.
const MAX_DIMS: usize = 25;

/// Sizes and strides, the fastest dimension first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strides {
    pub(crate) sizes: Vec<i64>,
    /// For each tensor, for each dimension.
    pub(crate) strides: Vec<Vec<i64>>,
}

impl Strides {
    /// Reads `OffsetCalculator<n_tensors, unsigned int>`, whose strides are signed for flips.
    pub(crate) fn calculator(argument: Argument, n_tensors: usize) -> Option<Self> {
        let n_dims = usize::try_from(argument.i32(0)).ok()?;
        if n_dims > MAX_DIMS {
            return None;
        }
        let sizes = (0..n_dims).map(|dim| i64::from(argument.u32(4 + dim * 12)));
        let sizes: Vec<i64> = sizes.collect();
        if sizes.contains(&0) {
            return None;
        }
        let strides_at = 4 + MAX_DIMS * 12;
        let strides = (0..n_tensors).map(|tensor| {
            (0..n_dims)
                .map(|dim| {
                    i64::from(argument.i32(strides_at + (dim * n_tensors.max(1) + tensor) * 4))
                })
                .collect()
        });
        Some(Self {
            strides: strides.collect(),
            sizes,
        })
    }

    /// Reads `TensorInfo<T, index>`: address, sizes, strides in elements, number of dimensions; `index_len` is the
    /// size of the index.
    pub(crate) fn tensor_info(argument: Argument, index_len: usize) -> Option<(u64, Self)> {
        let number = |at: usize| match index_len {
            4 => Some(i64::from(argument.i32(at))),
            8 => Some(argument.u64(at) as i64),
            _ => None,
        };
        let strides_at = 8 + MAX_DIMS * index_len;
        let n_dims = argument.i32(strides_at + MAX_DIMS * index_len);
        let n_dims = usize::try_from(n_dims)
            .ok()
            .filter(|dims| *dims <= MAX_DIMS)?;
        // Its dimensions are in the usual order, the fastest last.
        let sizes: Option<Vec<i64>> = (0..n_dims)
            .rev()
            .map(|dim| number(8 + dim * index_len))
            .collect();
        let strides: Option<Vec<i64>> = (0..n_dims)
            .rev()
            .map(|dim| number(strides_at + dim * index_len))
            .collect();
        let (sizes, strides) = (sizes?, strides?);
        if sizes.iter().any(|size| *size < 0) {
            return None;
        }
        let strides = vec![strides];
        Some((argument.u64(0), Self { sizes, strides }))
    }

    /// Bytes of the calculator that was read, up to where an address may follow.
    pub(crate) const fn calculator_len(n_tensors: usize) -> usize {
        index_calculator_len(n_tensors).next_multiple_of(8)
    }

    pub(crate) fn count(&self) -> Option<usize> {
        self.sizes
            .iter()
            .try_fold(1i64, |product, size| product.checked_mul(*size))
            .and_then(|count| usize::try_from(count).ok())
    }

    /// The offset of the element at `index`.
    pub(crate) fn offset(&self, tensor: usize, index: usize) -> i64 {
        let mut rest = index as i64;
        let mut offset = 0;
        let last = self.sizes.len().saturating_sub(1);
        for (dim, (size, stride)) in self.sizes.iter().zip(&self.strides[tensor]).enumerate() {
            // The outermost dimension takes what is left, whatever its size.
            let at = if dim == last { rest } else { rest % size };
            offset += at * stride;
            rest /= (*size).max(1);
        }
        offset
    }

    /// The offsets of the first `count` elements of a tensor, in the unit of its strides.
    pub(crate) fn offsets(&self, tensor: usize, count: usize) -> Vec<i64> {
        let strides = &self.strides[tensor];
        let mut position = vec![0i64; self.sizes.len()];
        let mut offset = 0;
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            out.push(offset);
            for (dim, at) in position.iter_mut().enumerate() {
                *at += 1;
                offset += strides[dim];
                if *at < self.sizes[dim] {
                    break;
                }
                offset -= strides[dim] * *at;
                *at = 0;
            }
        }
        out
    }
}

/// Offsets of `count` elements of `len` bytes that follow each other.
pub(crate) fn contiguous(count: usize, len: usize) -> Vec<i64> {
    (0..count).map(|index| (index * len) as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[i64], strides: &[i64], expected: &[i64]) {
        let tensor = Strides {
            sizes: sizes.to_vec(),
            strides: vec![strides.to_vec()],
        };
        assert_eq!(tensor.offsets(0, expected.len()), expected);
        let one_by_one: Vec<i64> = (0..expected.len()).map(|i| tensor.offset(0, i)).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn elements_lie_where_the_strides_say() {
        check(&[], &[], &[0]);
        check(&[3], &[8], &[0, 8, 16]);
        check(&[2, 3], &[12, 4], &[0, 12, 4, 16, 8, 20]);
        check(&[2, 2], &[0, 8], &[0, 0, 8, 8]);
        check(&[3], &[-4], &[0, -4, -8]);
        check(&[2, 1, 2], &[1, 7, 10], &[0, 1, 10, 11]);
    }
}
