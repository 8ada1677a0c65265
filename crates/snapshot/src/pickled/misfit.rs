//! What is wrong with the content of a pickle that is otherwise well-formed.

use oomproof_units::DeviceAddress;
use thiserror::Error;

/// Why the content is not a snapshot.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Misfit {
    /// A key holds a value of the wrong kind.
    #[error("`{key}` of {whose} is not {expected}")]
    WrongValue {
        /// The key.
        key: &'static str,
        /// What has the key.
        whose: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A word that has no meaning there.
    #[error("`{key}` of {whose} is `{found}`, which has no meaning there")]
    UnknownWord {
        /// The key.
        key: &'static str,
        /// What has the key.
        whose: &'static str,
        /// The word.
        found: String,
    },
    /// Something stands in two places, which would be counted twice.
    #[error("the same {0} stands in two places")]
    Twice(&'static str),
    /// Something was added to a dictionary that was complete.
    #[error("{0} changes after it was complete")]
    Grows(&'static str),
    /// Two segments, or two blocks of a segment, have memory in common, or a block reaches out of its segment.
    #[error("the {0} at {1} overlaps what is around it")]
    Overlap(&'static str, DeviceAddress),
    /// A size reaches past the end of the address space.
    #[error("the {0} at {1} reaches past the end of all addresses")]
    TooLong(&'static str, DeviceAddress),
    /// It is plain data, but no snapshot.
    #[error("the pickle holds {0} and no snapshot")]
    NoSnapshot(&'static str),
    /// There are more devices than any machine has.
    #[error("there is a device {0}, more than any machine has")]
    TooManyDevices(usize),
}
