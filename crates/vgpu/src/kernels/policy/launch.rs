//! The arguments of one launch. CUDA passes one pointer per parameter, and what they point to has the layout of the
//! parameter's C++ type, which only its name tells.

use std::ffi::c_void;

/// Arguments whose parameters' types are known to whoever reads them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch(*const *const c_void);

impl Launch {
    /// # Safety
    /// `arguments` must hold one valid pointer for each parameter of the signature that the policy was made of, and a
    /// policy may only read what the types of its parameters hold.
    pub(super) unsafe fn new(arguments: *const *const c_void) -> Self {
        Self(arguments)
    }

    /// Address of an argument.
    pub(super) fn argument(self, index: usize) -> *const c_void {
        // SAFETY: promised to `new`.
        unsafe { *self.0.add(index) }
    }

    /// The eight bytes at this offset of an argument.
    pub(super) fn long_at(self, index: usize, offset: usize) -> u64 {
        // SAFETY: promised to `new`.
        unsafe {
            self.argument(index)
                .cast::<u8>()
                .add(offset)
                .cast::<u64>()
                .read_unaligned()
        }
    }

    /// A word of an argument, such as an address in it.
    pub(super) fn word(self, index: usize, word: usize) -> u64 {
        self.long_at(index, word * 8)
    }

    /// The four bytes at this offset of an argument.
    pub(super) fn int_at(self, index: usize, offset: usize) -> u32 {
        // SAFETY: promised to `new`.
        unsafe {
            self.argument(index)
                .cast::<u8>()
                .add(offset)
                .cast::<u32>()
                .read_unaligned()
        }
    }

    /// The first byte of an argument, such as a truth.
    pub(super) fn argument_byte(self, index: usize) -> u8 {
        // SAFETY: promised to `new`.
        unsafe { self.argument(index).cast::<u8>().read() }
    }

    /// An argument of four bytes.
    pub(super) fn int(self, index: usize) -> u32 {
        self.int_at(index, 0)
    }

    /// An argument that is a whole number of this C++ type, which no size or count is below zero in.
    pub(super) fn number(self, index: usize, cpp_type: &str) -> u64 {
        if cpp_type.contains("long") {
            self.word(index, 0)
        } else {
            u64::from(self.int(index))
        }
    }
}

/// Whether a C++ type is a whole number of four or eight bytes.
pub(super) fn is_number(cpp_type: &str) -> bool {
    matches!(
        cpp_type.trim(),
        "int" | "unsigned int" | "long" | "unsigned long" | "long long" | "unsigned long long"
    )
}

/// Bytes of an element of this C++ type, where the size is known.
pub(super) fn width(cpp_type: &str) -> Option<u64> {
    let cpp_type = cpp_type.trim();
    if let Some((_, digits)) = cpp_type.rsplit_once("OpaqueType<") {
        return digits.trim_end_matches(['>', 'u', 'l']).parse().ok();
    }
    Some(match cpp_type {
        "bool" | "char" | "signed char" | "unsigned char" => 1,
        "short" | "unsigned short" | "c10::Half" | "c10::BFloat16" => 2,
        "int" | "unsigned int" | "float" => 4,
        "long" | "unsigned long" | "long long" | "unsigned long long" | "double" => 8,
        _ => return None,
    })
}
