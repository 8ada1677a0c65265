//! What a kernel launch means, when kernels are not executed.
//!
//! CUDA programs register every kernel with its mangled name, and PyTorch's are C++ templates, so the name tells the
//! types of the arguments. From them follows which argument points to output. A launch makes those bytes unknown,
//! unless the kernel is one of the few that are carried out: a fill costs nothing here, whatever its size, and small
//! work on known values is really done, because scripts branch on it.

mod arithmetic;
mod assumed;
mod attention;
mod element;
mod given;
mod operation;
mod policy;
mod scalar;
mod signature;
mod stack;
mod tensor_lists;
mod work;

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use oomproof_profile::Values;
use oomproof_profile::layout::counter;

use crate::clock::Cost;
use crate::contents::{Known, Pattern};
use crate::memory::Memory;
use crate::session::Session;

pub(crate) use given::{Read, give};

use assumed::Assumed;
use attention::Attention;
use given::Reads;
use policy::{Ground, Policy};
use signature::{Parameter, Signature};
use work::{Launch, Outcome, Work};

/// Address of a host stub (or a handle of a loaded function), and of the kernel's mangled name.
type Registration = (usize, usize);

#[derive(Default)]
struct Kernels {
    registered: Vec<Registration>,
    sorted: bool,
    known: HashMap<usize, &'static Kernel>,
    reads: Reads,
}

static KERNELS: Mutex<Option<Kernels>> = Mutex::new(None);

/// What is known of one kernel.
struct Kernel {
    /// Text naming it in the profile: id, made at the first launch.
    origin: u32,
    n_parameters: usize,
    meaning: Meaning,
    /// What is assumed of its output where that is not known, and the id of the text that says so.
    policy: Option<(Policy, u32)>,
    attention: Option<Attention>,
}

type Outputs = Vec<(usize, Parameter)>;

enum Meaning {
    /// Sets every element of the first array to the value in the functor.
    Fill { element_len: usize },
    /// Is carried out if all it needs is known; writes through these parameters (by index).
    Work { work: Work, outputs: Outputs },
    /// Writes through these parameters (by index).
    Writes(Outputs),
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
    let (meaning, policy) = match session.settings.values {
        Values::On => {
            let policy = Policy::of(&signature);
            let stated = |policy: &Policy| {
                let statement = policy.statement(session.settings.routing);
                session.text(statement)
            };
            let policy = policy.map(|policy| {
                let text = stated(&policy);
                (policy, text)
            });
            (meaning(&signature), policy)
        }
        Values::Off => (Meaning::Writes(outputs(&signature)), None),
    };
    let kernel = Box::leak(Box::new(Kernel {
        origin,
        n_parameters: signature.parameters().len(),
        meaning,
        policy,
        attention: Attention::of(&signature),
    }));
    kernels.known.insert(address, kernel);
    kernels.reads.wrote(origin, assumed);
    kernel
}

fn meaning(signature: &Signature) -> Meaning {
    if let Some(element_len) = signature.fill_element_len() {
        return Meaning::Fill { element_len };
    }
    let outputs = outputs(signature);
    match work::recognize(signature) {
        Some(work) => Meaning::Work { work, outputs },
        None => Meaning::Writes(outputs),
    }
}

/// What a kernel writes when it is not carried out.
fn outputs(signature: &Signature) -> Outputs {
    let chosen = |wanted: fn(Parameter) -> bool| -> Vec<(usize, Parameter)> {
        let parameters = signature.parameters().iter().copied().enumerate();
        parameters
            .filter(|(_, parameter)| wanted(*parameter))
            .collect()
    };
    let outputs = chosen(Parameter::is_written);
    // A kernel that writes nothing by its types writes through what its lambda captured.
    if outputs.is_empty() {
        chosen(|parameter| parameter == Parameter::Lambda)
    } else {
        outputs
    }
}

/// A kernel was launched. `arguments` points to one pointer per parameter, each to the argument's value; null when
/// the arguments came packed and are not known. `grid` is all zeros when it is not known. Returns what the kernel asks
/// of the device, where its arguments tell.
///
/// # Safety
/// As for `cudaLaunchKernel`: `arguments` must fit the kernel's signature.
pub(crate) unsafe fn launched(
    session: &Session,
    address: usize,
    arguments: *const *const c_void,
    grid: [u32; 3],
) -> Option<Cost> {
    session
        .header
        .counter(counter::LAUNCHES)
        .fetch_add(1, Ordering::Relaxed);
    if arguments.is_null() {
        return None;
    }
    let kernel = kernel(session, address);
    // SAFETY: promised by the caller.
    let cost = |attention: Attention| unsafe { attention.cost(arguments, grid) };
    let cost = kernel.attention.and_then(cost);
    let mut memory = session.memory();
    let Some((policy, text)) = &kernel.policy else {
        // SAFETY: promised by the caller.
        unsafe { execute(&mut memory, kernel, arguments, grid) };
        return cost;
    };
    let ground = Ground::new(session, *text);
    // SAFETY: the policy was made of the signature of the launched kernel.
    unsafe {
        let found = policy.before(&mut memory, arguments, ground);
        execute(&mut memory, kernel, arguments, grid);
        policy.after(&mut memory, arguments, found, ground);
    }
    cost
}

/// Carries a launch out, or makes what it writes unknown.
///
/// # Safety
/// As for [`launched`].
unsafe fn execute(
    memory: &mut Memory,
    kernel: &Kernel,
    arguments: *const *const c_void,
    grid: [u32; 3],
) {
    match &kernel.meaning {
        // SAFETY: the signature is that of the launched kernel.
        Meaning::Fill { element_len } => unsafe {
            fill(memory, *element_len, arguments, kernel.origin);
        },
        Meaning::Work { work, outputs } => {
            // SAFETY: the signature is that of the launched kernel.
            let launch = unsafe { Launch::new(arguments, kernel.n_parameters, grid) };
            let outcome = work::carry_out(work, &launch, memory, kernel.origin);
            if !matches!(outcome, Outcome::Done) {
                // SAFETY: as above.
                unsafe { overwrite(memory, outputs, arguments, grid, kernel.origin) };
            }
            if let Outcome::Partial(writes) = outcome {
                for (address, known) in writes {
                    finish(memory, address, Some(known), kernel.origin);
                }
            }
        }
        // SAFETY: the signature is that of the launched kernel.
        Meaning::Writes(outputs) => unsafe {
            overwrite(memory, outputs, arguments, grid, kernel.origin);
        },
    }
}

/// Makes unknown what lies behind these parameters.
///
/// # Safety
/// `arguments` must hold these parameters.
unsafe fn overwrite(
    memory: &mut Memory,
    outputs: &Outputs,
    arguments: *const *const c_void,
    grid: [u32; 3],
    origin: u32,
) {
    for (index, parameter) in outputs {
        let mut written = Vec::new();
        // SAFETY: promised by the caller.
        unsafe {
            let argument = *arguments.add(*index);
            if !argument.is_null() {
                let is_device = |word| match parameter {
                    // These hold words that are no addresses and could look like some.
                    Parameter::Reduction
                    | Parameter::Strided
                    | Parameter::Indexing { .. }
                    | Parameter::Lambda => memory.is_memory(word, 1),
                    _ => memory.arena.contains(word),
                };
                parameter.for_each_output(argument, grid[0] as usize, is_device, |output| {
                    written.push(output);
                });
            }
        }
        for output in written {
            memory.overwritten(output, origin);
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

/// The bytes of device memory, if all of them have a value, be it an assumed one.
pub(super) fn known(memory: &Memory, address: u64, len: usize) -> Option<Known> {
    if !memory.is_memory(address, len as u64) {
        return None;
    }
    memory.contents.known(address, len)
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
