//! How many elements are left: nonzero ones, runs of equal ones, unique keys. The host reads such a count to size what
//! comes next, so it is taken at its bound, and the kernel that moves the elements that are left leaves them all.
//!
//! These kernels are CUB's, instantiated for many types; they are known by the order of their parameters.

use super::launch::{Launch, is_number, width};
use super::{Found, Ground, MAX_BYTES, counting, fill, put, put_if_unknown};
use crate::kernels::assumed::pointee;
use crate::kernels::signature::Signature;
use crate::memory::Memory;

/// A parameter and its C++ type.
type Typed = (usize, String);

/// A kernel that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Sums up which elements are nonzero into one number, or into one for each block.
    Nonzero { count: Typed, elements: Typed },
    /// As `Nonzero`, of truths for `unique`: neither none nor all of them.
    Truths { count: Typed, elements: Typed },
    /// Sums up what `Nonzero` left for each block: input and output.
    Blocks { parts: Typed, count: Typed },
    /// Moves the elements that are left.
    Select(Select),
}

/// A kernel that moves the elements that are left, and what it moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    /// Where the number of elements that are left goes.
    count: Typed,
    /// The number of elements that there are.
    elements: Typed,
    /// Input and output; the input may be numbers that count up instead of memory.
    moved: Vec<(Typed, Typed)>,
    /// How long each run of equal elements is.
    lengths: Option<Typed>,
}

fn typed(types: &[String], index: usize) -> Typed {
    (index, types[index].clone())
}

impl Count {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let types = signature.types();
        let is_written = |text: &String| pointee(text).is_some_and(is_number);
        let number_after = |from: usize| (from..types.len()).find(|at| is_number(&types[*at]));
        match signature.function() {
            "DeviceReduceSingleTileKernel" | "DeviceReduceKernel" => {
                let count = types.iter().skip(1).position(is_written)? + 1;
                let elements = number_after(count)?;
                let counted = types.first()?;
                let (count, elements) = (typed(types, count), typed(types, elements));
                if counted.contains("NonZeroOp<") {
                    Some(Self::Nonzero { count, elements })
                } else if counted.contains("MapNumberOfTrueValues") {
                    Some(Self::Truths { count, elements })
                } else {
                    is_written(counted).then(|| Self::Blocks {
                        parts: typed(types, 0),
                        count,
                    })
                }
            }
            "DeviceSelectSweepKernel" => {
                let state = state(types)?;
                let [input, _, output, count] = types.get(..state)? else {
                    return None;
                };
                is_written(count).then_some(())?;
                let moves = pointee(output).is_some() && width_of(input) == width_of(output);
                let elements = typed(types, number_after(state)?);
                Some(Self::Select(Select {
                    count: typed(types, 3),
                    elements,
                    moved: if moves {
                        vec![(typed(types, 0), typed(types, 2))]
                    } else {
                        Vec::new()
                    },
                    lengths: None,
                }))
            }
            "DeviceReduceByKeyKernel" => {
                let state = state(types)?;
                let [keys, left, _, lengths, count] = types.get(..state)? else {
                    return None;
                };
                (is_written(count) && is_written(lengths) && width_of(keys) == width_of(left))
                    .then_some(())?;
                let elements = (state..types.len())
                    .rev()
                    .find(|at| is_number(&types[*at]))?;
                Some(Self::Select(Select {
                    count: typed(types, 4),
                    elements: typed(types, elements),
                    moved: vec![(typed(types, 0), typed(types, 1))],
                    lengths: types[2]
                        .contains("constant_iterator<")
                        .then(|| typed(types, 3)),
                }))
            }
            "DeviceUniqueByKeySweepKernel" => {
                let state = state(types)?;
                let [.., count] = types.get(..state)? else {
                    return None;
                };
                (state == 5 && is_written(count)).then_some(())?;
                Some(Self::Select(Select {
                    count: typed(types, 4),
                    elements: typed(types, number_after(state)?),
                    moved: vec![
                        (typed(types, 0), typed(types, 2)),
                        (typed(types, 1), typed(types, 3)),
                    ],
                    lengths: None,
                }))
            }
            _ => None,
        }
    }

    pub(super) fn statement(&self) -> &'static str {
        match self {
            Self::Nonzero { .. } | Self::Blocks { .. } => {
                "all elements that are not known were taken to be nonzero"
            }
            Self::Truths { .. } => "both true and false were taken to be among unknown values",
            Self::Select(select) if select.counts_up() => {
                "all elements that are not known were taken to be nonzero"
            }
            Self::Select(_) => "all elements that are not known were taken to be different",
        }
    }

    pub(super) fn before(&self, memory: &Memory, launch: Launch) -> Found {
        Found(match self {
            Self::Blocks { parts, .. } => {
                let address = launch.word(parts.0, 0);
                let width = width_of(&parts.1).unwrap_or(4);
                memory
                    .contents
                    .known(address, width as usize)
                    .map(|first| (address, first))
            }
            _ => None,
        })
    }

    pub(super) fn assume(&self, memory: &mut Memory, launch: Launch, found: Found, ground: Ground) {
        match self {
            Self::Nonzero { count, elements } => {
                let all = launch.number(elements.0, &elements.1);
                put_count(memory, launch, count, all, ground);
            }
            Self::Truths { count, elements } => {
                let all = launch.number(elements.0, &elements.1);
                put_count(memory, launch, count, all.div_ceil(2), ground);
            }
            Self::Blocks { count, .. } => {
                // `Nonzero` leaves the sum in the first part.
                if let Found(Some((_, first))) = found
                    && first.assumption.is_some()
                {
                    let ground = Ground {
                        assumption: first.assumption,
                        ..ground
                    };
                    put_if_unknown(memory, launch.word(count.0, 0), first.bytes, ground);
                }
            }
            Self::Select(select) => select.assume(memory, launch, ground),
        }
    }
}

impl Select {
    fn counts_up(&self) -> bool {
        let Some((input, _)) = self.moved.first() else {
            return false;
        };
        input.1.contains("counting_iterator<") || input.1.contains("CountingInputIterator<")
    }

    fn assume(&self, memory: &mut Memory, launch: Launch, ground: Ground) {
        let counted = launch.word(self.count.0, 0);
        let width = width_of(&self.count.1).unwrap_or(8);
        if memory.contents.unknown(counted, width) == 0 {
            return;
        }
        let all = launch.number(self.elements.0, &self.elements.1);
        put_count(memory, launch, &self.count, all, ground);
        for (input, output) in &self.moved {
            let (from, to) = (launch.word(input.0, 0), launch.word(output.0, 0));
            let Some(width) = width_of(&output.1) else {
                continue;
            };
            if self.counts_up() {
                if let Some(bytes) = counting(all, u64::MAX, width) {
                    put_if_unknown(memory, to, bytes, ground);
                }
            } else if all * width <= MAX_BYTES
                && memory.is_memory(from, all * width)
                && let Some(known) = memory.contents.known(from, (all * width) as usize)
            {
                put_if_unknown(memory, to, known.bytes, ground);
            }
        }
        if let Some(lengths) = &self.lengths
            && let Some(width) = width_of(&lengths.1)
        {
            let one = &1u64.to_ne_bytes()[..width as usize];
            fill(memory, launch.word(lengths.0, 0), all, one, ground);
        }
    }
}

fn put_count(memory: &mut Memory, launch: Launch, count: &Typed, value: u64, ground: Ground) {
    let address = launch.word(count.0, 0);
    let width = width_of(&count.1).unwrap_or(4);
    if memory.contents.unknown(address, width) > 0 {
        let bytes = value.to_ne_bytes()[..width as usize].to_vec();
        put(memory, address, bytes, ground);
    }
}

/// The parameter that holds what the blocks of a kernel tell each other; sizes come after it.
fn state(types: &[String]) -> Option<usize> {
    types
        .iter()
        .position(|text| text.contains("ScanTileState<"))
}

/// Bytes of what a pointer or an iterator points to.
fn width_of(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(pointee) = text.strip_suffix('*') {
        let pointee = pointee.trim();
        let pointee = pointee.strip_suffix("const").unwrap_or(pointee);
        return width(pointee.trim().strip_prefix("const ").unwrap_or(pointee));
    }
    for iterator in [
        "counting_iterator<",
        "CountingInputIterator<",
        "device_ptr<",
    ] {
        if let Some((_, inside)) = text.split_once(iterator) {
            return width(inside.split([',', '>']).next()?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Count> {
        Count::of(&Signature::parse(text))
    }

    fn names(count: &Count) -> (&str, usize, usize) {
        match count {
            Count::Nonzero { count, elements } => ("nonzero", count.0, elements.0),
            Count::Truths { count, elements } => ("truths", count.0, elements.0),
            Count::Blocks { parts, count } => ("blocks", count.0, parts.0),
            Count::Select(select) => ("select", select.count.0, select.elements.0),
        }
    }

    #[test]
    fn counts_and_sizes_are_found_among_the_parameters() {
        let check =
            |text: &str, expected| assert_eq!(of(text).as_ref().map(names), expected, "{text}");
        check(
            "void cub::DeviceReduceSingleTileKernel<P>(thrust::transform_iterator<at::NonZeroOp<bool>, bool const*, d, d>, int*, unsigned long long, plus, int, identity)",
            Some(("nonzero", 1, 2)),
        );
        check(
            "void cub::DeviceReduceKernel<P>(cub::TransformInputIterator<bool, at::NonZeroOp<float>, float const*, long>, int*, int, cub::GridEvenShare<int>, plus)",
            Some(("nonzero", 1, 2)),
        );
        check(
            "void cub::DeviceReduceSingleTileKernel<P>(int*, int*, int, plus, int, identity)",
            Some(("blocks", 1, 0)),
        );
        check(
            "void cub::DeviceReduceSingleTileKernel<P>(float const*, float*, int, plus, float)",
            None,
        );
        check(
            "void cub::DeviceSelectSweepKernel<P>(thrust::counting_iterator<long, d, d>, thrust::transform_iterator<at::NonZeroOp<bool>, bool const*>, long*, int*, cub::ScanTileState<int, true>, cub::NullType, cub::NullType, int, int, cub::vsmem_t)",
            Some(("select", 3, 7)),
        );
        check(
            "void cub::DeviceReduceByKeyKernel<P>(float const*, float*, thrust::constant_iterator<long, long, d>, long*, long*, cub::ReduceByKeyScanTileState<long, int, true>, int, equal_to, plus, int, streaming, cub::vsmem_t)",
            Some(("select", 4, 9)),
        );
        check(
            "void cub::DeviceUniqueByKeySweepKernel<P>(thrust::device_ptr<long>, thrust::device_ptr<long>, thrust::device_ptr<long>, thrust::device_ptr<long>, unsigned int*, cub::ScanTileState<unsigned int, true>, equal_to, unsigned int, int, cub::vsmem_t)",
            Some(("select", 4, 7)),
        );
        check("void f(int*, int)", None);
    }
}
