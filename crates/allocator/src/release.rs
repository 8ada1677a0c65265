//! Which release of PyTorch decides, and by which of its rules.
//!
//! The allocator changed in small steps from release to release. Each step is one question here, named by what it
//! changes, so that the rest of the crate asks for a rule and never for a version.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A release of PyTorch, such as 2.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    major: u16,
    minor: u16,
}

/// Why a text or a number is not a release that is modeled.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReleaseError {
    /// The text has no major and minor number.
    #[error("`{0}` is not a release of PyTorch such as `2.8`")]
    NotARelease(String),
    /// The release is older than the first whose rules are known.
    #[error("PyTorch {0} is older than 2.0, the first release whose allocator is modeled")]
    TooOld(Release),
}

impl Release {
    /// The newest release whose rules were compared with the real allocator.
    pub const NEWEST: Self = Self::unchecked(2, 15);
    /// The oldest release that is modeled.
    pub const OLDEST: Self = Self::unchecked(2, 0);

    const fn unchecked(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// The release `major.minor`. One after [`Release::NEWEST`] behaves as the newest.
    pub fn new(major: u16, minor: u16) -> Result<Self, ReleaseError> {
        let release = Self { major, minor };
        if release < Self::OLDEST {
            return Err(ReleaseError::TooOld(release));
        }
        Ok(release)
    }

    /// The number before the dot.
    pub const fn major(self) -> u16 {
        self.major
    }

    /// The number after the dot.
    pub const fn minor(self) -> u16 {
        self.minor
    }

    fn since(self, minor: u16) -> bool {
        self >= Self::unchecked(2, minor)
    }

    /// Free blocks of one size are ordered by this.
    pub(crate) fn tie_break(self) -> TieBreak {
        match self {
            _ if self.since(13) => TieBreak::SegmentThenAddress,
            _ if self.since(12) => TieBreak::BlockNumber,
            _ => TieBreak::Address,
        }
    }

    pub(crate) fn expands_private_pools(self) -> bool {
        self.since(5)
    }

    /// One division rounds as if there were none; before, it left sizes as they were asked for.
    pub(crate) fn one_division_is_none(self) -> bool {
        self.since(4)
    }

    /// Streams that were recorded while a pool was filled are forgotten when that ends.
    pub(crate) fn forgets_streams_of_captures(self) -> bool {
        self.since(4)
    }

    /// Releasing large blocks passes over expandable ones; before, it failed an assertion.
    pub(crate) fn oversize_release_skips_expandable(self) -> bool {
        self.since(5)
    }

    /// Blocks that were freed while a pool was filled are settled in an order that is not known.
    pub(crate) fn settles_in_any_order(self) -> bool {
        self.since(9)
    }

    /// `empty_cache` works while a pool is filled; before, it failed an assertion.
    pub(crate) fn empties_cache_during_pool(self) -> bool {
        self.since(8)
    }

    pub(crate) fn has_use_on_oom(self) -> bool {
        self.since(8)
    }

    /// Pools for emergencies help out before the cache is released; before, they were the last thing that was tried.
    pub(crate) fn pools_help_before_release(self) -> bool {
        self.since(11)
    }

    pub(crate) fn newest_pool_wins(self) -> bool {
        self.since(10)
    }

    /// A memory fraction of one is no limit.
    pub(crate) fn whole_fraction_is_no_limit(self) -> bool {
        self.since(10)
    }

    pub(crate) fn has_no_split(self) -> bool {
        self.since(10)
    }

    /// Only a real capture defers frees; before, filling any private pool did.
    pub(crate) fn only_captures_defer(self) -> bool {
        self.since(13)
    }

    pub(crate) fn counts_driver_calls(self) -> bool {
        self.since(3)
    }

    pub(crate) fn counts_rejections(self) -> bool {
        self.since(12)
    }

    pub(crate) fn reports_private_pools(self) -> bool {
        self.since(13)
    }

    /// A pool without users may be taken again; since 2.11 that fails an assertion.
    pub(crate) fn revives_pools(self) -> bool {
        !self.since(11)
    }

    /// A block larger than an expandable segment is refused at once; before, a segment was made for it that could not
    /// hold it either.
    pub(crate) fn looks_before_reserving(self) -> bool {
        self.since(15)
    }

    /// Whether an option of the settings string exists.
    pub(crate) fn has_option_since(self, minor: u16) -> bool {
        self.since(minor)
    }
}

/// What decides between free blocks of one size and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TieBreak {
    /// The lowest address.
    Address,
    /// The block whose object was made first.
    BlockNumber,
    /// The block of the segment that was made first, then the lowest address.
    SegmentThenAddress,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads `2.8`, and what follows the minor number, as in `2.8.0+cu128`, is left aside.
impl FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ReleaseError::NotARelease(text.to_owned());
        let (major, rest) = text.trim().split_once('.').ok_or_else(wrong)?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let major = major.parse().map_err(|_| wrong())?;
        let minor = rest[..digits].parse().map_err(|_| wrong())?;
        Self::new(major, minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let read = text
            .parse::<Release>()
            .map(|release| release.to_string())
            .map_err(|error| error.to_string());
        assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn reads_what_torch_calls_itself() {
        check("2.8", Ok("2.8"));
        check("2.15.0+cu132", Ok("2.15"));
        check("2.1.0a0", Ok("2.1"));
        check("3.0", Ok("3.0"));
        check("2", Err("`2` is not a release of PyTorch such as `2.8`"));
        check(
            "2.x",
            Err("`2.x` is not a release of PyTorch such as `2.8`"),
        );
        check(
            "1.13.1",
            Err("PyTorch 1.13 is older than 2.0, the first release whose allocator is modeled"),
        );
    }
}
