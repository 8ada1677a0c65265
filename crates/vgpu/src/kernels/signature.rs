//! The parameters of a kernel, read off its mangled C++ name.

use std::ffi::c_void;

use super::tensor_lists::TensorLists;

/// Where the address of a reduction's input can lie in its argument, in words: the operation and its identity, whose
/// sizes vary, come before 972 bytes of sizes and index calculators. Parts of the calculators are never initialized, so
/// nothing before may be taken for an address.
const REDUCTION_INPUT: std::ops::Range<usize> = 122..138;
/// Words from the input's address to the start of the number in the upper half of the last one, and what is between:
/// two outputs, three scratch addresses, an index, two flags and the number of outputs.
const REDUCTION_TAIL: usize = 7;

/// Bytes of PyTorch's index calculator for this many tensors: a number of dimensions, 25 dividers of 12 bytes, and 25
/// strides of 4 bytes a tensor.
pub(crate) const fn index_calculator_len(n_tensors: usize) -> usize {
    4 + 25 * 12 + 25 * 4 * n_tensors
}

/// What one parameter is, as far as it matters for what the kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// `T *`.
    Pointer,
    /// `T const *`.
    ConstPointer,
    /// `array<char *, n>`: element-wise kernels put their output first.
    PointerArray,
    /// A struct that begins with a pointer to what it describes, such as `TensorInfo`.
    Tensor,
    /// The lists of addresses of a multi-tensor kernel.
    TensorLists(TensorLists),
    /// The lambda of an element-wise kernel over strided memory: an index calculator, then the addresses, output first.
    Strided,
    /// The lambda of a kernel that indexes: an index calculator for so many tensors, then words, of which the one with
    /// this number is the output's address.
    Indexing { n_tensors: usize, output: usize },
    /// `ReduceOp`: sizes and index calculators, then the address of the input, then that of the output.
    Reduction,
    /// Any other lambda: what it captures is not known, and may be addresses.
    Lambda,
    /// Anything else: numbers, functors.
    Other,
}

impl Parameter {
    fn of(text: &str) -> Self {
        let plain = text.trim();
        if let Some(pointee) = plain.strip_suffix('*') {
            let pointee = pointee.trim();
            return if pointee.ends_with("const") || pointee.starts_with("const ") {
                Self::ConstPointer
            } else {
                Self::Pointer
            };
        }
        if plain.starts_with("at::native::ReduceOp<") {
            return Self::Reduction;
        }
        if plain.contains("gpu_kernel_impl") && plain.ends_with("::{lambda(int)#1}") {
            return Self::Strided;
        }
        if let Some((n_tensors, output)) = indexing(plain) {
            return Self::Indexing { n_tensors, output };
        }
        if plain.contains("::{lambda(") {
            return Self::Lambda;
        }
        if plain.contains("array<char*") || plain.contains("Array<char*") {
            return Self::PointerArray;
        }
        if let Some(lists) = TensorLists::of(plain) {
            return Self::TensorLists(lists);
        }
        if plain.contains("TensorInfo<") || plain.contains("TensorAccessor") {
            return if plain.contains("TensorInfo<") && plain.contains(" const,") {
                Self::Other
            } else {
                Self::Tensor
            };
        }
        Self::Other
    }

    /// Whether its type says that a kernel may write through it.
    pub(crate) fn is_written(self) -> bool {
        !matches!(self, Self::ConstPointer | Self::Lambda | Self::Other)
    }

    /// Calls `f` with each address in the argument that a grid of this many blocks (0 when that is not known) may
    /// write through; `is_device` tells addresses of device memory from other words.
    ///
    /// # Safety
    /// `argument` must point to a value of this parameter's type.
    pub(crate) unsafe fn for_each_output(
        self,
        argument: *const c_void,
        n_blocks: usize,
        is_device: impl Fn(u64) -> bool,
        mut f: impl FnMut(u64),
    ) {
        // SAFETY: every type holds at least the words that are asked of it below; a reduction's argument lies in its
        // caller's frame, which reaches beyond the last word looked at.
        let word = |index: usize| unsafe { argument.cast::<u64>().add(index).read_unaligned() };
        let words = match self {
            Self::ConstPointer | Self::Other => 0,
            Self::Pointer | Self::PointerArray | Self::Tensor => 1,
            Self::TensorLists(lists) => {
                // SAFETY: promised by the caller.
                unsafe { lists.for_each_output(argument, n_blocks, &is_device, f) };
                return;
            }
            // Longer than what kernels capture, so it may take a stale address of the caller's frame for one of them;
            // that only makes something unknown that was known.
            Self::Lambda => 128,
            Self::Indexing { n_tensors, output } => {
                let at = index_calculator_len(n_tensors).div_ceil(8) + output;
                if is_device(word(at)) {
                    return f(word(at));
                }
                // Not as it was thought to be, so it is a lambda like any other.
                // SAFETY: as above.
                return unsafe { Self::Lambda.for_each_output(argument, n_blocks, is_device, f) };
            }
            // The number of tensors is not in the type; the one whose addresses are all there is the right one, and
            // a second that seems right by chance only makes something unknown that was known.
            Self::Strided => {
                let outputs = (1..=4).filter_map(|n_tensors| {
                    let first = index_calculator_len(n_tensors).div_ceil(8);
                    let all = (first..first + n_tensors).all(|index| is_device(word(index)));
                    all.then(|| word(first))
                });
                return outputs.for_each(f);
            }
            Self::Reduction => {
                let input = REDUCTION_INPUT.into_iter().find(|input| {
                    let n_outputs = word(input + REDUCTION_TAIL) >> 32;
                    is_device(word(*input))
                        && is_device(word(input + 1))
                        && (1..=2).contains(&n_outputs)
                });
                let outputs = input
                    .into_iter()
                    .flat_map(|input| [word(input + 1), word(input + 2)]);
                return outputs.filter(|output| is_device(*output)).for_each(f);
            }
        };
        (0..words)
            .map(word)
            .filter(|word| is_device(*word))
            .for_each(&mut f);
    }
}

/// The number of tensors in the index calculator of a lambda that indexes, and which of the words behind it is the
/// address of the output.
fn indexing(lambda: &str) -> Option<(usize, usize)> {
    const KNOWN: [(&str, usize, usize); 3] = [
        ("gpu_index_kernel<", 3, 0),
        ("_cuda_scatter_gather_internal_kernel<", 3, 3),
        ("_cuda_scatter_fill_internal_kernel<", 2, 3),
    ];
    let known = KNOWN.iter().find(|(name, ..)| lambda.contains(name));
    let (_, n_tensors, output) = known.filter(|_| lambda.ends_with("::{lambda(int)#1}"))?;
    Some((*n_tensors, *output))
}

/// A kernel's name and parameters.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Everything before the parameters: return type, scopes, template arguments.
    name: String,
    parameters: Vec<Parameter>,
    /// The C++ types of the parameters.
    types: Vec<String>,
}

impl Signature {
    /// Reads a mangled name; one that is not C++ has no parameters.
    pub(crate) fn demangle(mangled: &str) -> Self {
        let text = cpp_demangle::Symbol::new(mangled)
            .ok()
            .and_then(|symbol| symbol.demangle().ok());
        Self::parse(text.as_deref().unwrap_or(mangled))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let (name, parameters) = split_parameters(text).unwrap_or((text, ""));
        let texts = split_at_commas(parameters);
        Self {
            name: name.to_owned(),
            parameters: texts.iter().map(|text| Parameter::of(text)).collect(),
            types: texts.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    /// Everything before the parameters.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The C++ types of the parameters.
    pub(crate) fn types(&self) -> &[String] {
        &self.types
    }

    /// The function's own name, without scopes and template arguments.
    pub(crate) fn function(&self) -> &str {
        let before_arguments = self.name.split('<').next().unwrap_or_default();
        before_arguments
            .rsplit([':', ' '])
            .next()
            .unwrap_or_default()
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Whether an element-wise kernel goes through its tensors from the first byte to the last.
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(
            self.function(),
            "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel"
        ) && self.types.iter().all(|text| {
            !text.contains("OffsetCalculator<") || text.contains("TrivialOffsetCalculator<")
        })
    }

    /// Length of an element in bytes, if this kernel fills contiguous memory with one value.
    pub(crate) fn fill_element_len(&self) -> Option<usize> {
        let [_, functor, _, ..] = self.types() else {
            return None;
        };
        let element = functor
            .strip_prefix("at::native::FillFunctor<")?
            .strip_suffix('>')?;
        if self.parameters[2] != Parameter::PointerArray || !self.is_contiguous() {
            return None;
        }
        Some(match element.trim() {
            "bool" | "unsigned char" | "signed char" | "char" => 1,
            "short" | "unsigned short" | "c10::Half" | "c10::BFloat16" => 2,
            "int" | "unsigned int" | "float" => 4,
            "long" | "unsigned long" | "double" | "c10::complex<float>" => 8,
            "c10::complex<double>" => 16,
            other if other.starts_with("c10::Float8_") => 1,
            _ => return None,
        })
    }

    /// A name for people: the function, and the operation that it was instantiated for when that is part of it.
    pub(crate) fn short_name(&self) -> String {
        let function = self.function();
        let operation = self
            .name
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .find(|word| {
                word.ends_with("_kernel_cuda")
                    || word.ends_with("_kernel_impl")
                    || word.ends_with("Functor")
            });
        match operation {
            _ if function.is_empty() => "an unnamed kernel".to_owned(),
            Some(operation) if operation != function => format!("{function} ({operation})"),
            _ => function.to_owned(),
        }
    }
}

/// Splits `name(parameters)` at the parenthesis that opens the last group.
fn split_parameters(text: &str) -> Option<(&str, &str)> {
    let body = text.trim_end().strip_suffix(')')?;
    let mut depth = 0;
    for (at, c) in body.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => return Some((&body[..at], &body[at + 1..])),
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

pub(crate) fn split_at_commas(parameters: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (at, c) in parameters.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(parameters[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !parameters.trim().is_empty() {
        parts.push(parameters[start..].trim());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tensor_lists::Beside;
    use super::Parameter::{
        ConstPointer, Indexing, Lambda, Other, Pointer, PointerArray, Reduction, Strided, Tensor,
    };
    use super::*;

    fn lists(n_lists: usize) -> Parameter {
        Parameter::TensorLists(TensorLists {
            n_lists,
            beside: Beside::Nothing,
        })
    }

    fn check(text: &str, expected: &[Parameter]) {
        assert_eq!(Signature::parse(text).parameters, expected, "{text}");
    }

    #[test]
    fn parameters_follow_from_their_types() {
        check("void f()", &[]);
        check("plain_c_kernel", &[]);
        check(
            "void k<float>(float*, float const*, int)",
            &[Pointer, ConstPointer, Other],
        );
        check(
            "void k<4, F<int>, std::array<char*, 3ul> >(int, F<int>, std::array<char*, 3ul>)",
            &[Other, Other, PointerArray],
        );
        check(
            "void k<g(at::TensorIterator&)::{lambda(int, int)#1}>(int, g(at::TensorIterator&)::{lambda(int, int)#1})",
            &[Other, Lambda],
        );
        check(
            "void k<L>(long, void at::native::gpu_index_kernel<f(int)::{lambda(char*)#1}>(int)::{lambda(int)#1})",
            &[
                Other,
                Indexing {
                    n_tensors: 3,
                    output: 0,
                },
            ],
        );
        check(
            "void k(at::cuda::detail::TensorInfo<float, unsigned int>, at::cuda::detail::TensorInfo<float const, unsigned int>)",
            &[Tensor, Other],
        );
        check(
            "void k<M, F>(at::native::(anonymous namespace)::TensorListMetadata<2>, F)",
            &[lists(2), Other],
        );
    }

    #[test]
    fn fills_are_recognised_by_their_functor() {
        let fill = |element: &str| {
            let functor = format!("at::native::FillFunctor<{element}>");
            Signature::parse(&format!(
                "void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 1ul> >(int, {functor}, std::array<char*, 1ul>)"
            ))
            .fill_element_len()
        };
        assert_eq!(fill("float"), Some(4));
        assert_eq!(fill("c10::BFloat16"), Some(2));
        assert_eq!(fill("c10::complex<double>"), Some(16));
        assert_eq!(fill("c10::Float8_e4m3fn"), Some(1));
        assert_eq!(fill("something::New"), None);
        assert_eq!(
            Signature::parse("void k(int, float, std::array<char*, 1ul>)").fill_element_len(),
            None
        );
    }

    #[test]
    fn mangled_names_of_pytorch_are_read() {
        let signature = Signature::demangle(
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIhEESt5arrayIPcLm1EEEEviT0_T1_",
        );
        assert_eq!(signature.fill_element_len(), Some(1));
        assert_eq!(
            signature.short_name(),
            "vectorized_elementwise_kernel (FillFunctor)"
        );
    }

    /// The addresses that count as outputs of an argument made of these words; those from 100 on are on the device.
    fn outputs(parameter: Parameter, words: &[u64]) -> Vec<u64> {
        let mut argument = [0; 1100];
        argument[..words.len()].copy_from_slice(words);
        let mut found = Vec::new();
        // SAFETY: the argument is longer than any parameter type.
        unsafe {
            parameter.for_each_output(
                argument.as_ptr().cast(),
                0,
                |word| word >= 100,
                |output| found.push(output),
            );
        };
        found
    }

    #[test]
    fn outputs_are_the_addresses_that_may_be_written() {
        assert_eq!(outputs(Pointer, &[100, 101]), [100]);
        assert_eq!(outputs(ConstPointer, &[100, 101]), [0; 0]);
        assert_eq!(outputs(PointerArray, &[100, 101]), [100]);
        assert_eq!(outputs(lists(1), &[100, 101, 0, 102]), [100, 101]);
        let list = |len: usize| vec![100; len];
        assert_eq!(outputs(lists(1), &list(300)), list(300));
        let second = [list(2), vec![0; 62], list(3)].concat();
        assert_eq!(outputs(lists(2), &second), list(5));
        // Stale addresses in front of the real ones, as the uninitialized parts of the argument hold them.
        let reduction = |start: usize, n_outputs: u64| {
            let mut words = vec![500; start];
            words.extend([
                100,
                101,
                if n_outputs == 2 { 102 } else { 0 },
                0,
                0,
                0,
                0,
                n_outputs << 32 | 0x0100,
            ]);
            outputs(Reduction, &words)
        };
        let mut strided = vec![0; 63];
        strided.extend([100, 101]);
        assert_eq!(outputs(Strided, &strided), [100]);
        let mut indexing = vec![300; 76];
        indexing.extend([0, 7, 0, 100, 101]);
        let scatter = |output: usize| Indexing {
            n_tensors: 3,
            output,
        };
        assert_eq!(outputs(scatter(3), &indexing), [100]);
        assert_eq!(outputs(scatter(4), &indexing), [101]);
        assert_eq!(reduction(122, 1), [101]);
        assert_eq!(reduction(123, 1), [101]);
        assert_eq!(reduction(126, 2), [101, 102]);
        assert_eq!(reduction(122, 9), [0; 0]);
    }

    #[test]
    fn names_for_people_say_the_operation() {
        let name = |text: &str| Signature::parse(text).short_name();
        assert_eq!(
            name(
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::func_wrapper_t<bool, at::native::and_kernel_cuda(at::TensorIterator&)::{lambda()#1}> > >(at::native::ReduceOp<bool>)"
            ),
            "reduce_kernel (and_kernel_cuda)"
        );
        assert_eq!(name("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
        assert_eq!(name(""), "an unnamed kernel");
    }
}
