//! `TensorInfo<T, Index>`, PyTorch's description of a strided tensor in the arguments of many kernels: an address, 25
//! sizes, 25 strides in elements and a number of dimensions, all as wide as the index.

use super::launch::Launch;

const MAX_DIMS: usize = 25;

/// Where the elements of a tensor lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorInfo {
    pub(super) address: u64,
    /// Size and stride of each dimension, outermost first.
    dims: Vec<(u64, u64)>,
}

impl TensorInfo {
    /// Reads an argument of this C++ type.
    pub(super) fn read(launch: Launch, index: usize, cpp_type: &str) -> Option<Self> {
        let is_wide = cpp_type
            .rsplit(',')
            .next()
            .is_some_and(|last| last.contains("long"));
        let number = |at: usize| {
            if is_wide {
                launch.long_at(index, 8 + at * 8)
            } else {
                u64::from(launch.int_at(index, 8 + at * 4))
            }
        };
        let n_dims = launch.int_at(index, 8 + 2 * MAX_DIMS * if is_wide { 8 } else { 4 }) as usize;
        (n_dims <= MAX_DIMS).then(|| Self {
            address: launch.word(index, 0),
            dims: (0..n_dims)
                .map(|dim| (number(dim), number(MAX_DIMS + dim)))
                .collect(),
        })
    }

    /// Offset in elements of the slice with this number; the dimension that slices run along has size 1.
    pub(super) fn slice(&self, number: u64) -> u64 {
        let mut rest = number;
        let mut offset = 0;
        for (at, (size, stride)) in self.dims.iter().enumerate().rev() {
            let here = if at == 0 { rest } else { rest % (*size).max(1) };
            offset += here * stride;
            rest /= (*size).max(1);
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_sizes_and_strides() {
        let info = |dims: &[(u64, u64)]| TensorInfo {
            address: 0,
            dims: dims.to_vec(),
        };
        assert_eq!(info(&[(10, 2)]).slice(3), 6);
        assert_eq!(info(&[(2, 100), (3, 4)]).slice(4), 104);
        assert_eq!(info(&[(2, 100), (1, 4), (5, 1)]).slice(7), 102);
        assert_eq!(info(&[]).slice(0), 0);
    }
}
