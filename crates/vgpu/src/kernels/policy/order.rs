//! Sorts of values that nobody knows: they are taken to be in order already, so what is sorted along with them stays
//! where it is, and indices count up.

use super::launch::{Launch, is_number, width};
use super::tensor_info::TensorInfo;
use super::{Found, Ground, MAX_BYTES, counting, put_if_unknown};
use crate::kernels::assumed::pointee;
use crate::kernels::signature::Signature;
use crate::memory::Memory;

/// A kernel that sorts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `bitonicSortKVInPlace(keys, rows, row_len, stride, values, stride, ...)`, with the types.
    InPlace {
        number: String,
        values: String,
        width: u64,
    },
    /// Moves pairs of a key and a value: the parameters with the values and with their number.
    Pairs {
        from: usize,
        to: usize,
        elements: (usize, String),
        width: u64,
    },
    /// `sort_postprocess_kernel(keys, keys, indices, pairs, rows, row_len)`.
    Indices,
    /// `randperm_handle_duplicate_keys_kernel(keys, values, mask, n, ...)` exchanges values whose keys are equal.
    Shuffled { width: u64, elements: usize },
}

impl Order {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let types: Vec<&str> = signature.types().iter().map(String::as_str).collect();
        match (signature.function(), types.as_slice()) {
            (
                "bitonicSortKVInPlace" | "warpMergeSortKVInPlace" | "radixSortKVInPlace",
                [_, number, len, stride, values, within, ..],
            ) if is_number(number)
                && [len, stride, within].iter().all(|other| *other == number) =>
            {
                let element = values.split_once("TensorInfo<")?.1.split_once(',')?.0;
                Some(Self::InPlace {
                    number: (*number).to_owned(),
                    values: (*values).to_owned(),
                    width: width(element)?,
                })
            }
            (
                "DeviceRadixSortSingleTileKernel"
                | "DeviceRadixSortOnesweepKernel"
                | "DeviceRadixSortDownsweepKernel",
                _,
            ) => {
                let [from, to] = match signature.function() {
                    "DeviceRadixSortOnesweepKernel" => [7, 6],
                    _ => [2, 3],
                };
                let number = (0..types.len()).find(|at| is_number(types[*at]))?;
                (to < number && from < number).then_some(())?;
                Some(Self::Pairs {
                    from,
                    to,
                    elements: (number, types[number].to_owned()),
                    width: width(pointee(types[to])?)?,
                })
            }
            ("sort_postprocess_kernel", [_, _, "long*", "int2 const*", "int", "int"]) => {
                Some(Self::Indices)
            }
            ("randperm_handle_duplicate_keys_kernel", [_, values, _, "int", ..]) => {
                Some(Self::Shuffled {
                    width: width(pointee(values)?)?,
                    elements: 3,
                })
            }
            _ => None,
        }
    }

    /// Where the values are that a sort in place keeps, and how many bytes.
    fn in_place(&self, launch: Launch) -> Option<(u64, u64)> {
        match self {
            Self::InPlace {
                number,
                values,
                width,
            } => {
                let info = TensorInfo::read(launch, 4, values)?;
                let count = launch
                    .number(1, number)
                    .checked_mul(launch.number(2, number))?;
                Some((info.address, count.checked_mul(*width)?))
            }
            Self::Shuffled { width, elements } => {
                Some((launch.word(1, 0), u64::from(launch.int(*elements)) * width))
            }
            _ => None,
        }
    }

    pub(super) fn before(&self, memory: &Memory, launch: Launch) -> Found {
        let values = self
            .in_place(launch)
            .filter(|(address, len)| *len <= MAX_BYTES && memory.is_memory(*address, *len));
        Found(values.and_then(|(address, len)| {
            Some((address, memory.contents.known(address, len as usize)?))
        }))
    }

    pub(super) fn assume(&self, memory: &mut Memory, launch: Launch, found: Found, ground: Ground) {
        match self {
            Self::InPlace { .. } | Self::Shuffled { .. } => {
                if let Found(Some((address, known))) = found {
                    let ground = Ground {
                        assumption: known.assumption.or(ground.assumption),
                        ..ground
                    };
                    put_if_unknown(memory, address, known.bytes, ground);
                } else if let Self::InPlace { number, values, .. } = self
                    && let Some(info) = TensorInfo::read(launch, 4, values)
                    && launch.number(5, number) == 1
                {
                    let (rows, len) = (launch.number(1, number), launch.number(2, number));
                    identity(memory, info.address, rows, len, ground);
                }
            }
            Self::Pairs {
                from,
                to,
                elements,
                width,
            } => {
                let len = launch
                    .number(elements.0, &elements.1)
                    .saturating_mul(*width);
                let (from, to) = (launch.word(*from, 0), launch.word(*to, 0));
                if len <= MAX_BYTES
                    && memory.is_memory(from, len)
                    && let Some(known) = memory.contents.known(from, len as usize)
                {
                    put_if_unknown(memory, to, known.bytes, ground);
                }
            }
            Self::Indices => {
                let (rows, len) = (u64::from(launch.int(4)), u64::from(launch.int(5)));
                identity(memory, launch.word(2, 0), rows, len, ground);
            }
        }
    }
}

/// Indices of eight bytes that count up in each row.
fn identity(memory: &mut Memory, address: u64, rows: u64, len: u64, ground: Ground) {
    if let Some(bytes) = rows
        .checked_mul(len)
        .and_then(|count| counting(count, len, 8))
    {
        put_if_unknown(memory, address, bytes, ground);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_among_the_parameters() {
        let check = |text: &str, expected: Option<(usize, usize, usize, u64)>| {
            let found = match Order::of(&Signature::parse(text)) {
                Some(Order::Pairs {
                    from,
                    to,
                    elements,
                    width,
                }) => Some((from, to, elements.0, width)),
                _ => None,
            };
            assert_eq!(found, expected, "{text}");
        };
        check(
            "void cub::DeviceRadixSortSingleTileKernel<P>(float const*, float*, at::OpaqueType<8> const*, at::OpaqueType<8>*, unsigned long long, int, int, identity)",
            Some((2, 3, 4, 8)),
        );
        check(
            "void cub::DeviceRadixSortOnesweepKernel<P>(int*, int*, unsigned long long*, unsigned long long const*, float*, float const*, long*, long const*, int, int, int, identity)",
            Some((7, 6, 8, 8)),
        );
        check(
            "void cub::DeviceRadixSortOnesweepKernel<P>(int*, int*, unsigned long long*, unsigned long long const*, long*, long const*, cub::NullType*, cub::NullType const*, int, int, int, identity)",
            None,
        );
    }
}
