//! A program: the names asked for, and an image that stands for its code.

use std::ffi::{CStr, CString, c_char};

use super::NvrtcStatus;
use crate::session::session;
use crate::status::put;

/// One program.
struct Program {
    /// Names asked for. A lowered name is the expression itself, kept where the caller may point at it.
    names: Vec<CString>,
    compiled: bool,
}

impl Program {
    /// What stands for the code: a text in the form of PTX that names the kernels.
    fn image(&self) -> Vec<u8> {
        let mut image = b"// not compiled: kernels are not executed\n".to_vec();
        for name in &self.names {
            image.extend_from_slice(b".visible .entry ");
            image.extend_from_slice(name.to_bytes());
            image.extend_from_slice(b"()\n");
        }
        image.push(0);
        image
    }
}

fn with<R>(
    program: u64,
    look: impl FnOnce(&mut Program) -> Result<R, NvrtcStatus>,
) -> Result<R, NvrtcStatus> {
    let found = session().and_then(|session| session.handles::<Program>().with(program, look));
    found.unwrap_or(Err(NvrtcStatus::INVALID_PROGRAM))
}

fn status(result: Result<(), NvrtcStatus>) -> NvrtcStatus {
    result.map_or_else(|error| error, |()| NvrtcStatus::SUCCESS)
}

/// # Safety
/// `text` must be null or a C string.
unsafe fn copied(text: *const c_char) -> Option<CString> {
    // SAFETY: not null where it is read; promised by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned())
}

/// The version: that of CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut i32, minor: *mut i32) -> NvrtcStatus {
    let cuda = session().map_or(0, |session| session.settings.cuda_version as i32);
    // SAFETY: the caller passes places for numbers or null.
    unsafe {
        put(major, cuda / 1000);
        put(minor, cuda % 1000 / 10);
    }
    if major.is_null() || minor.is_null() {
        NvrtcStatus::INVALID_INPUT
    } else {
        NvrtcStatus::SUCCESS
    }
}

/// Architectures that NVRTC compiles for, as PyTorch's CUDA versions have them.
const ARCHITECTURES: [i32; 8] = [75, 80, 86, 89, 90, 100, 103, 120];

/// How many architectures there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut i32) -> NvrtcStatus {
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(count, ARCHITECTURES.len() as i32) };
    if count.is_null() {
        NvrtcStatus::INVALID_INPUT
    } else {
        NvrtcStatus::SUCCESS
    }
}

/// The architectures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetSupportedArchs(architectures: *mut i32) -> NvrtcStatus {
    if architectures.is_null() {
        return NvrtcStatus::INVALID_INPUT;
    }
    // SAFETY: not null, and the caller has room for as many as there are.
    unsafe {
        std::ptr::copy_nonoverlapping(ARCHITECTURES.as_ptr(), architectures, ARCHITECTURES.len());
    }
    NvrtcStatus::SUCCESS
}

/// Makes a program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut u64,
    source: *const c_char,
    name: *const c_char,
    headers: i32,
    header_texts: *const *const c_char,
    header_names: *const *const c_char,
) -> NvrtcStatus {
    let _ = (name, headers, header_texts, header_names);
    let session = session();
    let handle = session
        .filter(|_| !source.is_null() && !program.is_null())
        .map(|session| {
            session.handles().add(Program {
                names: Vec::new(),
                compiled: false,
            })
        });
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { put(program, handle.unwrap_or(0)) };
    match handle {
        Some(_) => NvrtcStatus::SUCCESS,
        None if session.is_none() => NvrtcStatus::PROGRAM_CREATION_FAILURE,
        None => NvrtcStatus::INVALID_INPUT,
    }
}

/// Ends a program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut u64) -> NvrtcStatus {
    if program.is_null() {
        return NvrtcStatus::INVALID_PROGRAM;
    }
    // SAFETY: not null, and the caller passes a handle.
    let handle = unsafe { program.read_unaligned() };
    let removed = session().and_then(|session| session.handles::<Program>().remove(handle));
    // SAFETY: not null.
    unsafe { put(program, 0) };
    if removed.is_some() {
        NvrtcStatus::SUCCESS
    } else {
        NvrtcStatus::INVALID_PROGRAM
    }
}

/// Asks for the name of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcAddNameExpression(
    program: u64,
    expression: *const c_char,
) -> NvrtcStatus {
    // SAFETY: the caller passes a C string or null.
    let Some(expression) = (unsafe { copied(expression) }) else {
        return NvrtcStatus::INVALID_INPUT;
    };
    status(with(program, |program| {
        if program.compiled {
            return Err(NvrtcStatus::NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
        }
        program.names.push(expression);
        Ok(())
    }))
}

/// Accepts a program; an empty one is as good as any.
#[unsafe(no_mangle)]
pub extern "C" fn nvrtcCompileProgram(
    program: u64,
    count: i32,
    options: *const *const c_char,
) -> NvrtcStatus {
    let _ = (count, options);
    status(with(program, |program| {
        program.compiled = true;
        Ok(())
    }))
}

/// The name of a kernel in the image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetLoweredName(
    program: u64,
    expression: *const c_char,
    lowered: *mut *const c_char,
) -> NvrtcStatus {
    // SAFETY: the caller passes a C string or null.
    let wanted = unsafe { copied(expression) };
    let name = with(program, |program| {
        if !program.compiled {
            return Err(NvrtcStatus::NO_LOWERED_NAMES_BEFORE_COMPILATION);
        }
        let found = program
            .names
            .iter()
            .find(|name| Some(*name) == wanted.as_ref());
        found
            .map(|name| name.as_ptr())
            .ok_or(NvrtcStatus::NAME_EXPRESSION_NOT_VALID)
    });
    // SAFETY: the caller passes a place for a pointer or null.
    unsafe { put(lowered, name.unwrap_or(std::ptr::null())) };
    match name {
        Err(error) => error,
        Ok(_) if lowered.is_null() => NvrtcStatus::INVALID_INPUT,
        Ok(_) => NvrtcStatus::SUCCESS,
    }
}

/// # Safety
/// `size` must be null or valid for writing.
unsafe fn put_size(
    program: u64,
    size: *mut usize,
    look: impl FnOnce(&Program) -> usize,
) -> NvrtcStatus {
    let found = with(program, |program| Ok(look(program)));
    // SAFETY: promised by the caller.
    unsafe { put(size, found.unwrap_or(0)) };
    match found {
        Err(error) => error,
        Ok(_) if size.is_null() => NvrtcStatus::INVALID_INPUT,
        Ok(_) => NvrtcStatus::SUCCESS,
    }
}

/// # Safety
/// `out` must be null or have room for what `look` gives.
unsafe fn put_bytes(
    program: u64,
    out: *mut c_char,
    look: impl FnOnce(&Program) -> Vec<u8>,
) -> NvrtcStatus {
    match with(program, |program| Ok(look(program))) {
        Err(error) => error,
        Ok(_) if out.is_null() => NvrtcStatus::INVALID_INPUT,
        Ok(bytes) => {
            // SAFETY: not null, and the caller asked for the size before.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len()) };
            NvrtcStatus::SUCCESS
        }
    }
}

macro_rules! images {
    ($($size:ident, $bytes:ident, $what:literal, $look:expr;)+) => { $(
        #[doc = concat!("The size of ", $what, ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $size(program: u64, size: *mut usize) -> NvrtcStatus {
            // SAFETY: the caller passes a place for a size or null.
            unsafe { put_size(program, size, |program| $look(program).len()) }
        }

        #[doc = concat!("Writes ", $what, ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $bytes(program: u64, out: *mut c_char) -> NvrtcStatus {
            // SAFETY: the caller passes room for the size it asked for, or null.
            unsafe { put_bytes(program, out, $look) }
        }
    )+ };
}

/// A log without a line.
fn empty_log(_: &Program) -> Vec<u8> {
    vec![0]
}

images! {
    nvrtcGetPTXSize, nvrtcGetPTX, "what stands for the PTX", Program::image;
    nvrtcGetCUBINSize, nvrtcGetCUBIN, "what stands for the machine code", Program::image;
    nvrtcGetProgramLogSize, nvrtcGetProgramLog, "the log, which is empty", empty_log;
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;
    use crate::libraries::testing::machine;

    #[test]
    fn a_program_keeps_the_names_of_its_kernels() {
        machine();
        let mut program = 0;
        let mut lowered = null();
        let mut size = 0;
        // SAFETY: C strings and places for what is asked.
        unsafe {
            let source = c"__global__ void f() {}".as_ptr();
            assert_eq!(
                nvrtcCreateProgram(&raw mut program, source, null(), 0, null(), null()),
                NvrtcStatus::SUCCESS
            );
            assert_eq!(
                nvrtcAddNameExpression(program, c"f".as_ptr()),
                NvrtcStatus::SUCCESS
            );
            let early = nvrtcGetLoweredName(program, c"f".as_ptr(), &raw mut lowered);
            assert_eq!(early, NvrtcStatus::NO_LOWERED_NAMES_BEFORE_COMPILATION);
            assert_eq!(
                nvrtcCompileProgram(program, 0, null()),
                NvrtcStatus::SUCCESS
            );
            assert_eq!(
                nvrtcGetLoweredName(program, c"f".as_ptr(), &raw mut lowered),
                NvrtcStatus::SUCCESS
            );
            assert_eq!(CStr::from_ptr(lowered), c"f");
            let unknown = nvrtcGetLoweredName(program, c"g".as_ptr(), &raw mut lowered);
            assert_eq!(
                (unknown, lowered),
                (NvrtcStatus::NAME_EXPRESSION_NOT_VALID, null())
            );
            assert_eq!(
                nvrtcGetPTXSize(program, &raw mut size),
                NvrtcStatus::SUCCESS
            );
            let mut image = vec![1 as c_char; size];
            assert_eq!(
                nvrtcGetPTX(program, image.as_mut_ptr()),
                NvrtcStatus::SUCCESS
            );
            assert!(
                CStr::from_ptr(image.as_ptr())
                    .to_string_lossy()
                    .contains(".entry f")
            );
            assert_eq!(nvrtcDestroyProgram(&raw mut program), NvrtcStatus::SUCCESS);
            assert_eq!(
                nvrtcDestroyProgram(&raw mut program),
                NvrtcStatus::INVALID_PROGRAM
            );
        }
    }
}
