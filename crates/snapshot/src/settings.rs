//! The allocator's settings as a snapshot records them: the string the user gave, and a few fields that were parsed
//! from it. What the string means depends on the release, and is for the crate `allocator` to say.

use oomproof_units::Bytes;

/// `allocator_settings` of a snapshot (torch 2.3 and later). Not all settings have a field; the others are in `conf`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSettings {
    /// The raw string of `PYTORCH_CUDA_ALLOC_CONF`, whichever variable it came from.
    pub conf: String,
    /// Larger blocks are not split; `None` is unlimited.
    pub max_split_size: Option<Bytes>,
    /// The used part of the limit above which cached blocks are released; 0 is never.
    pub garbage_collection_threshold: f64,
    /// Segments grow in place.
    pub expandable_segments: bool,
    /// Divisions between powers of two for requests from each number of MiB on.
    pub roundup_power2_divisions: Vec<(u64, u64)>,
    /// The other fields, in the order in which they were recorded.
    pub others: Vec<(String, SettingValue)>,
}

/// The value of a setting that has no field of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// `True` or `False`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Any other number.
    Fraction(f64),
    /// A text.
    Text(String),
}
