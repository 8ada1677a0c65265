//! What a kernel launch means, when kernels are not executed.
//!
//! CUDA programs register every kernel with its mangled name, and PyTorch's are C++ templates, so the name tells the
//! types of the arguments. From them follows which argument points to output. A launch makes those bytes unknown,
//! unless the kernel is one of the few that are carried out: a fill costs nothing here, whatever its size, and small
//! work on known values is really done, because scripts branch on it.

mod assumed;
mod element;
mod operation;
mod reduction;
mod signature;

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use oomproof_profile::layout::counter;

use crate::contents::{Assumption, Known, Pattern};
use crate::memory::Memory;
use crate::session::Session;

use assumed::Assumed;
use element::Element;
use operation::{MAX_ELEMENTS, Operation};
use reduction::Reduction;
use signature::{Parameter, Signature};

/// Address of a host stub (or a handle of a loaded function), and of the kernel's mangled name.
type Registration = (usize, usize);

#[derive(Default)]
struct Kernels {
    registered: Vec<Registration>,
    sorted: bool,
    known: HashMap<usize, &'static Kernel>,
    /// What stands in for unknown bytes, by the id of the text that names what wrote them.
    assumed: HashMap<u32, Assumed>,
}

static KERNELS: Mutex<Option<Kernels>> = Mutex::new(None);

/// What is known of one kernel.
struct Kernel {
    /// Text naming it in the profile: id, made at the first launch.
    origin: u32,
    meaning: Meaning,
}

enum Meaning {
    /// Sets every element of the first array to the value in the functor.
    Fill { element_len: usize },
    /// `kernel(int n, functor, array<char *> data, ...)` over contiguous tensors, and the parameters (by index) that
    /// tell the types in memory when those are not the functor's.
    Elementwise {
        operation: Operation,
        casts: Option<[usize; 2]>,
    },
    /// `reduce_kernel(ReduceOp)`.
    Reduction(Reduction),
    /// Writes through these parameters (by index).
    Writes(Vec<(usize, Parameter)>),
}

/// Remembers a kernel under the address by which it will be launched; `name` must live as long as the process.
pub(crate) fn register(address: usize, name: &'static CStr) {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = kernels.get_or_insert_default();
    kernels.registered.push((address, name.as_ptr() as usize));
    kernels.sorted = false;
}

impl Kernels {
    /// The mangled name registered for an address; the latest registration wins.
    fn name(&mut self, address: usize) -> Option<&'static CStr> {
        if !self.sorted {
            // Stable, so that of equal addresses the latest stays last.
            self.registered.sort_by_key(|(address, _)| *address);
            self.sorted = true;
        }
        let end = self
            .registered
            .partition_point(|(registered, _)| *registered <= address);
        let &(registered, name) = self.registered.get(end.checked_sub(1)?)?;
        // SAFETY: `register` takes only names that live as long as the process.
        (registered == address).then(|| unsafe { CStr::from_ptr(name as *const _) })
    }
}

fn kernel(session: &Session, address: usize) -> &'static Kernel {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = kernels.get_or_insert_default();
    if let Some(kernel) = kernels.known.get(&address) {
        return kernel;
    }
    let name = kernels
        .name(address)
        .map_or("".into(), CStr::to_string_lossy);
    let signature = Signature::demangle(&name);
    let assumed = Assumed::of(&signature);
    // The value belongs to the text, so kernels whose values differ must not share one.
    let origin = session.text(&format!("{}{}", signature.short_name(), assumed.suffix()));
    let kernel = Box::leak(Box::new(Kernel {
        origin,
        meaning: meaning(&signature),
    }));
    kernels.known.insert(address, kernel);
    kernels.assumed.insert(origin, assumed);
    kernel
}

fn meaning(signature: &Signature) -> Meaning {
    if let Some(element_len) = signature.fill_element_len() {
        return Meaning::Fill { element_len };
    }
    if let Some(elementwise) = elementwise(signature) {
        return elementwise;
    }
    if let [operation] = signature.types()
        && signature.function() == "reduce_kernel"
        && let Some(reduction) = Reduction::of(operation)
    {
        return Meaning::Reduction(reduction);
    }
    let chosen = |wanted: fn(Parameter) -> bool| -> Vec<(usize, Parameter)> {
        let parameters = signature.parameters().iter().copied().enumerate();
        parameters
            .filter(|(_, parameter)| wanted(*parameter))
            .collect()
    };
    let outputs = chosen(Parameter::is_written);
    // A kernel that writes nothing by its types writes through what its lambda captured.
    Meaning::Writes(if outputs.is_empty() {
        chosen(|parameter| parameter == Parameter::Lambda)
    } else {
        outputs
    })
}

fn elementwise(signature: &Signature) -> Option<Meaning> {
    let [count, functor, _, rest @ ..] = signature.types() else {
        return None;
    };
    let operation = Operation::of(functor)?;
    let expected = count == "int"
        && signature.is_contiguous()
        && signature.parameters()[2] == Parameter::PointerArray;
    let casts = match rest {
        [] => None,
        [_, _, load, store]
            if load.ends_with("LoadWithoutCast") && store.ends_with("StoreWithoutCast") =>
        {
            None
        }
        [_, _, load, store]
            if load.contains("LoadWithCast<") && store.contains("StoreWithCast<1>") =>
        {
            Some([5, 6])
        }
        _ => return None,
    };
    expected.then_some(Meaning::Elementwise { operation, casts })
}

/// A kernel was launched. `arguments` points to one pointer per parameter, each to the argument's value; null when
/// the arguments came packed and are not known.
///
/// # Safety
/// As for `cudaLaunchKernel`: `arguments` must fit the kernel's signature.
pub(crate) unsafe fn launched(session: &Session, address: usize, arguments: *const *const c_void) {
    session
        .header
        .counter(counter::LAUNCHES)
        .fetch_add(1, Ordering::Relaxed);
    if arguments.is_null() {
        return;
    }
    let kernel = kernel(session, address);
    let mut memory = session.memory();
    match &kernel.meaning {
        // SAFETY: the signature is that of the launched kernel.
        Meaning::Fill { element_len } => unsafe {
            fill(&mut memory, *element_len, arguments, kernel.origin);
        },
        // SAFETY: the signature is that of the launched kernel.
        Meaning::Elementwise { operation, casts } => unsafe {
            carry_out(&mut memory, operation, *casts, arguments, kernel.origin);
        },
        // SAFETY: the signature is that of the launched kernel.
        Meaning::Reduction(reduction) => unsafe {
            reduce(&mut memory, *reduction, *arguments, kernel.origin);
        },
        Meaning::Writes(outputs) => {
            for (index, parameter) in outputs {
                let mut written = Vec::new();
                // SAFETY: the signature is that of the launched kernel, so it has this parameter.
                unsafe {
                    let argument = *arguments.add(*index);
                    if !argument.is_null() {
                        let is_device = |word| match parameter {
                            // These hold words that are no addresses and could look like some.
                            Parameter::Reduction | Parameter::Strided | Parameter::Lambda => {
                                memory.is_memory(word, 1)
                            }
                            _ => memory.arena.contains(word),
                        };
                        parameter
                            .for_each_output(argument, is_device, |output| written.push(output));
                    }
                }
                for output in written {
                    memory.overwritten(output, kernel.origin);
                }
            }
        }
    }
}

/// `fill_kernel(int n, FillFunctor<T> value, array<char *, 1> data, ...)`.
///
/// # Safety
/// `arguments` must hold those three arguments.
unsafe fn fill(
    memory: &mut Memory,
    element_len: usize,
    arguments: *const *const c_void,
    origin: u32,
) {
    // SAFETY: promised by the caller; the functor is exactly its value.
    let (count, element, output) = unsafe {
        let count = (*arguments).cast::<i32>().read_unaligned();
        let element = std::slice::from_raw_parts((*arguments.add(1)).cast::<u8>(), element_len);
        (
            count,
            element,
            (*arguments.add(2)).cast::<u64>().read_unaligned(),
        )
    };
    let len = u64::try_from(count).unwrap_or(0) * element_len as u64;
    if !memory.is_memory(output, len) {
        return;
    }
    if let Some((_, block)) = memory.block_of(output) {
        block.origin = origin;
    }
    if let Some(pattern) = Pattern::new(element) {
        memory.contents.fill(output, len, pattern);
    }
}

/// Writes what an element-wise kernel computes, or makes its output unknown.
///
/// # Safety
/// `arguments` must hold a number, the functor of `operation`, the addresses, and the casts where there are any.
unsafe fn carry_out(
    memory: &mut Memory,
    operation: &Operation,
    casts: Option<[usize; 2]>,
    arguments: *const *const c_void,
    origin: u32,
) {
    // SAFETY: promised by the caller.
    let (count, functor, addresses, types) = unsafe {
        let count = (*arguments).cast::<i32>().read_unaligned();
        let functor =
            std::slice::from_raw_parts((*arguments.add(1)).cast::<u8>(), operation.functor_len());
        let data = (*arguments.add(2)).cast::<u64>();
        let addresses: Vec<u64> = (0..=operation.n_inputs())
            .map(|index| data.add(index).read_unaligned())
            .collect();
        let types = casts.map(|[load, store]| {
            let loaded = (*arguments.add(load)).cast::<i8>();
            let loaded = (0..operation.n_inputs()).map(|index| loaded.add(index).read());
            (
                loaded.collect::<Vec<i8>>(),
                (*arguments.add(store)).cast::<i8>().read(),
            )
        });
        (
            usize::try_from(count).unwrap_or(0),
            functor,
            addresses,
            types,
        )
    };
    let computed = (|| {
        let (inputs, output) = match types {
            None => (
                vec![operation.input; operation.n_inputs()],
                operation.output,
            ),
            Some((loaded, stored)) => {
                let inputs: Option<Vec<Element>> =
                    loaded.into_iter().map(Element::numbered).collect();
                (inputs?, Element::numbered(stored)?)
            }
        };
        if count == 0
            || count > MAX_ELEMENTS
            || !memory.is_memory(addresses[0], (count * output.len()) as u64)
        {
            return None;
        }
        let sources: Option<Vec<Known>> = inputs
            .iter()
            .zip(&addresses[1..])
            .map(|(element, address)| known(memory, *address, count * element.len()))
            .collect();
        let sources = sources?;
        let mut out = Vec::with_capacity(count * output.len());
        let mut values = Vec::with_capacity(inputs.len());
        for index in 0..count {
            values.clear();
            for (element, source) in inputs.iter().zip(&sources) {
                values.push(
                    operation
                        .input
                        .convert(element.read(source.bytes.get(index * element.len()..)?)?),
                );
            }
            output.write(operation.apply(functor, &values)?, &mut out);
        }
        Some(Known {
            bytes: out,
            assumption: first_assumption(&sources),
        })
    })();
    finish(memory, addresses[0], computed, origin);
}

/// Writes what a reduction to one element computes, or makes its output unknown.
///
/// # Safety
/// `argument` must point to the `ReduceOp` of `reduction`, in the frame of the caller.
unsafe fn reduce(memory: &mut Memory, reduction: Reduction, argument: *const c_void, origin: u32) {
    let mut found = None;
    // SAFETY: promised by the caller.
    unsafe {
        Parameter::Reduction.for_each_output(
            argument,
            |word| memory.is_memory(word, 1),
            |output| {
                found.get_or_insert(output);
            },
        );
    }
    let Some(output) = found else { return };
    let computed = (|| {
        let input_word = reduction.input_word();
        // SAFETY: the argument reaches at least to the two addresses after the calculators.
        let (bytes, input, expected) = unsafe {
            let words = argument.cast::<u64>();
            let bytes = std::slice::from_raw_parts(argument.cast::<u8>(), input_word * 8);
            (
                bytes,
                words.add(input_word).read_unaligned(),
                words.add(input_word + 1).read_unaligned(),
            )
        };
        let count = reduction.whole_len(bytes)?;
        if expected != output || count == 0 || count > MAX_ELEMENTS {
            return None;
        }
        let source = known(memory, input, count * reduction.element.len())?;
        let mut bytes = Vec::new();
        let result = reduction.apply(&source.bytes)?;
        reduction.output.write(result, &mut bytes);
        let assumption = source.assumption;
        memory
            .is_memory(output, bytes.len() as u64)
            .then_some(Known { bytes, assumption })
    })();
    finish(memory, output, computed, origin);
}

/// The bytes of device memory, if all of them have a value, be it an assumed one.
pub(super) fn known(memory: &Memory, address: u64, len: usize) -> Option<Known> {
    if !memory.is_memory(address, len as u64) {
        return None;
    }
    memory.contents.known(address, len)
}

/// What the result of work on these inputs hangs on: one assumption is enough to say that it is not known for sure.
pub(super) fn first_assumption(inputs: &[Known]) -> Option<Assumption> {
    inputs.iter().find_map(|input| input.assumption)
}

/// Writes what a kernel computed at `output`, or makes it unknown from there on.
pub(super) fn finish(memory: &mut Memory, output: u64, computed: Option<Known>, origin: u32) {
    match computed {
        Some(known) => {
            memory.contents.put(output, known);
            if let Some((_, block)) = memory.block_of(output) {
                block.origin = origin;
            }
        }
        None if memory.is_memory(output, 1) => memory.overwritten(output, origin),
        None => {}
    }
}

/// Fills `out` with what stands in for unknown bytes that `origin` wrote.
pub(crate) fn assume(origin: u32, out: &mut [u8]) {
    let kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let assumed = kernels
        .as_ref()
        .and_then(|kernels| kernels.assumed.get(&origin).copied());
    assumed.unwrap_or_default().fill(out);
}
