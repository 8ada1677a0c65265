//! The arguments of one launch, as bytes at offsets.
//!
//! Which types the arguments have is known only from the kernel's name, so nothing but offsets can be checked by the
//! compiler; all reading of foreign memory is in this file.

use std::ffi::c_void;

use super::super::tensor_lists::{Entry, TensorLists};
use super::access::Access;

/// The arguments of a launch, and its grid of blocks, which is all zeros when it is not known.
pub(crate) struct Launch {
    arguments: *const *const c_void,
    n_arguments: usize,
    pub(crate) grid: [u32; 3],
}

impl Launch {
    /// # Safety
    /// `arguments` must point to `n_arguments` pointers, each to the value of a kernel's parameter, of the type that
    /// its name says; they must stay valid as long as this is used.
    pub(crate) unsafe fn new(
        arguments: *const *const c_void,
        n_arguments: usize,
        grid: [u32; 3],
    ) -> Self {
        Self {
            arguments,
            n_arguments,
            grid,
        }
    }

    /// The argument of the parameter at `index`.
    pub(crate) fn argument(&self, index: usize) -> Option<Argument<'_>> {
        if index >= self.n_arguments {
            return None;
        }
        // SAFETY: `new` was promised as many.
        let argument = unsafe { *self.arguments.add(index) };
        (!argument.is_null()).then_some(Argument {
            at: argument.cast(),
            launch: std::marker::PhantomData,
        })
    }

    /// The address in the argument at `index`.
    pub(crate) fn address(&self, index: usize) -> Option<u64> {
        Some(self.argument(index)?.u64(0))
    }

    /// The whole number in the argument at `index`, which is of this C++ type.
    pub(crate) fn number(&self, index: usize, cpp_type: &str) -> Option<i64> {
        let argument = self.argument(index)?;
        Some(match cpp_type.trim().trim_end_matches(" const") {
            "bool" => i64::from(argument.u8(0) != 0),
            "int" => i64::from(argument.i32(0)),
            "unsigned int" => i64::from(argument.u32(0)),
            "long" | "long long" => argument.u64(0) as i64,
            "unsigned long" | "unsigned long long" => i64::try_from(argument.u64(0)).ok()?,
            _ => return None,
        })
    }

    /// The same as a length.
    pub(crate) fn count(&self, index: usize, cpp_type: &str) -> Option<usize> {
        usize::try_from(self.number(index, cpp_type)?).ok()
    }
}

/// The value of one parameter.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    at: *const u8,
    launch: std::marker::PhantomData<&'a Launch>,
}

impl Argument<'_> {
    /// The tensors in lists of this type that a grid of this many blocks works on; see [`TensorLists::in_use`].
    pub(crate) fn tensor_lists(
        self,
        lists: TensorLists,
        n_blocks: usize,
        access: &Access,
    ) -> Option<Vec<Entry>> {
        let is_memory = |address: u64| access.is_memory(address);
        // SAFETY: whoever asks for a parameter knows its type by name.
        unsafe { lists.in_use(self.at.cast(), n_blocks, &is_memory) }
    }

    fn read<const N: usize>(self, offset: usize) -> [u8; N] {
        // SAFETY: whoever asks for a parameter knows its type by name, and asks only for bytes that values of this
        // type hold.
        unsafe { self.at.add(offset).cast::<[u8; N]>().read_unaligned() }
    }

    pub(crate) fn u8(self, offset: usize) -> u8 {
        u8::from_ne_bytes(self.read(offset))
    }

    pub(crate) fn i32(self, offset: usize) -> i32 {
        i32::from_ne_bytes(self.read(offset))
    }

    pub(crate) fn u32(self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.read(offset))
    }

    pub(crate) fn u64(self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.read(offset))
    }

    pub(crate) fn bytes(self, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len).map(|at| self.u8(at)).collect()
    }

    /// The parameter from `offset` on.
    pub(crate) fn from(self, offset: usize) -> Self {
        Self {
            // SAFETY: as for reading.
            at: unsafe { self.at.add(offset) },
            launch: self.launch,
        }
    }
}
