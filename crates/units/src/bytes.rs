//! A size in bytes, printed the way PyTorch prints sizes in its out-of-memory text.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes at all.
    pub const ZERO: Self = Self(0);

    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// `count` times 1024 bytes.
    pub const fn from_kib(count: u64) -> Self {
        Self(count * KIB)
    }

    /// `count` times 1024² bytes.
    pub const fn from_mib(count: u64) -> Self {
        Self(count * MIB)
    }

    /// `count` times 1024³ bytes.
    pub const fn from_gib(count: u64) -> Self {
        Self(count * GIB)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number in MiB, for figures that people read.
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / MIB as f64
    }

    /// The smallest multiple of `unit` that is at least `self`; `unit` of zero changes nothing.
    #[must_use]
    pub const fn round_up_to(self, unit: Self) -> Self {
        if unit.0 == 0 {
            return self;
        }
        Self(self.0.div_ceil(unit.0).saturating_mul(unit.0))
    }

    /// `self - other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self - other` as a signed number of bytes.
    pub const fn signed_difference(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

/// PyTorch's own format: a unit is kept up to and including 1024 of the smaller one.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 <= KIB {
            return f.pad(&format!("{} bytes", self.0));
        }
        let (unit, name) = if self.0 <= MIB {
            (KIB, "KiB")
        } else if self.0 <= GIB {
            (MIB, "MiB")
        } else {
            (GIB, "GiB")
        };
        f.pad(&format!("{:.2} {name}", self.0 as f64 / unit as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(size: u64, printed: &str) {
        assert_eq!(Bytes::new(size).to_string(), printed);
    }

    #[test]
    fn prints_as_pytorch_does() {
        check(0, "0 bytes");
        check(1024, "1024 bytes");
        check(1025, "1.00 KiB");
        check(MIB, "1024.00 KiB");
        check(GIB, "1024.00 MiB");
        check(GIB + 1, "1.00 GiB");
        check(8_636_006_400, "8.04 GiB");
    }

    #[test]
    fn pads_like_any_text() {
        assert_eq!(format!("{:>12}", Bytes::from_mib(3)), "    3.00 MiB");
    }

    #[test]
    fn rounds_up() {
        assert_eq!(
            Bytes::new(1).round_up_to(Bytes::from_mib(2)),
            Bytes::from_mib(2)
        );
        assert_eq!(
            Bytes::from_mib(4).round_up_to(Bytes::from_mib(2)),
            Bytes::from_mib(4)
        );
        assert_eq!(Bytes::new(7).round_up_to(Bytes::ZERO), Bytes::new(7));
    }
}
