//! nvJPEG: pictures are not decoded; how large they become is read from the head of the file.
//!
//! Buffers of the library's own are taken from neither the device nor the host here; their size is not public.

mod header;

use std::ffi::c_char;

use header::{Picture, picture};
use oomproof_profile::Basis;

use super::estimate::leave_out;
use crate::kernels::Read;
use crate::session::{Session, session};
use crate::status::put;

/// `nvjpegStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NvjpegStatus(pub i32);

impl NvjpegStatus {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// There is no device.
    pub const NOT_INITIALIZED: Self = Self(1);
    /// A handle or pointer is wrong.
    pub const INVALID_PARAMETER: Self = Self(2);
    /// The file is not one of a picture.
    pub const BAD_JPEG: Self = Self(3);
    /// The device has no decoder of its own.
    pub const ARCH_MISMATCH: Self = Self(7);
}

/// Everything that the library hands out: a picture in work, how many there are, and how large an encoded one is.
#[derive(Clone, Copy, Debug, Default)]
struct Object {
    picture: Option<Picture>,
    batch: usize,
    encoded: u64,
}

/// `nvjpegImage_t`: the memory of up to four components.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Image {
    channels: [u64; 4],
    pitches: [usize; 4],
}

/// # Safety
/// `out` must be null or valid for writing.
unsafe fn create(out: *mut u64) -> NvjpegStatus {
    let session = session();
    let handle = session
        .filter(|_| !out.is_null())
        .map_or(0, |session| session.handles().add(Object::default()));
    // SAFETY: promised by the caller.
    unsafe { put(out, handle) };
    match session {
        None => NvjpegStatus::NOT_INITIALIZED,
        Some(_) if handle == 0 => NvjpegStatus::INVALID_PARAMETER,
        Some(_) => {
            leave_out("the memory of nvJPEG's own buffers");
            NvjpegStatus::SUCCESS
        }
    }
}

/// Looks at or changes an object.
fn look<R>(handle: u64, look: impl FnOnce(&mut Object) -> R) -> Result<R, NvjpegStatus> {
    session()
        .ok_or(NvjpegStatus::NOT_INITIALIZED)?
        .handles()
        .with(handle, look)
        .ok_or(NvjpegStatus::INVALID_PARAMETER)
}

fn done(result: Result<(), NvjpegStatus>) -> NvjpegStatus {
    result.err().unwrap_or(NvjpegStatus::SUCCESS)
}

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegCreateSimple(handle: *mut u64) -> NvjpegStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(handle) }
}

/// Makes a handle for a way of decoding; only large cards for data centers have a decoder of their own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegCreateEx(
    backend: i32,
    device_allocator: u64,
    pinned_allocator: u64,
    flags: u32,
    handle: *mut u64,
) -> NvjpegStatus {
    const HARDWARE: i32 = 3;
    let _ = (device_allocator, pinned_allocator, flags);
    let capability = session().map(|session| session.settings.device.compute_capability);
    if backend == HARDWARE && !matches!(capability, Some((8..=10, 0))) {
        // SAFETY: the caller passes a place for a handle or null.
        unsafe { put(handle, 0) };
        return NvjpegStatus::ARCH_MISMATCH;
    }
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { create(handle) }
}

macro_rules! objects {
    ($($create:ident($($parameter:ident: $type:ty),*);)+) => { $(
        #[doc = concat!("`", stringify!($create), "`: makes an object.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(handle: u64, $($parameter: $type,)* out: *mut u64) -> NvjpegStatus {
            let _ = ($($parameter,)*);
            // SAFETY: the caller passes a place for a handle or null.
            unsafe {
                put(out, 0);
                look(handle, |_| ()).map_or_else(|error| error, |()| create(out))
            }
        }
    )+ };
}

objects! {
    nvjpegJpegStateCreate();
    nvjpegJpegStreamCreate();
    nvjpegDecodeParamsCreate();
    nvjpegDecoderCreate(implementation: i32);
    nvjpegDecoderStateCreate(decoder: u64);
    nvjpegBufferPinnedCreate(allocator: u64);
    nvjpegBufferDeviceCreate(allocator: u64);
}

macro_rules! encoders {
    ($($create:ident;)+) => { $(
        #[doc = concat!("`", stringify!($create), "`: makes an object.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(handle: u64, out: *mut u64, stream: u64) -> NvjpegStatus {
            let _ = stream;
            // SAFETY: the caller passes a place for a handle or null.
            unsafe {
                put(out, 0);
                look(handle, |_| ()).map_or_else(|error| error, |()| create(out))
            }
        }
    )+ };
}

encoders! {
    nvjpegEncoderStateCreate;
    nvjpegEncoderParamsCreate;
}

macro_rules! ends {
    ($($destroy:ident;)+) => { $(
        #[doc = concat!("`", stringify!($destroy), "`: ends an object.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(object: u64) -> NvjpegStatus {
            match session().and_then(|session| session.handles::<Object>().remove(object)) {
                Some(_) => NvjpegStatus::SUCCESS,
                None => NvjpegStatus::INVALID_PARAMETER,
            }
        }
    )+ };
}

ends! {
    nvjpegDestroy;
    nvjpegJpegStateDestroy;
    nvjpegJpegStreamDestroy;
    nvjpegDecodeParamsDestroy;
    nvjpegDecoderDestroy;
    nvjpegBufferPinnedDestroy;
    nvjpegBufferDeviceDestroy;
    nvjpegEncoderStateDestroy;
    nvjpegEncoderParamsDestroy;
}

macro_rules! accepted {
    ($($name:ident($object:ident $(, $parameter:ident: $type:ty)*);)+) => { $(
        #[doc = concat!("`", stringify!($name), "`: accepted for an object that exists.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($object: u64 $(, $parameter: $type)*) -> NvjpegStatus {
            let _ = ($($parameter,)*);
            done(look($object, |_| ()))
        }
    )+ };
}

accepted! {
    nvjpegStateAttachPinnedBuffer(state, buffer: u64);
    nvjpegStateAttachDeviceBuffer(state, buffer: u64);
    nvjpegDecodeParamsSetOutputFormat(parameters, format: i32);
    nvjpegEncoderParamsSetQuality(parameters, quality: i32, stream: u64);
    nvjpegEncoderParamsSetSamplingFactors(parameters, subsampling: i32, stream: u64);
    nvjpegDecodeJpegHost(handle, decoder: u64, state: u64, parameters: u64, picture: u64);
    nvjpegDecodeJpegTransferToDevice(handle, decoder: u64, state: u64, picture: u64, stream: u64);
}

/// # Safety
/// `data` must be null or valid for reading `length` bytes.
unsafe fn read(data: *const u8, length: usize) -> Result<Picture, NvjpegStatus> {
    if data.is_null() || length > isize::MAX as usize {
        return Err(NvjpegStatus::INVALID_PARAMETER);
    }
    // SAFETY: not null; the caller promises the length.
    picture(unsafe { std::slice::from_raw_parts(data, length) }).ok_or(NvjpegStatus::BAD_JPEG)
}

/// The components and sizes of a picture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegGetImageInfo(
    handle: u64,
    data: *const u8,
    length: usize,
    components: *mut i32,
    subsampling: *mut i32,
    widths: *mut i32,
    heights: *mut i32,
) -> NvjpegStatus {
    // SAFETY: the caller passes a file of that length or null.
    let found = look(handle, |_| ()).and_then(|()| unsafe { read(data, length) });
    let sizes = found.map_or([(0, 0); 4], |picture| picture.sizes());
    // SAFETY: the caller passes places for numbers, and room for four sizes each, or null.
    unsafe {
        put(
            components,
            found.map_or(0, |picture| picture.components as i32),
        );
        put(
            subsampling,
            found.map_or(-1, |picture| picture.subsampling()),
        );
        for (index, (width, height)) in sizes.into_iter().enumerate() {
            if !widths.is_null() && !heights.is_null() {
                put(widths.add(index), width);
                put(heights.add(index), height);
            }
        }
    }
    done(found.map(|_| ()))
}

/// # Safety
/// `data` must be null or valid for reading `length` bytes.
unsafe fn parse(handle: u64, data: *const u8, length: usize, stream: u64) -> NvjpegStatus {
    // SAFETY: promised by the caller.
    let found = look(handle, |_| ()).and_then(|()| unsafe { read(data, length) });
    done(found.and_then(|picture| look(stream, |object| object.picture = Some(picture))))
}

/// Reads a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegJpegStreamParse(
    handle: u64,
    data: *const u8,
    length: usize,
    save_metadata: i32,
    save_stream: i32,
    stream: u64,
) -> NvjpegStatus {
    let _ = (save_metadata, save_stream);
    // SAFETY: the caller passes a file of that length or null.
    unsafe { parse(handle, data, length, stream) }
}

/// Reads the head of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegJpegStreamParseHeader(
    handle: u64,
    data: *const u8,
    length: usize,
    stream: u64,
) -> NvjpegStatus {
    // SAFETY: the caller passes a file of that length or null.
    unsafe { parse(handle, data, length, stream) }
}

/// Whether the decoder of the device takes a picture, which is written as 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegDecodeBatchedSupported(
    handle: u64,
    stream: u64,
    refused: *mut i32,
) -> NvjpegStatus {
    let known = look(handle, |_| ()).and_then(|()| look(stream, |object| object.picture.is_some()));
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(refused, i32::from(known != Ok(true))) };
    done(known.map(|_| ()))
}

/// Says how many pictures follow.
#[unsafe(no_mangle)]
pub extern "C" fn nvjpegDecodeBatchedInitialize(
    handle: u64,
    state: u64,
    batch: i32,
    threads: i32,
    format: i32,
) -> NvjpegStatus {
    let _ = (threads, format);
    let Ok(batch) = usize::try_from(batch) else {
        return NvjpegStatus::INVALID_PARAMETER;
    };
    done(look(handle, |_| ()).and_then(|()| look(state, |object| object.batch = batch)))
}

fn wrote(session: &Session, name: &str, image: Image) {
    let channels: Vec<u64> = image
        .channels
        .into_iter()
        .filter(|channel| *channel != 0)
        .collect();
    session.library_wrote(name, &channels);
}

/// # Safety
/// `images` must be null or valid for reading `count` images.
unsafe fn decode(name: &str, images: *const Image, count: usize) -> NvjpegStatus {
    let Some(session) = session().filter(|_| !images.is_null()) else {
        return NvjpegStatus::INVALID_PARAMETER;
    };
    for index in 0..count {
        // SAFETY: promised by the caller.
        wrote(session, name, unsafe { images.add(index).read_unaligned() });
    }
    NvjpegStatus::SUCCESS
}

/// Decodes pictures: accepted and not carried out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegDecodeBatched(
    handle: u64,
    state: u64,
    data: u64,
    lengths: u64,
    destinations: *const Image,
    stream: u64,
) -> NvjpegStatus {
    let _ = (data, lengths, stream);
    match look(handle, |_| ()).and_then(|()| look(state, |object| object.batch)) {
        Err(error) => error,
        // SAFETY: the caller passes as many destinations as it said before, or null.
        Ok(batch) => unsafe { decode("nvjpegDecodeBatched", destinations, batch) },
    }
}

/// Decodes a picture: accepted and not carried out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegDecodeJpegDevice(
    handle: u64,
    decoder: u64,
    state: u64,
    destination: *const Image,
    stream: u64,
) -> NvjpegStatus {
    let _ = (decoder, stream);
    match look(handle, |_| ()).and_then(|()| look(state, |_| ())) {
        Err(error) => error,
        // SAFETY: the caller passes one destination or null.
        Ok(()) => unsafe { decode("nvjpegDecodeJpegDevice", destination, 1) },
    }
}

/// Encodes a picture: accepted and not carried out.
#[unsafe(no_mangle)]
pub extern "C" fn nvjpegEncodeImage(
    handle: u64,
    state: u64,
    parameters: u64,
    source: u64,
    format: i32,
    width: i32,
    height: i32,
    stream: u64,
) -> NvjpegStatus {
    let _ = (parameters, source, format, stream);
    let (Ok(width), Ok(height)) = (u64::try_from(width), u64::try_from(height)) else {
        return NvjpegStatus::INVALID_PARAMETER;
    };
    let encoded = 3 * width * height;
    done(look(handle, |_| ()).and_then(|()| look(state, |object| object.encoded = encoded)))
}

/// The encoded picture, whose size depends on what it shows: the size before encoding is assumed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegEncodeRetrieveBitstreamDevice(
    handle: u64,
    state: u64,
    data: u64,
    length: *mut usize,
    stream: u64,
) -> NvjpegStatus {
    let _ = stream;
    let name = "nvjpegEncodeRetrieveBitstreamDevice";
    let encoded = look(handle, |_| ()).and_then(|()| look(state, |object| object.encoded));
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(length, encoded.unwrap_or(0) as usize) };
    if let (Ok(encoded), Some(session)) = (encoded, session()) {
        if data == 0 {
            let read = Read::by_library(session.text(name));
            session.unknown_read(0, 8, encoded, read, Basis::Plain);
        } else {
            session.library_wrote(name, &[data]);
        }
    }
    done(encoded.map(|_| ()))
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn nvjpegGetErrorString(status: NvjpegStatus) -> *const c_char {
    let text = match status.0 {
        0 => c"success",
        1 => c"not initialized",
        2 => c"invalid parameter",
        3 => c"the file is not a JPEG",
        7 => c"the device has no decoder",
        _ => c"unrecognized error code",
    };
    text.as_ptr()
}

/// A part of the version: 0 major, 1 minor, 2 patch; that of CUDA, which nvJPEG follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvjpegGetProperty(kind: i32, value: *mut i32) -> NvjpegStatus {
    let version = session().map(|session| session.settings.cuda_version as i32);
    let part = version.and_then(|cuda| {
        let parts = [cuda / 1000, cuda % 1000 / 10, 0];
        parts.get(usize::try_from(kind).ok()?).copied()
    });
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put(value, part.unwrap_or(0)) };
    if part.is_none() || value.is_null() {
        NvjpegStatus::INVALID_PARAMETER
    } else {
        NvjpegStatus::SUCCESS
    }
}
