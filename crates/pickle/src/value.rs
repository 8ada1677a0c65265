//! What stands on the machine's stack. Sixteen bytes, copied freely: texts and containers are numbers.

/// A text, by the number that the [`Sink`](crate::Sink) gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextNumber(pub u32);

/// A dictionary, list or tuple, numbered from 0 in the order in which the file begins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

/// One value of a pickle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number from 2^63 to 2^64 - 1.
    Unsigned(u64),
    /// A whole number of more than 64 bits, which is not kept.
    Wide,
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(TextNumber),
    /// Bytes, which are not kept.
    Bytes,
    /// A dictionary, list or tuple.
    Object(Handle),
}

impl Value {
    /// The value as a size, an address or a handle; `None` if it is negative or no whole number.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(number).ok(),
            Self::Unsigned(number) => Some(number),
            _ => None,
        }
    }
}
