//! Elements of tensors as PyTorch's kernels name them, for the small work that is really done.

/// A type of element whose arithmetic is carried out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
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

    fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn as_i64(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Float(value) => value as i64,
        }
    }
}

impl Element {
    /// The type with this C++ name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.trim() {
            "bool" => Self::Bool,
            "unsigned char" => Self::U8,
            "signed char" | "char" => Self::I8,
            "short" => Self::I16,
            "int" => Self::I32,
            "long" => Self::I64,
            "float" => Self::F32,
            "double" => Self::F64,
            _ => return None,
        })
    }

    /// The type with this number in `c10::ScalarType`.
    pub(crate) fn numbered(number: i8) -> Option<Self> {
        Some(match number {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::I16,
            3 => Self::I32,
            4 => Self::I64,
            6 => Self::F32,
            7 => Self::F64,
            11 => Self::Bool,
            _ => return None,
        })
    }

    /// Bytes of one element, which is also its alignment.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether its values are whole numbers.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::F32 | Self::F64)
    }

    /// The value of the first element in `bytes`.
    pub(crate) fn read(self, bytes: &[u8]) -> Option<Value> {
        fn first<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.first_chunk().copied()
        }
        Some(match self {
            Self::Bool => Value::Int(i64::from(*bytes.first()? != 0)),
            Self::U8 => Value::Int(i64::from(*bytes.first()?)),
            Self::I8 => Value::Int(i64::from(i8::from_ne_bytes(first(bytes)?))),
            Self::I16 => Value::Int(i64::from(i16::from_ne_bytes(first(bytes)?))),
            Self::I32 => Value::Int(i64::from(i32::from_ne_bytes(first(bytes)?))),
            Self::I64 => Value::Int(i64::from_ne_bytes(first(bytes)?)),
            Self::F32 => Value::Float(f64::from(f32::from_ne_bytes(first(bytes)?))),
            Self::F64 => Value::Float(f64::from_ne_bytes(first(bytes)?)),
        })
    }

    /// Appends `value` as C++ converts it; whole numbers wrap.
    pub(crate) fn write(self, value: Value, out: &mut Vec<u8>) {
        match self {
            Self::Bool => out.push(u8::from(value.is_true())),
            Self::U8 | Self::I8 => out.push(value.as_i64() as u8),
            Self::I16 => out.extend_from_slice(&(value.as_i64() as i16).to_ne_bytes()),
            Self::I32 => out.extend_from_slice(&(value.as_i64() as i32).to_ne_bytes()),
            Self::I64 => out.extend_from_slice(&value.as_i64().to_ne_bytes()),
            Self::F32 => out.extend_from_slice(&(value.as_f64() as f32).to_ne_bytes()),
            Self::F64 => out.extend_from_slice(&value.as_f64().to_ne_bytes()),
        }
    }

    /// The value after a conversion to this type and back.
    pub(crate) fn convert(self, value: Value) -> Value {
        let mut bytes = Vec::with_capacity(8);
        self.write(value, &mut bytes);
        self.read(&bytes).unwrap_or(value)
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
        check(Element::I32, Float(-2.9), Int(-2));
        check(Element::I64, Int(i64::MIN), Int(i64::MIN));
        check(Element::F32, Float(0.1), Float(f64::from(0.1f32)));
        check(Element::F64, Int(3), Float(3.0));
    }
}
