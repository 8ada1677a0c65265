//! Copies and fills.
//!
//! Small copies are done for real, so that what the host put in comes out again. Large ones are counted and not done:
//! their bytes do not decide how much memory a program takes, and reading them would bring whole checkpoints into
//! host memory. What the host reads of unknown bytes is a stated value, and is recorded.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use oomproof_profile::layout::counter;
use oomproof_profile::{Basis, Phase, Touch};

use super::capture::{self, Lane};
use super::current::{Current, answer, current};
use super::graph::Work;
use super::stream::is_stream;
use crate::agent::phase_of;
use crate::clock;
use crate::contents::Pattern;
use crate::kernels::{Read, give};
use crate::session::Session;
use crate::status::CudaError;

/// Copies up to this many bytes are done.
const SMALL: u64 = 1 << 20;

/// `cudaMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// The addresses tell.
    Default,
}

impl Direction {
    fn from_code(code: c_int) -> Result<Self, CudaError> {
        Ok(match code {
            0 => Self::HostToHost,
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Default,
            _ => return Err(CudaError::INVALID_MEMCPY_DIRECTION),
        })
    }
}

/// Copies `len` bytes.
///
/// # Safety
/// A side that is host memory must be valid for `len` bytes.
pub(crate) unsafe fn copy_bytes(
    session: &Session,
    to: u64,
    from: u64,
    len: u64,
    direction: Direction,
) -> Result<(), CudaError> {
    if len == 0 {
        return Ok(());
    }
    let (from_device, to_device) = {
        let memory = session.memory();
        let sides = [
            (from, memory.arena.contains(from)),
            (to, memory.arena.contains(to)),
        ];
        for (address, on_device) in sides {
            if on_device && !memory.is_memory(address, len) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        (sides[0].1, sides[1].1)
    };
    // As with the real runtime, the addresses decide, and a direction that contradicts them is an error.
    let told = match direction {
        Direction::Default => (from_device, to_device),
        Direction::HostToHost => (false, false),
        Direction::HostToDevice => (false, true),
        Direction::DeviceToHost => (true, false),
        Direction::DeviceToDevice => (true, true),
    };
    if told != (from_device, to_device) {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: promised by the caller for the host sides.
    unsafe {
        match told {
            (false, false) => std::ptr::copy(from as *const u8, to as *mut u8, len as usize),
            (false, true) => host_to_device(session, to, from, len),
            (true, false) => device_to_host(session, to, from, len),
            (true, true) => device_to_device(session, to, from, len),
        }
    }
    Ok(())
}

/// # Safety
/// `from` must be valid for `len` bytes.
unsafe fn host_to_device(session: &Session, to: u64, from: u64, len: u64) {
    session
        .header
        .counter(counter::HOST_TO_DEVICE)
        .fetch_add(len, Ordering::Relaxed);
    let origin = if len > SMALL {
        session.text("a large copy from the host")
    } else {
        0
    };
    let mut memory = session.memory();
    session.touch(&mut memory, to, Touch::HostToDevice);
    if len <= SMALL {
        // SAFETY: promised by the caller.
        memory.contents.write(to, unsafe {
            std::slice::from_raw_parts(from as *const u8, len as usize)
        });
    } else {
        memory.contents.forget(to, len);
        if let Some((_, block)) = memory.block_of(to) {
            block.origin = origin;
        }
    }
}

fn device_to_device(session: &Session, to: u64, from: u64, len: u64) {
    let mut memory = session.memory();
    let origin = memory.origin(from);
    memory.contents.copy(from, to, len);
    if let Some((_, block)) = memory.block_of(to) {
        block.origin = origin;
    }
}

/// # Safety
/// `to` must be valid for writing `len` bytes.
unsafe fn device_to_host(session: &Session, to: u64, from: u64, len: u64) {
    session
        .header
        .counter(counter::DEVICE_TO_HOST)
        .fetch_add(len, Ordering::Relaxed);
    let [site, _, phase, _] = session.header.state();
    let mut memory = session.memory();
    let read = Read {
        origin: memory.origin(from),
        site,
        assumption: memory.contents.assumption(from, len),
        is_unknown: memory.contents.unknown(from, len) > 0,
    };
    if len > SMALL && read.is_unknown {
        drop(memory);
        // SAFETY: promised by the caller.
        unsafe { zero_lazily(to as *mut u8, len as usize) };
        session.unknown_read(from, len, 0, read, Basis::Data);
        return;
    }
    // SAFETY: promised by the caller.
    let out = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, len as usize) };
    if !read.is_unknown && read.assumption.is_none() {
        memory.contents.read(from, out);
        return;
    }
    let basis = give(session, read, out);
    if basis != Basis::User {
        memory.contents.read(from, out);
    }
    drop(memory);
    let mut first = [0; 8];
    let n_first = out.len().min(8);
    first[..n_first].copy_from_slice(&out[..n_first]);
    // Nothing is decided by what a checkpoint holds.
    let basis = if phase_of(phase) == Phase::Save {
        Basis::Data
    } else {
        basis
    };
    session.unknown_read(from, len, u64::from_le_bytes(first), read, basis);
}

/// Makes host memory read as zero without touching its whole pages, so that a copy of many gigabytes costs none.
///
/// # Safety
/// `to` must be valid for writing `len` bytes.
unsafe fn zero_lazily(to: *mut u8, len: usize) {
    const PAGE: usize = 4096;
    let head = to.align_offset(PAGE).min(len);
    let pages = (len - head) / PAGE * PAGE;
    // SAFETY: all three parts lie in the caller's range. Dropping private anonymous pages makes them read as zero;
    // where the kernel refuses (locked or special pages) they are written instead.
    unsafe {
        to.write_bytes(0, head);
        let middle = to.add(head);
        if pages > 0 && libc::madvise(middle.cast(), pages, libc::MADV_DONTNEED) != 0 {
            middle.write_bytes(0, pages);
        }
        middle.add(pages).write_bytes(0, len - head - pages);
    }
}

/// Sets `count` elements of `element` bytes.
pub(crate) fn set_bytes(
    session: &Session,
    to: u64,
    element: &[u8],
    count: u64,
) -> Result<(), CudaError> {
    let len = count
        .checked_mul(element.len() as u64)
        .ok_or(CudaError::INVALID_VALUE)?;
    if len == 0 {
        return Ok(());
    }
    let mut memory = session.memory();
    if !memory.is_memory(to, len) {
        return Err(CudaError::INVALID_VALUE);
    }
    memory.contents.fill(
        to,
        len,
        Pattern::new(element).ok_or(CudaError::INVALID_VALUE)?,
    );
    Ok(())
}

fn ready() -> Result<&'static Session, CudaError> {
    let Current {
        session, machine, ..
    } = current()?;
    session.ensure_context(machine);
    Ok(session)
}

/// As `ready`, for a call that makes the host wait for the default stream.
fn ready_to_wait() -> Result<&'static Session, CudaError> {
    let session = ready()?;
    capture::lane(session, 0)?;
    capture::refuse_unsafe()?;
    Ok(session)
}

/// The time of a copy passes on its stream.
pub(crate) fn pass_time(session: &Session, stream: u64, sides: [u64; 2], len: u64) {
    let memory = session.memory();
    if sides.iter().all(|side| memory.arena.contains(*side)) {
        clock::moves(session, stream, 2 * len);
    } else {
        let way = if memory.arena.contains(sides[0]) {
            clock::Way::FromHost
        } else {
            clock::Way::ToHost
        };
        clock::host_copy(session, stream, len, way);
    }
}

/// As `copy_bytes`, on a stream.
///
/// # Safety
/// As for `copy_bytes`.
pub(crate) unsafe fn copy_bytes_on(
    stream: u64,
    session: &Session,
    to: u64,
    from: u64,
    len: u64,
    direction: Direction,
) -> Result<(), CudaError> {
    if !is_stream(session, stream) {
        return Err(CudaError::INVALID_HANDLE);
    }
    match capture::lane(session, stream)? {
        Lane::Now => {
            pass_time(session, stream, [to, from], len);
            // SAFETY: promised by the caller.
            unsafe { copy_bytes(session, to, from, len, direction) }
        }
        Lane::Captured(id) => capture::add(session, id, stream, Work::Copy { to, from, len }),
    }
}

/// As `set_bytes`, on a stream.
pub(crate) fn set_bytes_on(
    stream: u64,
    session: &Session,
    to: u64,
    element: &[u8],
    count: u64,
) -> Result<(), CudaError> {
    if !is_stream(session, stream) {
        return Err(CudaError::INVALID_HANDLE);
    }
    capture::submit(session, stream, || {
        clock::moves(session, stream, count.saturating_mul(element.len() as u64));
        set_bytes(session, to, element, count)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy(to: u64, from: u64, len: usize, kind: c_int) -> CudaError {
    answer(|| {
        let direction = Direction::from_code(kind)?;
        // SAFETY: as for the CUDA function.
        unsafe { copy_bytes(ready_to_wait()?, to, from, len as u64, direction) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyAsync(
    to: u64,
    from: u64,
    len: usize,
    kind: c_int,
    stream: u64,
) -> CudaError {
    answer(|| {
        let direction = Direction::from_code(kind)?;
        // SAFETY: as for the CUDA function.
        unsafe { copy_bytes_on(stream, ready()?, to, from, len as u64, direction) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyPeer(
    to: u64,
    _to_device: c_int,
    from: u64,
    _from_device: c_int,
    len: usize,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    answer(|| unsafe {
        let session = ready_to_wait()?;
        copy_bytes(session, to, from, len as u64, Direction::DeviceToDevice)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyPeerAsync(
    to: u64,
    _to_device: c_int,
    from: u64,
    _from_device: c_int,
    len: usize,
    stream: u64,
) -> CudaError {
    // SAFETY: as for the CUDA function.
    answer(|| unsafe {
        copy_bytes_on(
            stream,
            ready()?,
            to,
            from,
            len as u64,
            Direction::DeviceToDevice,
        )
    })
}

/// Rows of bytes, so far apart on each side.
#[derive(Clone, Copy)]
struct Rows {
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
}

impl Rows {
    /// Start of each row on both sides.
    fn starts(self) -> Result<impl Iterator<Item = (u64, u64)>, CudaError> {
        if self.width > self.to_pitch || self.width > self.from_pitch {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok((0..self.height as u64).map(move |row| {
            let (to_pitch, from_pitch) = (self.to_pitch as u64, self.from_pitch as u64);
            (self.to + row * to_pitch, self.from + row * from_pitch)
        }))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy2D(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> CudaError {
    let rows = Rows {
        to,
        to_pitch,
        from,
        from_pitch,
        width,
        height,
    };
    answer(|| {
        let session = ready_to_wait()?;
        let direction = Direction::from_code(kind)?;
        for (to, from) in rows.starts()? {
            // SAFETY: as for the CUDA function.
            unsafe { copy_bytes(session, to, from, width as u64, direction)? };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy2DAsync(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
    stream: u64,
) -> CudaError {
    let rows = Rows {
        to,
        to_pitch,
        from,
        from_pitch,
        width,
        height,
    };
    answer(|| {
        let session = ready()?;
        let direction = Direction::from_code(kind)?;
        for (to, from) in rows.starts()? {
            // SAFETY: as for the CUDA function.
            unsafe { copy_bytes_on(stream, session, to, from, width as u64, direction)? };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset(to: u64, value: c_int, len: usize) -> CudaError {
    answer(|| set_bytes(ready_to_wait()?, to, &[value as u8], len as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemsetAsync(to: u64, value: c_int, len: usize, stream: u64) -> CudaError {
    answer(|| set_bytes_on(stream, ready()?, to, &[value as u8], len as u64))
}

fn set_rows(
    session: &Session,
    to: u64,
    pitch: usize,
    value: c_int,
    (width, height): (usize, usize),
) -> Result<(), CudaError> {
    (0..height as u64).try_for_each(|row| {
        let start = to + row * pitch as u64;
        set_bytes(session, start, &[value as u8], width as u64)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2D(
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> CudaError {
    answer(|| set_rows(ready_to_wait()?, to, pitch, value, (width, height)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2DAsync(
    to: u64,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: u64,
) -> CudaError {
    answer(|| {
        let session = ready()?;
        capture::submit(session, stream, || {
            set_rows(session, to, pitch, value, (width, height))
        })
    })
}

/// A variable of a kernel's module: its bytes have no address here, so the copy is not done.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyToSymbol(
    _symbol: *const c_void,
    _from: *const c_void,
    _len: usize,
    _offset: usize,
    _kind: c_int,
) -> CudaError {
    answer(|| ready().map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyToSymbolAsync(
    symbol: *const c_void,
    from: *const c_void,
    len: usize,
    offset: usize,
    kind: c_int,
    _stream: u64,
) -> CudaError {
    cudaMemcpyToSymbol(symbol, from, len, offset, kind)
}
