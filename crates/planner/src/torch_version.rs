//! A release of torch, as far as levers and their code depend on it: major and minor.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A minor release of torch, such as 2.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TorchVersion {
    /// Before the first dot.
    pub major: u16,
    /// After it.
    pub minor: u16,
}

impl TorchVersion {
    /// Release `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

/// A text that names no release of torch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a release of torch such as 2.15")]
pub struct TorchVersionError(String);

impl FromStr for TorchVersion {
    type Err = TorchVersionError;

    /// Takes `2.15`, `2.15.0` and `2.15.0+cu132`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = |part: &str| {
            let end = part
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse::<u16>().ok()
        };
        let mut parts = text.trim().split('.');
        let major = parts.next().and_then(|part| part.parse().ok());
        let minor = parts.next().and_then(digits);
        match (major, minor) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(TorchVersionError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for TorchVersion {
    type Error = TorchVersionError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TorchVersion> for String {
    fn from(version: TorchVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(u16, u16)>) {
        let found = text.parse::<TorchVersion>().ok();
        assert_eq!(found.map(|it| (it.major, it.minor)), expected, "{text}");
    }

    #[test]
    fn texts() {
        check("2.15", Some((2, 15)));
        check("2.15.0+cu132", Some((2, 15)));
        check("2.4.1", Some((2, 4)));
        check("2.16a0+git12", Some((2, 16)));
        check("2", None);
        check("", None);
        check("torch 2.15", None);
        assert!(TorchVersion::new(2, 9) < TorchVersion::new(2, 15));
    }
}
