//! Descriptors of products, matrices and preferences: bytes by attribute, given back as they were set.
//!
//! Which attributes exist differs between versions and their meaning is the library's, so the bytes are kept as they
//! come and only those that decide about memory are ever looked at.

use std::collections::HashMap;
use std::ffi::c_void;

use crate::libraries::cublas::CublasStatus;
use crate::session::session;
use crate::status::put;

/// What was set, by the number of the attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(HashMap<i32, Vec<u8>>);

impl Attributes {
    pub(super) fn set(&mut self, attribute: i32, value: &[u8]) {
        self.0.insert(attribute, value.to_vec());
    }

    /// The attribute as a number of at most 8 bytes; 0 when it was not set.
    pub(super) fn number(&self, attribute: i32) -> u64 {
        let mut bytes = [0; 8];
        if let Some(value) = self.0.get(&attribute) {
            let len = value.len().min(8);
            bytes[..len].copy_from_slice(&value[..len]);
        }
        u64::from_le_bytes(bytes)
    }
}

/// # Safety
/// `buffer` must be null or valid for reading `size` bytes.
pub(super) unsafe fn set_in(
    attributes: &mut Attributes,
    attribute: i32,
    buffer: *const c_void,
    size: usize,
) -> CublasStatus {
    if buffer.is_null() || size == 0 {
        return CublasStatus::INVALID_VALUE;
    }
    // SAFETY: not null; the caller promises its length.
    attributes.set(attribute, unsafe {
        std::slice::from_raw_parts(buffer.cast(), size)
    });
    CublasStatus::SUCCESS
}

/// # Safety
/// `buffer` must be null or valid for writing `size` bytes, `written` null or valid for writing.
pub(super) unsafe fn get_from(
    attributes: Option<&Attributes>,
    attribute: i32,
    buffer: *mut c_void,
    size: usize,
    written: *mut usize,
) -> CublasStatus {
    let value =
        attributes.map(|attributes| attributes.0.get(&attribute).map_or(&[][..], Vec::as_slice));
    let len = value.map_or(0, <[u8]>::len);
    // An attribute that was never set has the library's default, of which all that PyTorch knows are zero.
    let out_len = if len == 0 { size } else { len };
    // SAFETY: the caller passes a place for a size or null.
    unsafe { put(written, if value.is_some() { out_len } else { 0 }) };
    if !buffer.is_null() && size > 0 {
        // SAFETY: not null; the caller promises its length.
        let out = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
        out.fill(0);
        let copied = len.min(size);
        out[..copied].copy_from_slice(&value.unwrap_or_default()[..copied]);
    }
    match value {
        None => CublasStatus::INVALID_VALUE,
        Some(_) if size == 0 && !written.is_null() => CublasStatus::SUCCESS,
        Some(_) if buffer.is_null() || size < len => CublasStatus::INVALID_VALUE,
        Some(_) => CublasStatus::SUCCESS,
    }
}

macro_rules! descriptor {
    ($kind:ident, $what:literal, $destroy:ident, $set:ident, $get:ident) => {
        #[doc = $what]
        #[derive(Clone, Debug, Default)]
        pub(super) struct $kind(pub(super) Attributes);

        impl $kind {
            /// A new one in `out`.
            ///
            /// # Safety
            /// `out` must be null or valid for writing a handle.
            unsafe fn create(out: *mut u64, attributes: Attributes) -> CublasStatus {
                let session = session();
                let handle = session
                    .filter(|_| !out.is_null())
                    .map_or(0, |session| session.handles().add(Self(attributes)));
                // SAFETY: promised by the caller.
                unsafe { put(out, handle) };
                match session {
                    None => CublasStatus::NOT_INITIALIZED,
                    Some(_) if handle == 0 => CublasStatus::INVALID_VALUE,
                    Some(_) => CublasStatus::SUCCESS,
                }
            }

            /// A copy of the one that `handle` names.
            pub(super) fn of(handle: u64) -> Option<Self> {
                session()?
                    .handles::<Self>()
                    .with(handle, |descriptor| descriptor.clone())
            }
        }

        #[doc = concat!("Ends ", $what)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(descriptor: u64) -> CublasStatus {
            match session().and_then(|session| session.handles::<$kind>().remove(descriptor)) {
                Some(_) => CublasStatus::SUCCESS,
                None => CublasStatus::INVALID_VALUE,
            }
        }

        #[doc = concat!("Sets an attribute of ", $what)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(
            descriptor: u64,
            attribute: i32,
            buffer: *const c_void,
            size: usize,
        ) -> CublasStatus {
            // SAFETY: the caller passes `size` bytes.
            let change = |kept: &mut $kind| unsafe { set_in(&mut kept.0, attribute, buffer, size) };
            session()
                .and_then(|session| session.handles::<$kind>().with(descriptor, change))
                .unwrap_or(CublasStatus::INVALID_VALUE)
        }

        #[doc = concat!("An attribute of ", $what)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            descriptor: u64,
            attribute: i32,
            buffer: *mut c_void,
            size: usize,
            written: *mut usize,
        ) -> CublasStatus {
            let kept = $kind::of(descriptor);
            // SAFETY: the caller passes room for `size` bytes and for their number.
            unsafe {
                get_from(
                    kept.as_ref().map(|kept| &kept.0),
                    attribute,
                    buffer,
                    size,
                    written,
                )
            }
        }
    };
}

descriptor!(
    Product,
    "a description of a product.",
    cublasLtMatmulDescDestroy,
    cublasLtMatmulDescSetAttribute,
    cublasLtMatmulDescGetAttribute
);
descriptor!(
    Layout,
    "a layout of a matrix.",
    cublasLtMatrixLayoutDestroy,
    cublasLtMatrixLayoutSetAttribute,
    cublasLtMatrixLayoutGetAttribute
);
descriptor!(
    Preference,
    "a preference for algorithms.",
    cublasLtMatmulPreferenceDestroy,
    cublasLtMatmulPreferenceSetAttribute,
    cublasLtMatmulPreferenceGetAttribute
);

/// Makes a description of a product.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescCreate(
    out: *mut u64,
    compute_type: i32,
    scale_type: i32,
) -> CublasStatus {
    let mut attributes = Attributes::default();
    attributes.set(0, &compute_type.to_ne_bytes());
    attributes.set(1, &scale_type.to_ne_bytes());
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { Product::create(out, attributes) }
}

/// Makes a layout of a matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutCreate(
    out: *mut u64,
    data_type: i32,
    rows: u64,
    columns: u64,
    leading: i64,
) -> CublasStatus {
    let mut attributes = Attributes::default();
    attributes.set(0, &data_type.to_ne_bytes());
    attributes.set(2, &rows.to_ne_bytes());
    attributes.set(3, &columns.to_ne_bytes());
    attributes.set(4, &leading.to_ne_bytes());
    attributes.set(5, &1i32.to_ne_bytes());
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { Layout::create(out, attributes) }
}

/// Makes a preference for algorithms.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceCreate(out: *mut u64) -> CublasStatus {
    // SAFETY: the caller passes a place for a handle or null.
    unsafe { Preference::create(out, Attributes::default()) }
}
