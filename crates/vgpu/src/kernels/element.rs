//! Elements of tensors as PyTorch's kernels name them, for the small work that is really done.

use std::cmp::Ordering;

/// A type of element whose arithmetic is carried out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Bool,
    U8,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    /// Its values are held as the signed number of the same bits.
    U64,
    F16,
    BF16,
    F32,
    F64,
}

/// The value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Float(f64),
}

impl Value {
    /// Whether it counts as true.
    pub(crate) fn is_true(self) -> bool {
        match self {
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(crate) fn as_i64(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Float(value) => value as i64,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Self::Float(value) if value.is_nan())
    }

    pub(crate) fn truth(holds: bool) -> Self {
        Self::Int(i64::from(holds))
    }
}

/// The nearest 16-bit float with this many bits of fraction, ties to even.
fn narrow(value: f32, fraction_bits: u32, exponent_bits: u32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 31) as u16) << 15;
    let largest_exponent = (1u32 << exponent_bits) - 1;
    if value.is_nan() {
        return sign | ((largest_exponent << fraction_bits) | (1 << (fraction_bits - 1))) as u16;
    }
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let magnitude = f64::from(value.abs());
    // Spacing of the result's numbers around the value, which is that of subnormals for tiny ones.
    let exponent = (((bits >> 23) & 0xff) as i32 - 127).max(1 - bias);
    let spacing = f64::from(exponent - fraction_bits as i32).exp2();
    let steps = (magnitude / spacing).round_ties_even() as u32;
    // The first step of each power of two is that power, so that adding carries into the exponent.
    let encoded = if exponent == 1 - bias && steps < (1 << fraction_bits) {
        steps
    } else {
        (((exponent + bias) as u32) << fraction_bits).saturating_add(steps - (1 << fraction_bits))
    };
    sign | encoded.min(largest_exponent << fraction_bits) as u16
}

/// The value of IEEE half-precision bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = ((bits >> 10) & 31, f64::from(bits & 1023));
    sign * match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * f64::from(-24).exp2(),
        _ => (1024.0 + fraction) * f64::from(i32::from(exponent) - 25).exp2(),
    }
}

impl Element {
    /// The type with this C++ name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.trim().trim_end_matches(" const") {
            "bool" => Self::Bool,
            "unsigned char" => Self::U8,
            "signed char" | "char" => Self::I8,
            "short" => Self::I16,
            "unsigned short" => Self::U16,
            "int" => Self::I32,
            "unsigned int" => Self::U32,
            "long" | "long long" => Self::I64,
            "unsigned long" | "unsigned long long" => Self::U64,
            "c10::Half" | "__half" => Self::F16,
            "c10::BFloat16" | "__nv_bfloat16" => Self::BF16,
            "float" => Self::F32,
            "double" => Self::F64,
            _ => return None,
        })
    }

    /// The type with this number in `c10::ScalarType`.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::I16,
            3 => Self::I32,
            4 => Self::I64,
            5 => Self::F16,
            6 => Self::F32,
            7 => Self::F64,
            11 => Self::Bool,
            15 => Self::BF16,
            27 => Self::U16,
            28 => Self::U32,
            29 => Self::U64,
            _ => return None,
        })
    }

    /// Bytes of one element, which is also its alignment.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether its values are whole numbers.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// The type that kernels compute in: `at::opmath_type`.
    pub(crate) fn computing(self) -> Self {
        match self {
            Self::F16 | Self::BF16 => Self::F32,
            other => other,
        }
    }

    /// The value of the first element in `bytes`.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<Value> {
        fn first<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.first_chunk().copied()
        }
        Some(match self {
            Self::Bool => Value::truth(*bytes.first()? != 0),
            Self::U8 => Value::Int(i64::from(*bytes.first()?)),
            Self::I8 => Value::Int(i64::from(i8::from_ne_bytes(first(bytes)?))),
            Self::I16 => Value::Int(i64::from(i16::from_ne_bytes(first(bytes)?))),
            Self::U16 => Value::Int(i64::from(u16::from_ne_bytes(first(bytes)?))),
            Self::I32 => Value::Int(i64::from(i32::from_ne_bytes(first(bytes)?))),
            Self::U32 => Value::Int(i64::from(u32::from_ne_bytes(first(bytes)?))),
            Self::I64 | Self::U64 => Value::Int(i64::from_ne_bytes(first(bytes)?)),
            Self::F16 => Value::Float(half(u16::from_ne_bytes(first(bytes)?))),
            Self::BF16 => Value::Float(f64::from(f32::from_bits(
                u32::from(u16::from_ne_bytes(first(bytes)?)) << 16,
            ))),
            Self::F32 => Value::Float(f64::from(f32::from_ne_bytes(first(bytes)?))),
            Self::F64 => Value::Float(f64::from_ne_bytes(first(bytes)?)),
        })
    }

    /// The values of all whole elements in `bytes`.
    pub(crate) fn read_all(self, bytes: &[u8]) -> Vec<Value> {
        bytes
            .chunks_exact(self.len())
            .filter_map(|one| self.read(one))
            .collect()
    }

    /// Appends `value` as C++ converts it; whole numbers wrap.
    pub(crate) fn write(self, value: Value, out: &mut Vec<u8>) {
        match self {
            Self::Bool => out.push(u8::from(value.is_true())),
            Self::U8 | Self::I8 => out.push(value.as_i64() as u8),
            Self::I16 | Self::U16 => out.extend_from_slice(&(value.as_i64() as i16).to_ne_bytes()),
            Self::I32 | Self::U32 => out.extend_from_slice(&(value.as_i64() as i32).to_ne_bytes()),
            Self::I64 | Self::U64 => out.extend_from_slice(&value.as_i64().to_ne_bytes()),
            Self::F16 => {
                out.extend_from_slice(&narrow(value.as_f64() as f32, 10, 5).to_ne_bytes());
            }
            Self::BF16 => {
                out.extend_from_slice(&narrow(value.as_f64() as f32, 7, 8).to_ne_bytes());
            }
            Self::F32 => out.extend_from_slice(&(value.as_f64() as f32).to_ne_bytes()),
            Self::F64 => out.extend_from_slice(&value.as_f64().to_ne_bytes()),
        }
    }

    /// The value after a conversion to this type and back.
    pub(crate) fn convert(self, value: Value) -> Value {
        match (self, value) {
            (Self::F32, Value::Float(float)) => return Value::Float(f64::from(float as f32)),
            (Self::F64, Value::Float(_)) | (Self::I64, Value::Int(_)) => return value,
            (Self::Bool, _) => return Value::truth(value.is_true()),
            _ => {}
        }
        let mut bytes = Vec::with_capacity(8);
        self.write(value, &mut bytes);
        self.read(&bytes).unwrap_or(value)
    }

    /// How two values of this type compare; `None` when one is not a number.
    pub(crate) fn compare(self, left: Value, right: Value) -> Option<Ordering> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) if self == Self::U64 => {
                Some((left as u64).cmp(&(right as u64)))
            }
            (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
            (left, right) => left.as_f64().partial_cmp(&right.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Value::{Float, Int};
    use super::*;

    fn check(element: Element, value: Value, expected: Value) {
        assert_eq!(element.convert(value), expected, "{element:?} {value:?}");
    }

    #[test]
    fn converts_as_c_does() {
        check(Element::Bool, Int(7), Int(1));
        check(Element::Bool, Float(0.0), Int(0));
        check(Element::U8, Int(-1), Int(255));
        check(Element::I8, Int(200), Int(-56));
        check(Element::U16, Int(-1), Int(65_535));
        check(Element::I32, Float(-2.9), Int(-2));
        check(Element::U32, Int(-1), Int(u32::MAX.into()));
        check(Element::I64, Int(i64::MIN), Int(i64::MIN));
        check(Element::F32, Int(16_777_217), Float(16_777_216.0));
        check(Element::F64, Int(3), Float(3.0));
    }

    #[test]
    fn halves_round_to_the_nearest() {
        check(Element::F16, Float(1.0), Float(1.0));
        check(Element::F16, Float(2049.0), Float(2048.0));
        check(Element::F16, Float(2051.0), Float(2052.0));
        check(Element::F16, Float(65_519.0), Float(65_504.0));
        check(Element::F16, Float(65_520.0), Float(f64::INFINITY));
        check(Element::F16, Float(-70_000.0), Float(f64::NEG_INFINITY));
        check(Element::F16, Float(6e-8), Float(5.960_464_477_539_063e-8));
        check(Element::F16, Float(2e-8), Float(0.0));
        check(
            Element::F16,
            Float(-0.333_333_343_267_440_8),
            Float(-0.333_251_953_125),
        );
        check(Element::BF16, Float(1.0), Float(1.0));
        check(Element::BF16, Float(257.0), Float(256.0));
        check(Element::BF16, Float(259.0), Float(260.0));
        check(Element::BF16, Float(3.4e38), Float(f64::INFINITY));
        assert!(Element::F16.convert(Float(f64::NAN)).is_nan());
        assert!(Element::BF16.convert(Float(f64::NAN)).is_nan());
    }

    #[test]
    fn all_halves_survive_a_conversion() {
        for element in [Element::F16, Element::BF16] {
            for bits in 0..=u16::MAX {
                let value = element.read(&bits.to_ne_bytes()).unwrap();
                let mut back = Vec::new();
                element.write(value, &mut back);
                if !value.is_nan() {
                    assert_eq!(back, bits.to_ne_bytes(), "{element:?} {bits:#x}");
                }
            }
        }
    }
}
