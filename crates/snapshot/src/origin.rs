//! Where a snapshot came from, and which releases of torch can have written it.
//!
//! A snapshot does not name its release. But each release added keys, so those that are there and those that are not
//! leave a range.

use std::fmt;

use crate::schema::Schema;

/// What the bytes were wrapped in, from the outside inwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// A gzip stream.
    Gzip,
    /// A zstd stream.
    Zstd,
    /// The archive that `torch.save` writes, or any zip with one pickle.
    Zip,
    /// What `torch.save` wrote before torch 1.6: several pickles after each other.
    TorchLegacy,
    /// A page of `_memory_viz` with the pickle embedded.
    Html,
    /// A pickle.
    Pickle {
        /// The protocol it declares.
        protocol: u8,
    },
    /// A trace of the PyTorch profiler in Chrome's JSON format.
    ChromeTrace,
    /// A profile of `oomproof run`.
    Profile,
    /// It was not read but built by a program.
    Built,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Zip => "zip archive",
            Self::TorchLegacy => "file of an old `torch.save`",
            Self::Html => "page of `_memory_viz`",
            Self::Pickle { protocol } => return write!(f, "pickle of protocol {protocol}"),
            Self::ChromeTrace => "trace of the profiler",
            Self::Profile => "profile of `oomproof run`",
            Self::Built => "nothing: it was built",
        })
    }
}

/// A minor release of torch, such as 2.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinorRelease {
    /// The first number.
    pub major: u8,
    /// The second number.
    pub minor: u8,
}

impl MinorRelease {
    /// `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for MinorRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The releases whose snapshots have the keys of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRange {
    /// The first release that writes all the keys found; `None` when the keys say nothing.
    pub earliest: Option<MinorRelease>,
    /// The last release that lacks all the keys not found; `None` when later ones can have written it too.
    pub latest: Option<MinorRelease>,
}

impl ReleaseRange {
    /// Nothing is known.
    pub const ANY: Self = Self {
        earliest: None,
        latest: None,
    };

    /// The keys contradict each other: somebody changed the snapshot after it was taken.
    pub fn is_contradictory(self) -> bool {
        matches!((self.earliest, self.latest), (Some(earliest), Some(latest)) if latest < earliest)
    }

    /// A release can have written it.
    pub fn contains(self, release: MinorRelease) -> bool {
        self.earliest.is_none_or(|earliest| earliest <= release)
            && self.latest.is_none_or(|latest| release <= latest)
    }
}

impl fmt::Display for ReleaseRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.earliest, self.latest) {
            _ if self.is_contradictory() => f.write_str("contradictory"),
            (Some(earliest), Some(latest)) if earliest == latest => write!(f, "{earliest}"),
            (Some(earliest), Some(latest)) => write!(f, "{earliest} to {latest}"),
            (Some(earliest), None) => write!(f, "{earliest} or later"),
            (None, Some(latest)) => write!(f, "{latest} or earlier"),
            (None, None) => f.write_str("unknown"),
        }
    }
}

/// Where a snapshot came from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What the bytes were wrapped in, outermost first; the last is what the model was read from.
    pub containers: Vec<Container>,
    /// The keys that were there.
    pub schema: Schema,
    /// What that says about the release.
    pub releases: ReleaseRange,
    /// Keys that this version does not know, sorted; what they held was left out.
    pub unknown_keys: Vec<String>,
    /// What this kind of source cannot tell, one sentence each.
    pub lacks: Vec<&'static str>,
}
