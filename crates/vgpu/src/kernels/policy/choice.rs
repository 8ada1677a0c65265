//! Choices among unknown scores: the best of each row, the `k` best, a sample.
//!
//! They route tokens to experts, name the next token, and assign boxes. Every candidate must get its share, or else
//! parameters would get no gradients; and a next token must not be one that ends a text, and those have the first and
//! the last numbers of a vocabulary. `--routing worst` gives every row the same choice, which is what the memory of the
//! busiest expert is largest for.

use oomproof_profile::Routing;

use super::launch::{Launch, is_number};
use super::tensor_info::TensorInfo;
use super::{Ground, MAX_BYTES, put, room};
use crate::contents::Pattern;
use crate::kernels::element::Element;
use crate::kernels::scalar::Scalar;
use crate::kernels::signature::{Signature, index_calculator_len, split_at_commas};
use crate::memory::Memory;

/// What the best of unknown scores is taken to be: a probability or an overlap is no larger.
const BEST: f64 = 1.0;
/// One in so many rows has a best score that passes thresholds; the others have none.
const PASSING: usize = 4;
/// Bytes that a pattern can hold.
const LONGEST_PATTERN: usize = 16;
/// Bytes of an index.
const INDEX: u64 = 8;
/// Offset of the sizes in a `ReduceOp` that tells where a value is: the operation takes one byte and its identity, a
/// value and an index, begins at the next multiple of eight.
const SIZES_AT: usize = 24;
/// Bytes of that identity, which is the first of the sizes.
const IDENTITY: u32 = 16;
/// Bytes of the sizes.
const SIZES: usize = 64;

/// A kernel that chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// `gatherTopK(input, candidates, k, largest, rows, stride, values, stride, indices, stride, ...)`, with the types.
    TopK {
        input: String,
        number: String,
        indices: String,
    },
    /// `reduce_kernel(ReduceOp)` whose indices are the first output.
    Best,
    /// As `Best`, with values of this many bytes as first output and the indices as second.
    BestAndWhere {
        value: u64,
        /// The type of the values, where they have fractions and the best is the largest.
        largest: Option<Scalar>,
    },
    /// `sampleMultinomialWithReplacement(seed, samples, indices, rows, categories, ...)`.
    Sample,
    /// `sampleMultinomialOnce(indices, rows, categories, ...)`.
    SampleOnce,
}

impl Choice {
    pub(super) fn of(signature: &Signature) -> Option<Self> {
        let types: Vec<&str> = signature.types().iter().map(String::as_str).collect();
        match (signature.function(), types.as_slice()) {
            (
                "gatherTopK",
                [
                    input,
                    n,
                    k,
                    "bool",
                    rows,
                    stride,
                    _,
                    values,
                    indices,
                    within,
                    ..,
                ],
            ) if indices.contains("TensorInfo<long,")
                && is_number(n)
                && [k, rows, stride, values, within]
                    .iter()
                    .all(|other| *other == n) =>
            {
                Some(Self::TopK {
                    input: (*input).to_owned(),
                    number: (*n).to_owned(),
                    indices: (*indices).to_owned(),
                })
            }
            ("reduce_kernel", [operation]) => Self::of_reduction(operation),
            ("sampleMultinomialWithReplacement", [_, "int", "long*", "long", "int", ..]) => {
                Some(Self::Sample)
            }
            ("sampleMultinomialOnce", ["long*", "long", "int", ..]) => Some(Self::SampleOnce),
            _ => None,
        }
    }

    fn of_reduction(operation: &str) -> Option<Self> {
        let inside = operation
            .strip_prefix("at::native::ReduceOp<")?
            .strip_suffix('>')?;
        let [_, operation, index, output, ..] = split_at_commas(inside)[..] else {
            return None;
        };
        let name = operation.split('<').next()?.rsplit("::").next()?;
        match name {
            _ if index != "unsigned int" => None,
            "ArgMaxOps" | "ArgMinOps" if output == "long" => Some(Self::Best),
            "MaxOps" | "MinOps" => Some(Self::BestAndWhere {
                value: super::launch::width(output)?,
                largest: Scalar::named(output)
                    .filter(|scalar| name == "MaxOps" && !scalar.is_whole()),
            }),
            _ => None,
        }
    }

    pub(super) fn assume(&self, memory: &mut Memory, launch: Launch, ground: Ground) {
        match self {
            Self::TopK {
                input,
                number,
                indices,
            } => {
                let [candidates, k, rows] = [1, 2, 4].map(|index| launch.number(index, number));
                let Some(info) = TensorInfo::read(launch, 8, indices) else {
                    return;
                };
                let within = launch.number(9, number);
                let spread = Spread {
                    candidates,
                    picks: k,
                    routing: ground.routing,
                };
                let stride = launch.number(5, number);
                let is_largest = launch.argument_byte(3) != 0;
                let scores = Scores::read(launch, input, stride, is_largest);
                let ranked: Vec<Option<Vec<u64>>> = scores
                    .filter(|_| rows.saturating_mul(candidates) <= MAX_SCORES)
                    .map_or(Vec::new(), |scores| {
                        let row = |row| scores.picks(memory, row, spread);
                        (0..rows).map(row).collect()
                    });
                let pick = |row: u64, pick: u64| match ranked.get(row as usize) {
                    Some(Some(picks)) => picks[pick as usize],
                    _ => spread.pick(row, pick),
                };
                let place = |row, pick| info.slice(row) + pick * within;
                write(memory, info.address, (rows, k), ground, pick, place);
            }
            Self::Best | Self::BestAndWhere { .. } => self.assume_reduction(memory, launch, ground),
            Self::Sample => {
                let spread = Spread {
                    candidates: u64::from(launch.int(4)),
                    picks: u64::from(launch.int(1)),
                    routing: ground.routing,
                };
                let (address, rows) = (launch.word(2, 0), launch.word(3, 0));
                let pick = |row, pick| spread.pick(row, pick);
                write(
                    memory,
                    address,
                    (rows, spread.picks),
                    ground,
                    pick,
                    |row, pick| row * spread.picks + pick,
                );
            }
            Self::SampleOnce => {
                let spread = Spread {
                    candidates: u64::from(launch.int(2)),
                    picks: 1,
                    routing: ground.routing,
                };
                let (address, rows) = (launch.word(0, 0), launch.word(1, 0));
                let pick = |row, pick| spread.pick(row, pick);
                write(memory, address, (rows, 1), ground, pick, |row, _| row);
            }
        }
    }

    fn assume_reduction(&self, memory: &mut Memory, launch: Launch, ground: Ground) {
        let [identity, candidates, rows] =
            [0, 4, 8].map(|offset| launch.int_at(0, SIZES_AT + offset));
        if identity != IDENTITY {
            return;
        }
        let calculator = SIZES_AT + SIZES + index_calculator_len(1);
        let addresses = (calculator + index_calculator_len(2)).next_multiple_of(8);
        let (output, width) = match self {
            Self::BestAndWhere { value, .. } => (2, *value),
            _ => (1, INDEX),
        };
        let address = launch.long_at(0, addresses + output * 8);
        let n_dims = launch.int_at(0, calculator) as usize;
        if n_dims > 25 {
            return;
        }
        let dims: Vec<(u64, u64)> = (0..n_dims)
            .map(|dim| {
                let size = launch.int_at(0, calculator + 4 + dim * 12);
                let stride = launch.int_at(0, calculator + 4 + 25 * 12 + dim * 8);
                (u64::from(size), u64::from(stride) / width)
            })
            .collect();
        // Matches and the rest are both sampled up to a limit, so that some must pass a threshold and some must not.
        if let Self::BestAndWhere {
            largest: Some(scalar),
            ..
        } = self
            && matches!(dims[..], [] | [(_, 1)])
        {
            let values = launch.long_at(0, addresses + 8);
            let len = room(memory, values, u64::from(rows) * scalar.width() as u64);
            let period = PASSING.min(LONGEST_PATTERN / scalar.width());
            let scores =
                (0..period).flat_map(|row| scalar.bytes(if row == 0 { BEST } else { 0.0 }));
            let pattern = Pattern::new(&scores.collect::<Vec<u8>>());
            if memory.contents.unknown(values, len) > 0
                && let Some(pattern) = pattern
            {
                let assumption = ground.assumption;
                memory
                    .contents
                    .fill_assumed(values, len, pattern, assumption);
            }
        }
        let spread = Spread {
            candidates: u64::from(candidates),
            picks: 1,
            routing: ground.routing,
        };
        write(
            memory,
            address,
            (u64::from(rows), 1),
            ground,
            |row, pick| spread.pick(row, pick),
            |row, _| {
                let mut rest = row;
                let mut offset = 0;
                for (size, stride) in &dims {
                    offset += rest % (*size).max(1) * stride;
                    rest /= (*size).max(1);
                }
                offset
            },
        );
    }
}

/// Scores further from zero than this are marks rather than scores.
const FAR: f64 = 1e4;
/// More scores than this are not looked at one by one.
const MAX_SCORES: u64 = 1 << 17;

/// How picks are spread over the candidates.
#[derive(Clone, Copy, Debug)]
struct Spread {
    candidates: u64,
    picks: u64,
    routing: Routing,
}

/// With more candidates than this they are the words of a vocabulary, or words times beams.
const MOST_EXPERTS: u64 = 4096;

impl Spread {
    /// The candidate that a row picks.
    fn pick(self, row: u64, pick: u64) -> u64 {
        let n = self.candidates.max(1);
        // No multiple of the golden ratio is near a whole number, so that the first pick among the words of any number
        // of beams is neither among the first nor among the last words.
        let start = (u128::from(n) * 618 / 1000) as u64;
        let row = match self.routing {
            Routing::Balanced => row,
            Routing::Worst => 0,
        };
        let step = row.wrapping_mul(self.picks).wrapping_add(pick);
        let window = if n > MOST_EXPERTS { n / 4 } else { n };
        let window = window.max(self.picks).min(n);
        (start + step % window) % n
    }
}

/// Scores that are known in part, such as those of candidates that must not be chosen.
struct Scores {
    info: TensorInfo,
    element: Element,
    /// From one candidate to the next, in elements.
    stride: u64,
    is_largest: bool,
}

impl Scores {
    /// Of the first argument, a `TensorInfo` of this C++ type.
    fn read(launch: Launch, cpp_type: &str, stride: u64, is_largest: bool) -> Option<Self> {
        let (_, inside) = cpp_type.split_once("TensorInfo<")?;
        let name = split_at_commas(inside)
            .first()?
            .trim()
            .trim_end_matches("const");
        Some(Self {
            info: TensorInfo::read(launch, 0, cpp_type)?,
            element: Element::named(name.trim())?,
            stride,
            is_largest,
        })
    }

    /// The picks of a row whose scores are known in part: first what is far above ordinary numbers, last what is far
    /// below them. `None` where that does not tell candidates apart.
    fn picks(&self, memory: &Memory, row: u64, spread: Spread) -> Option<Vec<u64>> {
        let len = self.element.len();
        let at = |candidate| {
            let index = self.info.slice(row) + candidate * self.stride;
            self.info.address + index * len as u64
        };
        let extent = at(spread.candidates - 1) + len as u64 - at(0);
        if memory.contents.unknown(at(0), extent) == extent {
            return None;
        }
        let score = |candidate| {
            let known = memory.contents.known(at(candidate), len)?;
            Some(self.element.read(&known.bytes)?.as_f64())
        };
        let scores = (0..spread.candidates)
            .map(score)
            .collect::<Vec<Option<f64>>>();
        ranked(&scores, row, spread, self.is_largest)
    }
}

/// The candidates that a row picks by these scores.
fn ranked(scores: &[Option<f64>], row: u64, spread: Spread, is_largest: bool) -> Option<Vec<u64>> {
    let [mut first, mut equal, mut last] = [const { Vec::new() }; 3];
    for (candidate, score) in (0..).zip(scores) {
        let score = score.unwrap_or(0.0) * if is_largest { 1.0 } else { -1.0 };
        match score {
            _ if score > FAR => first.push(candidate),
            _ if score < -FAR => last.push(candidate),
            _ => equal.push(candidate),
        }
    }
    if equal.len() == scores.len() {
        return None;
    }
    let left = spread.picks.saturating_sub(first.len() as u64);
    let among = Spread {
        candidates: equal.len() as u64,
        picks: left.min(equal.len() as u64),
        ..spread
    };
    let chosen = (0..among.picks).map(|pick| equal[among.pick(row, pick) as usize]);
    let picks: Vec<u64> = first.into_iter().chain(chosen).chain(last).collect();
    Some(picks.into_iter().take(spread.picks as usize).collect())
}

/// Writes so many picks of so many rows where `place` says, in elements from `address` on.
fn write(
    memory: &mut Memory,
    address: u64,
    (rows, picks): (u64, u64),
    ground: Ground,
    choose: impl Fn(u64, u64) -> u64,
    place: impl Fn(u64, u64) -> u64,
) {
    let Some(count) = rows
        .checked_mul(picks)
        .filter(|count| *count > 0 && count.saturating_mul(INDEX) <= MAX_BYTES)
    else {
        return;
    };
    let mut dense = vec![None; count as usize];
    let mut scattered = Vec::new();
    for row in 0..rows {
        for pick in 0..picks {
            let (at, value) = (place(row, pick), choose(row, pick));
            match dense.get_mut(at as usize) {
                Some(place) => *place = Some(value),
                None => scattered.push((at, value)),
            }
        }
    }
    let first = address + place(0, 0) * INDEX;
    if !memory.is_memory(first, INDEX) || memory.contents.unknown(first, INDEX) == 0 {
        return;
    }
    if scattered.is_empty() {
        let bytes = dense
            .iter()
            .flat_map(|value| value.unwrap_or(0).to_ne_bytes());
        let bytes = bytes.collect();
        put(memory, address, bytes, ground);
        return;
    }
    let near = (0..).zip(dense);
    let near = near.filter_map(|(at, value)| value.map(|value| (at, value)));
    for (at, value) in near.chain(scattered) {
        put(
            memory,
            address + at * INDEX,
            value.to_ne_bytes().to_vec(),
            ground,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&Choice>) {
        let found = Choice::of(&Signature::parse(text));
        assert_eq!(found.as_ref(), expected, "{text}");
    }

    #[test]
    fn are_known_by_their_signature() {
        let info = |element: &str| format!("at::cuda::detail::TensorInfo<{element}, unsigned int>");
        let (input, values, indices) = (info("float const"), info("float"), info("long"));
        let u = "unsigned int";
        check(
            &format!(
                "void at::native::sbtopk::gatherTopK<float, {u}, 2, false>({input}, {u}, {u}, bool, {u}, {u}, {values}, {u}, {indices}, {u}, float*)"
            ),
            Some(&Choice::TopK {
                input: input.clone(),
                number: u.to_owned(),
                indices: indices.clone(),
            }),
        );
        check(
            &format!(
                "void gatherTopK<float>({input}, {u}, {u}, bool, {u}, {u}, {values}, {u}, {values}, {u})"
            ),
            None,
        );
        let reduce = |operation: &str| {
            format!(
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<{operation}> >(at::native::ReduceOp<{operation}>)"
            )
        };
        check(
            &reduce("float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4"),
            Some(&Choice::Best),
        );
        check(
            &reduce(
                "c10::BFloat16, at::native::MaxOps<c10::BFloat16>, unsigned int, c10::BFloat16, 4, 4",
            ),
            Some(&Choice::BestAndWhere {
                value: 2,
                largest: Some(Scalar::BFloat16),
            }),
        );
        check(
            &reduce(
                "float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4",
            ),
            None,
        );
        check(
            "void at::native::(anonymous namespace)::sampleMultinomialWithReplacement<float>(at::PhiloxCudaState, int, long*, long, int, float const*, float const*)",
            Some(&Choice::Sample),
        );
    }

    fn spread(candidates: u64, picks: u64, routing: Routing) -> Spread {
        Spread {
            candidates,
            picks,
            routing,
        }
    }

    /// How often each candidate is picked by this many rows.
    fn counts(spread: Spread, rows: u64) -> Vec<u64> {
        let mut counts = vec![0; spread.candidates as usize];
        for row in 0..rows {
            let mut picks: Vec<u64> = (0..spread.picks)
                .map(|pick| spread.pick(row, pick))
                .collect();
            for pick in &picks {
                counts[*pick as usize] += 1;
            }
            picks.sort_unstable();
            picks.dedup();
            assert_eq!(picks.len() as u64, spread.picks, "a candidate twice");
        }
        counts
    }

    #[test]
    fn balanced_choices_are_even() {
        for (candidates, picks, rows) in
            [(8, 2, 64), (8, 1, 3), (128, 8, 100), (3, 3, 5), (60, 4, 30)]
        {
            let counts = counts(spread(candidates, picks, Routing::Balanced), rows);
            let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(high - low <= 1, "{counts:?}");
        }
    }

    #[test]
    fn the_worst_choice_is_always_the_same() {
        let counts = counts(spread(8, 2, Routing::Worst), 10);
        assert_eq!(counts.iter().filter(|count| **count == 10).count(), 2);
    }

    #[test]
    fn marked_candidates_come_last() {
        let check = |scores: &[Option<f64>], is_largest, expected: Option<&[u64]>| {
            let spread = spread(scores.len() as u64, 2, Routing::Balanced);
            let found = ranked(scores, 0, spread, is_largest);
            let found = found.map(|mut picks| {
                picks.sort_unstable();
                picks
            });
            assert_eq!(found.as_deref(), expected, "{scores:?}");
        };
        let (low, high) = (Some(-1e9), Some(1e9));
        check(&[low, low, None, None, low], true, Some(&[2, 3]));
        check(&[low, None, low, low, low], true, Some(&[0, 1]));
        check(&[high, None, low, Some(3.0)], false, Some(&[2, 3]));
        check(&[low, high, low, None], true, Some(&[1, 3]));
        check(&[None, Some(1.0), None], true, None);
    }

    #[test]
    fn words_are_not_special_ones() {
        for (words, beams) in [32_000, 50_257, 128_256, 151_936, 256_000, 30_522]
            .into_iter()
            .flat_map(|words| (1..=16).map(move |beams| (words, beams)))
        {
            for row in 0..64 {
                let picked =
                    spread(words * beams, 2 * beams, Routing::Balanced).pick(row, 0) % words;
                assert!(
                    picked > 200 && picked < words - words / 100,
                    "{picked} of {words} with {beams} beams"
                );
            }
        }
    }
}
