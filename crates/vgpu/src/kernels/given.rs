//! What the host is given for bytes that are not known, or that hang on an assumption.
//!
//! The value depends on nothing but the script: on the kernel that wrote the bytes, on the source line that reads them
//! and on how often that line has read. A loss falls from read to read, so that what waits for it to fall or to stay
//! goes on as it would.

use std::collections::HashMap;

use oomproof_profile::{AssumedValue, Basis, Values};

use super::KERNELS;
use super::assumed::Assumed;
use super::scalar::Scalar;
use crate::contents::Assumption;
use crate::session::Session;

/// By what a number falls from one read to the next: fast enough that a loop that waits for a thousandth ends after 342
/// reads, slow enough that a plateau is not seen where training would go on.
const FALL: f64 = 0.98;
/// No number falls below this, so that one can divide by it and take its logarithm.
const LEAST: f64 = 1e-30;
const LEAST_HALF: f64 = 6.2e-5;

/// What wrote device memory, and what was read of it.
#[derive(Default)]
pub(super) struct Reads {
    /// What stands in for unknown bytes, by the id of the text that names what wrote them.
    assumed: HashMap<u32, Assumed>,
    /// Numbers that each source line, or else each kernel, has read.
    numbers: HashMap<(u32, u32), i32>,
}

impl Reads {
    /// A kernel writes values of this kind.
    pub(super) fn wrote(&mut self, origin: u32, assumed: Assumed) {
        self.assumed.insert(origin, assumed);
    }
}

/// A read by the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Id of the text that names what last wrote there.
    pub(crate) origin: u32,
    /// Id of the source line that reads.
    pub(crate) site: u32,
    /// What the known bytes among them hang on.
    pub(crate) assumption: Option<Assumption>,
    /// Whether any byte has no value.
    pub(crate) is_unknown: bool,
}

impl Read {
    /// Of a result that a library function gives the host itself.
    pub(crate) fn by_library(name: u32) -> Self {
        Self {
            origin: name,
            site: 0,
            assumption: None,
            is_unknown: true,
        }
    }
}

/// Fills `out` with what stands in for its unknown bytes, or with what the user said is read here; tells why.
///
/// Known bytes are to be written over it unless the user has said something.
pub(crate) fn give(session: &Session, read: Read, out: &mut [u8]) -> Basis {
    let mut kernels = KERNELS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let reads = &mut kernels.get_or_insert_default().reads;
    let assumed = reads.assumed.get(&read.origin).copied().unwrap_or_default();
    if let Some(value) = session.assumed_at(read.site) {
        fill_with(value, assumed, out);
        return Basis::User;
    }
    let basis = read.assumption.map(|assumption| assumption.basis);
    if !read.is_unknown {
        return basis.unwrap_or(Basis::Plain);
    }
    match (session.settings.values, assumed) {
        (Values::Off, _) => {
            out.fill(0);
            Basis::Plain
        }
        (Values::On, Assumed::One(float)) => {
            let key = match read.site {
                0 => (0, read.origin),
                site => (site, 0),
            };
            let count = reads.numbers.entry(key).or_insert(0);
            let value = FALL.powi(*count);
            *count = count.saturating_add(1);
            let least = if float == Scalar::Half {
                LEAST_HALF
            } else {
                LEAST
            };
            repeat(&float.bytes(value.max(least)), out);
            basis.unwrap_or(Basis::Number)
        }
        (Values::On, assumed) => {
            out.fill(assumed.byte());
            basis.unwrap_or(Basis::Plain)
        }
    }
}

/// Repeats a value in the type that the kernel wrote, as far as that is known.
fn fill_with(value: AssumedValue, written: Assumed, out: &mut [u8]) {
    let real = match value {
        AssumedValue::Truth(truth) => f64::from(u8::from(truth)),
        AssumedValue::Whole(whole) => whole as f64,
        AssumedValue::Real(real) => real,
    };
    let whole = match value {
        AssumedValue::Truth(truth) => i64::from(truth),
        AssumedValue::Whole(whole) => whole,
        AssumedValue::Real(real) => real as i64,
    };
    let is_real = matches!(value, AssumedValue::Real(_));
    let element: Vec<u8> = match (written.float(), out.len()) {
        (Some(float), _) => float.bytes(real),
        (None, len) if is_real && len.is_multiple_of(8) => real.to_ne_bytes().to_vec(),
        (None, len) if is_real && len.is_multiple_of(4) => (real as f32).to_ne_bytes().to_vec(),
        // A truth takes one byte.
        (None, len) if len.is_multiple_of(8) && !matches!(value, AssumedValue::Truth(_)) => {
            whole.to_ne_bytes().to_vec()
        }
        (None, 4) => (whole as i32).to_ne_bytes().to_vec(),
        (None, 2) => (whole as i16).to_ne_bytes().to_vec(),
        _ => vec![whole as u8],
    };
    repeat(&element, out);
}

/// Fills `out` with an element, or with zeros when it holds no whole number of them.
fn repeat(element: &[u8], out: &mut [u8]) {
    if out.len().is_multiple_of(element.len()) {
        out.chunks_exact_mut(element.len())
            .for_each(|place| place.copy_from_slice(element));
    } else {
        out.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: AssumedValue, written: Assumed, len: usize, expected: &[u8]) {
        let mut out = vec![9; len];
        fill_with(value, written, &mut out);
        assert_eq!(out, expected, "{value:?} {written:?}");
    }

    #[test]
    fn what_the_user_says_is_in_the_type_that_is_read() {
        use AssumedValue::{Real, Truth, Whole};
        let float = Assumed::One(Scalar::Float);
        check(Whole(2), float, 4, &2f32.to_ne_bytes());
        check(
            Real(0.5),
            Assumed::One(Scalar::Double),
            8,
            &0.5f64.to_ne_bytes(),
        );
        check(Real(1.0), Assumed::One(Scalar::BFloat16), 2, &[0x80, 0x3f]);
        check(Whole(3), Assumed::Zero, 8, &3i64.to_ne_bytes());
        check(Whole(-3), Assumed::Zero, 4, &(-3i32).to_ne_bytes());
        check(Truth(true), Assumed::Zero, 1, &[1]);
        check(Truth(false), Assumed::True, 1, &[0]);
        check(Truth(true), Assumed::Zero, 8, &[1; 8]);
        check(Real(1.5), Assumed::Zero, 4, &1.5f32.to_ne_bytes());
        check(Real(1.5), Assumed::One(Scalar::Double), 3, &[0, 0, 0]);
    }
}
