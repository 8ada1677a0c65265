//! What can be wrong with a pickle, and where.

use std::fmt;

/// Why a pickle was not read, and the offset of the instruction at which it showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError<E> {
    /// Offset of the instruction from the start of the input.
    pub offset: usize,
    /// What is wrong.
    pub trouble: Trouble<E>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble<E> {
    /// The input ends before the pickle does, or a length reaches past its end.
    Truncated,
    /// It names something that Python would import.
    Global(String),
    /// An instruction that only makes sense together with imported code.
    Code(&'static str),
    /// An instruction that plain data of protocols 2 to 5 does not need.
    Unused(&'static str),
    /// A byte that is no instruction.
    NoInstruction(u8),
    /// A protocol above 5.
    Protocol(u8),
    /// A length is negative.
    NegativeLength,
    /// An instruction takes more from the stack than there is.
    Underflow,
    /// An instruction needs a container of another kind.
    NotA(&'static str),
    /// A dictionary is given a key without a value.
    OddItems,
    /// The memo has nothing under that number.
    NotInMemo(u32),
    /// A container changes after it became part of another: it would be able to contain itself.
    Cyclic,
    /// More of something than an input of this length may make.
    TooMany(&'static str, usize),
    /// The sink refused.
    Sink(E),
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match &self.trouble {
            Trouble::Truncated => {
                write!(f, "the pickle is cut off in the instruction at byte {at}")
            }
            Trouble::Global(name) => write!(
                f,
                "the pickle names the global `{name}` at byte {at}, which only running code could give"
            ),
            Trouble::Code(name) => {
                write!(f, "the pickle wants to run code with `{name}` at byte {at}")
            }
            Trouble::Unused(name) => write!(
                f,
                "the pickle has the instruction `{name}` at byte {at}, which plain data does not need"
            ),
            Trouble::NoInstruction(byte) => {
                write!(
                    f,
                    "byte {at} of the pickle is {byte:#04x}, which is no instruction"
                )
            }
            Trouble::Protocol(protocol) => {
                write!(
                    f,
                    "the pickle has protocol {protocol} at byte {at}, and 5 is the last one known"
                )
            }
            Trouble::NegativeLength => write!(f, "the pickle has a negative length at byte {at}"),
            Trouble::Underflow => write!(
                f,
                "the pickle takes more from its stack than is there at byte {at}"
            ),
            Trouble::NotA(kind) => write!(
                f,
                "the pickle uses something as a {kind} that is none at byte {at}"
            ),
            Trouble::OddItems => write!(f, "the pickle has a key without a value at byte {at}"),
            Trouble::NotInMemo(index) => {
                write!(
                    f,
                    "the pickle uses number {index} of its memo before storing it, at byte {at}"
                )
            }
            Trouble::Cyclic => write!(
                f,
                "the pickle changes something at byte {at} that is already part of something else"
            ),
            Trouble::TooMany(what, limit) => {
                write!(
                    f,
                    "the pickle has more than {limit} {what} at byte {at}, too many for its length"
                )
            }
            Trouble::Sink(error) => write!(f, "{error}, at byte {at} of the pickle"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ReadError<E> {}
