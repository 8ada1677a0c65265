//! Sizes as people type them: `24GiB`, `24 GB`, `8g`, `512M`, `1073741824`.
//!
//! `G`, `GB` and `GiB` all mean 1024³: a "24 GB" card has 24 GiB, and `nvidia-smi` and PyTorch count so too.

use std::str::FromStr;

use thiserror::Error;

use crate::Bytes;

/// Why a text is not a size.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseBytesError {
    /// There is no number in front.
    #[error("`{0}` does not start with a number")]
    NoNumber(String),
    /// The unit behind the number is unknown.
    #[error("`{unit}` in `{text}` is not a unit of size")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The part that was not understood.
        unit: String,
    },
    /// The size is not below 2^63 bytes.
    #[error("`{0}` is too large for a size in bytes")]
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let digits = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let number: f64 = number
            .parse()
            .map_err(|_| ParseBytesError::NoNumber(text.to_owned()))?;
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" | "byte" | "bytes" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            _ => {
                return Err(ParseBytesError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.trim().to_owned(),
                });
            }
        };
        let bytes = number * factor as f64;
        if bytes >= i64::MAX as f64 {
            return Err(ParseBytesError::TooLarge(text.to_owned()));
        }
        #[expect(
            clippy::cast_sign_loss,
            reason = "the number has no sign and is below 2^63"
        )]
        let whole = bytes.round() as u64;
        Ok(Self::new(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Bytes) {
        assert_eq!(text.parse::<Bytes>(), Ok(expected), "{text}");
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(text.parse::<Bytes>().unwrap_err().to_string(), expected);
    }

    #[test]
    fn reads_what_people_type() {
        check("24GiB", Bytes::from_gib(24));
        check("24 GB", Bytes::from_gib(24));
        check("8g", Bytes::from_gib(8));
        check("1.5G", Bytes::from_mib(1536));
        check("512M", Bytes::from_mib(512));
        check("1073741824", Bytes::from_gib(1));
        check(" 0 ", Bytes::ZERO);
    }

    #[test]
    fn refuses_the_rest() {
        check_error("", "`` does not start with a number");
        check_error("-3G", "`-3G` does not start with a number");
        check_error("3 apples", "`apples` in `3 apples` is not a unit of size");
        check_error(
            "9999999999T",
            "`9999999999T` is too large for a size in bytes",
        );
        check_error("1.2.3G", "`1.2.3G` does not start with a number");
    }
}
