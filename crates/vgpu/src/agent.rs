//! What the agent inside the script's Python calls, by name and through `ctypes`; docs/contracts.md describes it.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use oomproof_profile::layout::counter;
use oomproof_profile::{Phase, Record, Role};

use crate::session::{attach, restart, session};

/// Number of the functions in this file as a whole; the agent has the same, and refuses a library with another one.
pub const INTERFACE: u32 = 1;

static LAST_ERROR: Mutex<Option<CString>> = Mutex::new(None);

/// The phase of a code; the agent only uses known ones, and anything else counts as idle.
pub(crate) fn phase_of(code: u32) -> Phase {
    u8::try_from(code)
        .ok()
        .and_then(Phase::from_code)
        .unwrap_or(Phase::Idle)
}

/// SAFETY: `text` must be null or a C string that outlives the result.
unsafe fn text<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Which functions the agent finds here, as one number: it is asked before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_interface() -> u32 {
    INTERFACE
}

/// SAFETY: `path` must be null or a C string.
unsafe fn begin(path: *const c_char, how: impl FnOnce(&Path) -> Result<(), String>) -> c_int {
    if path.is_null() {
        return 1;
    }
    // SAFETY: promised by the caller.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    match how(path) {
        Ok(()) => 0,
        Err(sentence) => {
            if let Ok(mut last) = LAST_ERROR.lock() {
                *last = CString::new(sentence).ok();
            }
            1
        }
    }
}

/// Starts the session that the settings in the file at `path` describe; 0, or 1 with a sentence in [`oomproof_error`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_attach(path: *const c_char) -> c_int {
    // SAFETY: the agent passes a C string.
    unsafe { begin(path, attach) }
}

/// In a forked child whose parent has not used the device: goes on as if the process had begun with the settings in
/// the file at `path`; 0, or 1 with a sentence in [`oomproof_error`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_restart(path: *const c_char) -> c_int {
    // SAFETY: the agent passes a C string.
    unsafe { begin(path, restart) }
}

/// One sentence about the last failure of [`oomproof_attach`] or [`oomproof_restart`], or null.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_error() -> *const c_char {
    LAST_ERROR
        .lock()
        .ok()
        .and_then(|last| last.as_ref().map(|text| text.as_ptr()))
        .unwrap_or(std::ptr::null())
}

/// Address of the mapped header of the profile, or null.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_header() -> *mut c_void {
    session().map_or(std::ptr::null_mut(), |session| {
        session.header.address().cast()
    })
}

/// The id of a source line, 0 without a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_site(
    file: *const c_char,
    line: u32,
    function: *const c_char,
) -> u32 {
    // SAFETY: the agent passes C strings.
    session().map_or(0, |session| unsafe {
        session.site(&text(file), line, &text(function))
    })
}

/// The id of a module, 0 without a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_module(path: *const c_char, class: *const c_char) -> u32 {
    // SAFETY: the agent passes C strings.
    session().map_or(0, |session| unsafe {
        session.module(&text(path), &text(class))
    })
}

/// A phase begins.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_phase(phase: u32, step: u32) {
    let Some(session) = session() else { return };
    session.header.set_phase(phase, step);
    session.note_device_time();
    session.record(&Record::Phase {
        nanos: session.nanos(),
        phase: phase_of(phase),
        step,
    });
}

/// A training step ended.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_step(step: u32) {
    let Some(session) = session() else { return };
    let restart = |peak, now| {
        let now = session.header.counter(now).load(Ordering::Relaxed);
        session.header.counter(peak).swap(now, Ordering::Relaxed)
    };
    let peak_allocated = restart(counter::STEP_PEAK_ALLOCATED, counter::ALLOCATED);
    let peak_reserved = restart(counter::STEP_PEAK_RESERVED, counter::RESERVED);
    session.record(&Record::Step {
        nanos: session.nanos(),
        step,
        peak_allocated,
        peak_reserved,
        device_nanos: session.device_time_of_step(),
    });
}

/// This process is a rank of so many.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_rank(rank: u32, world: u32) {
    if let Some(session) = session() {
        session.board().enlist(rank, world);
    }
}

/// Whether all ranks want what `topic` stands for and have come to the moment at which all of them do it.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_agree(topic: u32, moment: u64, wanted: i32) -> i32 {
    let agreed = session().map_or(wanted != 0, |session| {
        session.board().agree(topic as usize, moment, wanted != 0)
    });
    i32::from(agreed)
}

/// The blocks that hold these addresses have this role; `names` may be null, as may each of its entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_label(
    n: u64,
    addresses: *const u64,
    role: u32,
    names: *const *const c_char,
) {
    let Some(session) = session() else { return };
    let Some(role) = u8::try_from(role).ok().and_then(Role::from_code) else {
        return;
    };
    if addresses.is_null() {
        return;
    }
    for index in 0..n as usize {
        // SAFETY: the agent passes arrays of `n` entries, and C strings or nulls in `names`.
        let (address, name) = unsafe {
            let name = if names.is_null() {
                std::ptr::null()
            } else {
                *names.add(index)
            };
            (*addresses.add(index), text(name))
        };
        let name = if name.is_empty() {
            0
        } else {
            session.text(&name)
        };
        session.record(&Record::Label {
            nanos: session.nanos(),
            address,
            role,
            name,
        });
    }
}

/// A JSON object for the profile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oomproof_note(json: *const c_char) {
    if let Some(session) = session() {
        // SAFETY: the agent passes a C string.
        session.note(&unsafe { text(json) });
    }
}

/// PyTorch's allocator reports nothing in this process: what the device hands out is what PyTorch allocates.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_ledger() {
    if let Some(session) = session() {
        session.ledger.begin(session.settings.device_count as usize);
    }
}

/// Trims and flushes the profile; later events are still recorded.
#[unsafe(no_mangle)]
pub extern "C" fn oomproof_close() {
    if let Some(session) = session() {
        session.note_device_time();
        session.trim();
    }
}
