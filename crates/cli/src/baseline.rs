//! What a run is checked against: a limit, or the figures of an earlier run.
//!
//! A baseline is the JSON of `oomproof run --json`, so that any earlier verdict can serve as one.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use clap::ValueEnum;
use oomproof_analysis::Verdict;
use oomproof_units::Bytes;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;

/// Which figure of the peak is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Peak allocated: exact
    Allocated,
    /// Peak reserved: exact
    Reserved,
    /// The upper end of the process total: an estimate
    Process,
}

impl Measure {
    /// The figure in a verdict.
    pub(crate) fn of(self, verdict: &Verdict) -> Bytes {
        match self {
            Self::Allocated => verdict.peak.allocated_bytes,
            Self::Reserved => verdict.peak.reserved_bytes,
            Self::Process => verdict.peak.process_bytes.high,
        }
    }

    /// As it is said in a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Allocated => "peak allocated",
            Self::Reserved => "peak reserved",
            Self::Process => "process total (upper end of the estimate)",
        }
    }
}

/// By how much a run may be above its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// A share of the baseline, in percent.
    Percent(f64),
    /// A fixed amount.
    Size(Bytes),
}

impl Tolerance {
    /// The most that is tolerated above `baseline`.
    pub(crate) fn above(self, baseline: Bytes) -> Bytes {
        match self {
            Self::Size(size) => baseline + size,
            Self::Percent(percent) => {
                #[expect(clippy::cast_sign_loss, reason = "a percentage is never negative")]
                let more = (baseline.get() as f64 * percent / 100.0) as u64;
                baseline + Bytes::new(more)
            }
        }
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return text
                .parse()
                .map(Self::Size)
                .map_err(|error| format!("{error}; a percentage ends in %"));
        };
        percent
            .trim()
            .parse()
            .ok()
            .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
            .map(Self::Percent)
            .ok_or_else(|| format!("`{text}` is not a percentage such as 1%"))
    }
}

/// Reads an earlier verdict.
pub(crate) fn read(path: &Path) -> Result<Verdict, Failure> {
    let text = fs::read(path).map_err(|error| {
        let failure = Failure::io("read the baseline", path, &error);
        Failure {
            exit: Exit::InputRefused,
            id: "baseline",
            ..failure
        }
        .hint("`oomproof check --write-baseline FILE SCRIPT` makes one")
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::new(
            Exit::InputRefused,
            "baseline",
            format!("{} is not a baseline: {error}", path.display()),
        )
        .hint("a baseline is the output of `oomproof run --json`, or made by `oomproof check --write-baseline FILE`")
    })
}

/// Writes a verdict as a baseline; the file appears whole or not at all.
pub(crate) fn write(path: &Path, verdict: &Verdict) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        serde_json::to_writer_pretty(&mut file, verdict)?;
        file.write_all(b"\n")?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(|error| Failure::io("write the baseline", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, baseline: u64, most: u64) {
        let tolerance: Tolerance = text.parse().unwrap();
        assert_eq!(
            tolerance.above(Bytes::new(baseline)),
            Bytes::new(most),
            "{text}"
        );
    }

    #[test]
    fn tolerances_are_shares_or_sizes() {
        check("1%", 1000, 1010);
        check("0.5 %", 1000, 1005);
        check("0%", 1000, 1000);
        check("0", 1000, 1000);
        check("1k", 1000, 2024);
        assert!("-1%".parse::<Tolerance>().is_err());
        assert!("many%".parse::<Tolerance>().is_err());
        assert!("NaN%".parse::<Tolerance>().is_err());
        assert!("5 percent".parse::<Tolerance>().is_err());
    }
}
