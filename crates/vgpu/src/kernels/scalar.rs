//! Single numbers as PyTorch's kernels hold them, half floats included, for values that are assumed.

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Half,
    BFloat16,
    Float,
    Double,
    /// A whole number of this many bytes.
    Whole(usize),
}

impl Scalar {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.trim() {
            "c10::Half" => Self::Half,
            "c10::BFloat16" => Self::BFloat16,
            "float" => Self::Float,
            "double" => Self::Double,
            "char" | "signed char" | "unsigned char" => Self::Whole(1),
            "short" | "unsigned short" => Self::Whole(2),
            "int" | "unsigned int" => Self::Whole(4),
            "long" | "unsigned long" => Self::Whole(8),
            _ => return None,
        })
    }

    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Whole(_))
    }

    pub(super) fn width(self) -> usize {
        match self {
            Self::Half | Self::BFloat16 => 2,
            Self::Float => 4,
            Self::Double => 8,
            Self::Whole(width) => width,
        }
    }

    /// Bytes of one number.
    pub(super) fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Self::Half => half(value as f32).to_ne_bytes().to_vec(),
            Self::BFloat16 => (((value as f32).to_bits() >> 16) as u16)
                .to_ne_bytes()
                .to_vec(),
            Self::Float => (value as f32).to_ne_bytes().to_vec(),
            Self::Double => value.to_ne_bytes().to_vec(),
            Self::Whole(width) => (value as i64).to_ne_bytes()[..width].to_vec(),
        }
    }
}

impl Scalar {
    /// The number that these bytes begin with.
    pub(super) fn number(self, bytes: [u8; 8]) -> f64 {
        let [a, b, c, d, ..] = bytes;
        match self {
            Self::Half => unhalf(u16::from_ne_bytes([a, b])),
            Self::BFloat16 => {
                f64::from(f32::from_bits(u32::from(u16::from_ne_bytes([a, b])) << 16))
            }
            Self::Float => f64::from(f32::from_ne_bytes([a, b, c, d])),
            Self::Double => f64::from_ne_bytes(bytes),
            Self::Whole(1) => f64::from(a as i8),
            Self::Whole(2) => f64::from(i16::from_ne_bytes([a, b])),
            Self::Whole(4) => f64::from(i32::from_ne_bytes([a, b, c, d])),
            Self::Whole(_) => i64::from_ne_bytes(bytes) as f64,
        }
    }
}

/// The number that a half float is.
fn unhalf(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (
        i32::from(bits >> 10 & 0x1f),
        f64::from(bits & 0x3ff) / 1024.0,
    );
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// The nearest half float towards zero; values too small for one are zero.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | (exponent as u16) << 10 | (bits >> 13) as u16 & 0x3ff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scalar: Scalar, value: f64, expected: f64) {
        let mut bytes = [0; 8];
        let stored = scalar.bytes(value);
        bytes[..stored.len()].copy_from_slice(&stored);
        let found = scalar.number(bytes);
        assert_eq!(found.to_bits(), expected.to_bits(), "{scalar:?} {value}");
    }

    #[test]
    fn are_stored_and_read() {
        for value in [0.0, 1.0, -1.5, 0.25, 1024.0] {
            for scalar in [
                Scalar::Half,
                Scalar::BFloat16,
                Scalar::Float,
                Scalar::Double,
            ] {
                check(scalar, value, value);
            }
        }
        check(Scalar::Half, 1e9, 65504.0);
        check(Scalar::Half, 1e-9, 0.0);
        check(Scalar::BFloat16, 1.001, 1.0);
        check(Scalar::Whole(1), -3.0, -3.0);
        check(Scalar::Whole(8), 1e12, 1e12);
        assert!(unhalf(0x7c00).is_infinite() && unhalf(0x7e00).is_nan());
        assert_eq!(Scalar::named("bool"), None);
    }
}
