//! Random numbers: drawn by the generator that a GPU uses, from the seed and the offset that PyTorch passes, so that
//! they are those of a real GPU of as many multiprocessors, up to the last digits of logarithms and sines.
//!
//! While a graph is captured they are unknown, because each launch of the graph draws others.

use super::super::element::{Element, Value};
use super::super::signature::{Signature, split_at_commas};
use super::Work;
use super::access::{Access, MAX_ELEMENTS};
use super::argument::{Argument, Launch};
use super::iterator::pointee;
use super::offsets::Strides;
use super::philox::Philox;
use super::slices::slice_types;

/// Threads of a block in the kernels of distributions.
const BLOCK: u64 = 256;

pub(super) fn recognize(signature: &Signature) -> Option<Work> {
    match signature.function() {
        "distribution_elementwise_grid_stride_kernel" => distribution(signature),
        "kernelPointwiseApply2" => bernoulli_of_tensor(signature.types()),
        "randperm_handle_duplicate_keys_kernel" => {
            // Equal keys are put in a random order, and the one that they are in is random, too.
            Some(Box::new(|launch, access| {
                (!access.is_deferred() && launch.grid[0] > 0).then_some(())
            }))
        }
        "sampleMultinomialWithReplacement" => multinomial(signature.types()),
        "renormRowsL1" => normalize(signature.types()),
        _ => None,
    }
}

/// `PhiloxCudaState`: seed and offset.
fn seeds(argument: Argument, access: &Access) -> Option<(u64, u64)> {
    (!access.is_deferred()).then(|| (argument.u64(0), argument.u64(8)))
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    Uniform,
    Normal,
    Words,
    LongWords,
}

/// What is made of what was drawn; the lambda holds the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Make {
    /// Range, start, end.
    Between,
    /// Mean, deviation.
    Normal,
    LogNormal,
    /// Probability.
    Bernoulli,
    Geometric,
    /// Rate.
    Exponential,
    /// Median, scale.
    Cauchy,
    /// Range, base.
    WholeBetween,
    /// Nothing: any whole number that is not negative.
    Whole,
}

impl Make {
    fn of(kernel: &str) -> Option<(Self, Draw)> {
        // The longer names first, because some contain others.
        let known = [
            ("log_normal_kernel<", Self::LogNormal, Draw::Normal),
            ("uniform_kernel<", Self::Between, Draw::Uniform),
            ("bernoulli_kernel<", Self::Bernoulli, Draw::Uniform),
            ("geometric_kernel<", Self::Geometric, Draw::Uniform),
            ("exponential_kernel<", Self::Exponential, Draw::Uniform),
            ("cauchy_kernel<", Self::Cauchy, Draw::Uniform),
            ("random_from_to_kernel<", Self::WholeBetween, Draw::Words),
            ("::random_kernel<", Self::Whole, Draw::Words),
            ("::normal_kernel<", Self::Normal, Draw::Normal),
        ];
        let found = known.iter().find(|(name, ..)| kernel.contains(name));
        found.map(|(_, make, draw)| (*make, *draw))
    }
}

/// `(n, seed and offset, draw, lambda)`; the lambda holds the output and its stride, or an index calculator and the
/// output, and then the parameters.
fn distribution(signature: &Signature) -> Option<Work> {
    let [count, _, _, transform] = signature.types() else {
        return None;
    };
    let (_, inside) = transform.split_once("distribution_nullary_kernel<")?;
    let [scalar, wide, drawn, ..] = split_at_commas(inside)[..] else {
        return None;
    };
    let (scalar, wide) = (Element::named(scalar)?, Element::named(wide)?);
    let (make, draw) = Make::of(transform)?;
    // Releases up to 2.4 say how many are drawn at a time, later ones the type that holds them.
    let draw = match (draw, drawn) {
        (Draw::Words, "ulonglong2" | "2") => Draw::LongWords,
        (Draw::Words, "uint4" | "4") | (_, "float4" | "double2" | "4" | "2") => draw,
        _ => return None,
    };
    let is_strided = match transform.rsplit_once(")#")?.1 {
        "1}" => false,
        "2}" => true,
        _ => return None,
    };
    let count = count.clone();
    Some(Box::new(move |launch, access| {
        let n = launch
            .count(0, &count)
            .filter(|n| *n > 0 && *n <= MAX_ELEMENTS)?;
        let (seed, offset) = seeds(launch.argument(1)?, access)?;
        let lambda = launch.argument(3)?;
        let (output, offsets, state) = if is_strided {
            let at = Strides::calculator_len(1);
            let strides = Strides::calculator(lambda, 1)?;
            (strides.count() == Some(n)).then_some(())?;
            (lambda.u64(at), strides.offsets(0, n), lambda.from(at + 8))
        } else {
            let stride = i64::from(lambda.i32(8));
            let offsets = (0..n as i64).map(|index| index * stride).collect();
            // Two words for a range and a base, a double for a probability, or numbers as wide as what is drawn.
            let align = match make {
                Make::WholeBetween | Make::Bernoulli | Make::Geometric => 8,
                _ => wide.len(),
            };
            (
                lambda.u64(0),
                offsets,
                lambda.from(12usize.next_multiple_of(align)),
            )
        };
        let n_threads = u64::from(launch.grid[0]) * BLOCK;
        if n_threads == 0 {
            return None;
        }
        let words = draws(draw, wide, (seed, offset), n_threads, n)?;
        let values: Option<Vec<Value>> = words
            .into_iter()
            .map(|word| transformed(make, scalar, wide, state, word))
            .collect();
        access.scatter_values(scalar, output, &offsets, &values?)
    }))
}

/// What was drawn for one element.
#[derive(Clone, Copy)]
enum Drawn {
    Number(f64),
    Word(u64),
}

/// What is drawn for each element: threads draw several at a time, and write them one grid of threads apart.
fn draws(
    draw: Draw,
    wide: Element,
    (seed, offset): (u64, u64),
    n_threads: u64,
    count: usize,
) -> Option<Vec<Drawn>> {
    let mut drawn = vec![Drawn::Word(0); count];
    for thread in 0..n_threads.min(count as u64) {
        let mut generator = Philox::new(seed, thread, offset)?;
        let mut at = thread as usize;
        while at < count {
            let group: Vec<Drawn> = match (draw, wide) {
                (Draw::Uniform, Element::F64) => {
                    generator.uniform_double().map(Drawn::Number).to_vec()
                }
                (Draw::Uniform, _) => generator.uniform().map(Drawn::Number).to_vec(),
                (Draw::Normal, Element::F64) => {
                    generator.normal_double().map(Drawn::Number).to_vec()
                }
                (Draw::Normal, _) => generator.normal().map(Drawn::Number).to_vec(),
                (Draw::Words, _) => generator
                    .next()
                    .map(|word| Drawn::Word(word.into()))
                    .to_vec(),
                (Draw::LongWords, _) => {
                    let [x, y, z, w] = generator.next().map(u64::from);
                    vec![Drawn::Word(x << 32 | y), Drawn::Word(z << 32 | w)]
                }
            };
            for value in group {
                if let Some(place) = drawn.get_mut(at) {
                    *place = value;
                }
                at += n_threads as usize;
            }
        }
    }
    Some(drawn)
}

fn transformed(
    make: Make,
    scalar: Element,
    wide: Element,
    state: Argument,
    drawn: Drawn,
) -> Option<Value> {
    let parameter = |element: Element, at: usize| element.read(&state.bytes(at, element.len()));
    let number = |index: usize| Some(parameter(wide, index * wide.len())?.as_f64());
    let chance = || Some(wide.convert(parameter(Element::F64, 0)?).as_f64());
    let result = match (make, drawn) {
        (Make::WholeBetween, Drawn::Word(word)) => {
            let (range, base) = (state.u64(0), state.u64(8) as i64);
            Value::Int((word.checked_rem(range)? as i64).wrapping_add(base))
        }
        (Make::Whole, Drawn::Word(word)) => Value::Int(match scalar {
            Element::Bool => (word & 1) as i64,
            Element::U8 => (word % (1 << 8)) as i64,
            Element::I8 => (word % (1 << 7)) as i64,
            Element::I16 => (word % (1 << 15)) as i64,
            Element::I32 => (word % (1 << 31)) as i64,
            Element::I64 => (word % (1 << 63)) as i64,
            _ => return None,
        }),
        (Make::Between, Drawn::Number(drawn)) => {
            let from = parameter(scalar, wide.len())?;
            let to = parameter(scalar, wide.len() + scalar.len())?;
            let scaled = super::super::arithmetic::add_scaled(
                wide,
                wide.convert(from),
                parameter(wide, 0)?,
                Value::Float(drawn),
            );
            let value = scalar.convert(scaled);
            if value == to { from } else { value }
        }
        (Make::Normal, Drawn::Number(drawn)) => Value::Float(drawn * number(1)? + number(0)?),
        (Make::LogNormal, Drawn::Number(drawn)) => {
            Value::Float((drawn * number(1)? + number(0)?).exp())
        }
        (Make::Bernoulli, Drawn::Number(drawn)) => Value::truth(drawn < chance()?),
        (Make::Geometric, Drawn::Number(drawn)) => {
            Value::Float((drawn.ln() / (-chance()?).ln_1p()).ceil())
        }
        (Make::Exponential, Drawn::Number(drawn)) => {
            let epsilon = if wide == Element::F64 {
                f64::EPSILON
            } else {
                f32::EPSILON.into()
            };
            let log = if drawn >= 1.0 - epsilon / 2.0 {
                -epsilon / 2.0
            } else {
                drawn.ln()
            };
            Value::Float(-1.0 / number(0)? * log)
        }
        (Make::Cauchy, Drawn::Number(drawn)) => {
            let epsilon = if wide == Element::F64 {
                f64::EPSILON
            } else {
                f32::EPSILON.into()
            };
            let drawn = drawn.clamp(epsilon, 1.0 - epsilon);
            Value::Float(number(0)? + number(1)? * (std::f64::consts::PI * (drawn - 0.5)).tan())
        }
        _ => return None,
    };
    Some(scalar.convert(wide_or_same(wide, result)))
}

/// Rounded to the type that is computed in, when the value is a float.
fn wide_or_same(wide: Element, value: Value) -> Value {
    match value {
        Value::Float(_) => wide.convert(value),
        Value::Int(_) => value,
    }
}

/// `(output, probabilities, n, lambda)`: each thread draws for four elements that follow each other.
fn bernoulli_of_tensor(types: &[String]) -> Option<Work> {
    let [output, input, count, lambda] = types else {
        return None;
    };
    if !lambda.contains("bernoulli_tensor_cuda_kernel<") {
        return None;
    }
    let ((output, output_index), (input, input_index)) =
        (slice_types(output)?, slice_types(input)?);
    let count = count.clone();
    Some(Box::new(move |launch: &Launch, access: &mut Access| {
        let n = launch
            .count(2, &count)
            .filter(|n| *n > 0 && *n <= MAX_ELEMENTS)?;
        let (seed, offset) = seeds(launch.argument(3)?, access)?;
        let (to, to_strides) = Strides::tensor_info(launch.argument(0)?, output_index)?;
        let (from, from_strides) = Strides::tensor_info(launch.argument(1)?, input_index)?;
        let in_bytes = |strides: &Strides, len: usize| -> Vec<i64> {
            strides
                .offsets(0, n)
                .into_iter()
                .map(|offset| offset * len as i64)
                .collect()
        };
        // A grid that is smaller than the tensor goes on drawing.
        if (u64::from(launch.grid[0]) * 512 * 4) < n as u64 {
            return None;
        }
        let chances = access.gather_values(input, from, &in_bytes(&from_strides, input.len()))?;
        let mut values = Vec::with_capacity(n);
        for (thread, chances) in chances.chunks(4).enumerate() {
            let drawn = Philox::new(seed, thread as u64, offset)?.uniform();
            for (chance, drawn) in chances.iter().zip(drawn) {
                values.push(Value::truth(drawn <= chance.as_f64()));
            }
        }
        access.scatter_values(output, to, &in_bytes(&to_strides, output.len()), &values)
    }))
}

/// `(seed and offset, samples, output, distributions, categories, running totals, ...)`. The numbers are drawn in an
/// order of their own, so they are not those of a GPU, but of the same distribution.
fn multinomial(types: &[String]) -> Option<Work> {
    let [_, n_samples, output, n_rows, n_categories, totals, ..] = types else {
        return None;
    };
    let (output, element) = (pointee(output)?, pointee(totals)?);
    let numbers = [n_samples, n_rows, n_categories].map(String::clone);
    Some(Box::new(move |launch, access| {
        let n_samples = launch.count(1, &numbers[0])?;
        let (n_rows, n_categories) = (launch.count(3, &numbers[1])?, launch.count(4, &numbers[2])?);
        let (seed, offset) = seeds(launch.argument(0)?, access)?;
        let n = n_samples
            .checked_mul(n_rows)
            .filter(|n| *n <= MAX_ELEMENTS)?;
        let total = n_rows
            .checked_mul(n_categories)
            .filter(|n| *n <= MAX_ELEMENTS)?;
        let totals = access.values(element, launch.address(5)?, total)?;
        let mut chosen = Vec::with_capacity(n);
        for (row, totals) in totals.chunks_exact(n_categories).enumerate() {
            for sample in 0..n_samples {
                let sequence = (row * n_samples + sample) as u64;
                let drawn = Philox::new(seed, sequence, offset)?.uniform()[0];
                let limit = drawn * totals.last()?.as_f64();
                let place = totals.partition_point(|total| total.as_f64() < limit);
                chosen.push(Value::Int(place.min(n_categories - 1) as i64));
            }
        }
        access.write_values(output, launch.address(2)?, chosen)
    }))
}

/// `(probabilities, rows, columns)`: each row is divided by its sum.
fn normalize(types: &[String]) -> Option<Work> {
    let [rows, n_rows, n_columns] = types else {
        return None;
    };
    let (element, n_rows, n_columns) = (pointee(rows)?, n_rows.clone(), n_columns.clone());
    Some(Box::new(move |launch, access| {
        let (n_rows, n_columns) = (launch.count(1, &n_rows)?, launch.count(2, &n_columns)?);
        let n = n_rows
            .checked_mul(n_columns)
            .filter(|n| *n > 0 && *n <= MAX_ELEMENTS)?;
        let mut values = access.values(element, launch.address(0)?, n)?;
        for row in values.chunks_exact_mut(n_columns) {
            let sum: f64 = row.iter().map(|value| value.as_f64()).sum();
            if sum > 0.0 {
                for value in row {
                    *value = element.convert(Value::Float(value.as_f64() / sum));
                }
            }
        }
        access.write_values(element, launch.address(0)?, values)
    }))
}
