//! What a kernel launch means, when kernels are not executed.
//!
//! CUDA programs register every kernel with its mangled name, and PyTorch's are C++ templates, so the name tells the
//! types of the arguments. From them follows which argument points to output. A launch makes those bytes unknown,
//! unless the kernel is one of the few that are carried out: a fill costs nothing here, whatever its size.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use oomproof_profile::layout::counter;

use crate::contents::Pattern;
use crate::memory::Memory;
use crate::session::Session;
use crate::signature::{Parameter, Signature};

/// Address of a host stub (or a handle of a loaded function), and of the kernel's mangled name.
type Registration = (usize, usize);

#[derive(Default)]
struct Kernels {
    registered: Vec<Registration>,
    sorted: bool,
    known: HashMap<usize, &'static Kernel>,
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
    let origin = session.text(&signature.short_name());
    let kernel = Box::leak(Box::new(Kernel {
        origin,
        meaning: meaning(&signature),
    }));
    kernels.known.insert(address, kernel);
    kernel
}

fn meaning(signature: &Signature) -> Meaning {
    if let Some(element_len) = signature.fill_element_len() {
        return Meaning::Fill { element_len };
    }
    let outputs = signature.parameters().iter().copied().enumerate();
    Meaning::Writes(
        outputs
            .filter(|(_, parameter)| parameter.is_written())
            .collect(),
    )
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
        Meaning::Writes(outputs) => {
            for (index, parameter) in outputs {
                let mut written = Vec::new();
                // SAFETY: the signature is that of the launched kernel, so it has this parameter.
                unsafe {
                    let argument = *arguments.add(*index);
                    if !argument.is_null() {
                        let is_device = |word| memory.is_memory(word, 1);
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

/// The bytes that stand in for unknown ones last written by `origin`: one for the result of "are all of them true?",
/// which is how validity checks ask, and zero for everything else.
pub(crate) fn assumed_byte(origin: &str) -> u8 {
    u8::from(origin.contains("and_kernel"))
}
