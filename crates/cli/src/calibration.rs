//! What was measured on a real device, kept in the user's cache and used in place of the catalog's rates.
//!
//! The file may have been written by anybody: it is bounded, and a rate that no card can have is refused rather than
//! used, because nothing later would show that it is wrong.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use oomproof_profile::{DeviceSettings, MeasuredRates};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::folders;

/// No such file is longer.
const LONGEST: u64 = 16 << 10;
/// Operations and bytes of a second, from less than the slowest card does to more than the fastest.
const OPERATIONS: RangeInclusive<u64> = 10_000_000_000..=100_000_000_000_000_000;
const BYTES: RangeInclusive<u64> = 1_000_000_000..=100_000_000_000_000;
const LINK: RangeInclusive<u64> = 10_000_000..=10_000_000_000_000;
/// Nanoseconds of the shortest kernel.
const LAUNCH: RangeInclusive<u64> = 100..=1_000_000;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    pub schema: u32,
    /// As CUDA names it.
    pub device: String,
    pub driver: String,
    pub torch: String,
    /// When it was measured, in seconds since 1970.
    pub measured_at_secs: u64,
    pub rates: MeasuredRates,
}

impl Calibration {
    /// The file's text, if it can be what it says it is.
    fn from_json(text: &str) -> Result<Self, String> {
        let found: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if found.schema != 1 {
            return Err(format!("it has schema {} and not 1", found.schema));
        }
        found.check()?;
        Ok(found)
    }

    /// Whether a card can have these rates.
    pub(crate) fn check(&self) -> Result<(), String> {
        let rates = &self.rates;
        let ranges = [
            ("fp32", rates.fp32, OPERATIONS),
            ("tf32", rates.tf32, OPERATIONS),
            ("fp16", rates.fp16, OPERATIONS),
            ("bf16", rates.bf16, OPERATIONS),
            ("memory_bytes", rates.memory_bytes, BYTES),
            ("from_host_bytes", rates.from_host_bytes, LINK),
            ("to_host_bytes", rates.to_host_bytes, LINK),
            ("launch_nanos", rates.launch_nanos, LAUNCH),
        ];
        let wrong = ranges
            .iter()
            .find(|(_, value, range)| !range.contains(value));
        wrong.map_or(Ok(()), |(name, value, _)| {
            Err(format!("no card has `{name}` of {value}"))
        })
    }
}

/// The file of a device; `None` when the user has no home.
pub(crate) fn path_of(device: &str) -> Option<PathBuf> {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
        _ => '-',
    };
    let name: String = device.chars().take(100).map(plain).collect();
    folders::calibrations().map(|folder| folder.join(format!("{name}.json")))
}

/// What was measured on a device of this name; `None` when nothing was.
pub(crate) fn of_device(device: &str) -> Result<Option<Calibration>, Failure> {
    path_of(device).map_or(Ok(None), |path| read(&path, device))
}

fn read(path: &Path, device: &str) -> Result<Option<Calibration>, Failure> {
    let refused = |why: &str| {
        Failure::new(
            Exit::InputRefused,
            "calibration",
            format!("the measured rates in {} cannot be used: {why}", path.display()),
        )
        .hint("remove the file to go by the catalog, or measure again with `oomproof gpus --calibrate`")
    };
    let file = match File::open(path) {
        Ok(file) => file,
        // A cache that is no folder holds no file either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(refused(&reason(&error))),
    };
    let mut text = String::new();
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| refused(&reason(&error)))?;
    if text.len() as u64 > LONGEST {
        return Err(refused("it is too long"));
    }
    let found = Calibration::from_json(&text).map_err(|why| refused(&why))?;
    if found.device != device {
        return Err(refused("it is of another device"));
    }
    Ok(Some(found))
}

/// The device with what was measured on one of its name.
pub(crate) fn applied(device: DeviceSettings) -> Result<DeviceSettings, Failure> {
    let measured = of_device(&device.name)?.map(|found| found.rates);
    Ok(DeviceSettings { measured, ..device })
}

/// Writes the file, whole or not at all.
pub(crate) fn write(found: &Calibration) -> Result<PathBuf, Failure> {
    let Some(path) = path_of(&found.device) else {
        return Err(
            Failure::environment("io", "there is no folder for the cache")
                .hint("set XDG_CACHE_HOME to a folder that you can write to"),
        );
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, found)?;
        file.write_all(b"\n")?;
        file.persist(&path)?;
        Ok(())
    });
    written.map_err(|error| Failure::io("write", &path, &error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl Fn(&mut serde_json::Value)) -> String {
        let mut value = serde_json::json!({
            "schema": 1, "device": "NVIDIA H100 80GB HBM3", "driver": "580.1", "torch": "2.15.0",
            "measured_at_secs": 1, "rates": {
                "fp32": 40_000_000_000_000_u64, "tf32": 350_000_000_000_000_u64, "fp16": 700_000_000_000_000_u64,
                "bf16": 700_000_000_000_000_u64, "memory_bytes": 2_900_000_000_000_u64,
                "from_host_bytes": 50_000_000_000_u64, "to_host_bytes": 50_000_000_000_u64, "launch_nanos": 2_000,
            }
        });
        change(&mut value);
        value.to_string()
    }

    #[test]
    fn only_what_a_card_can_have_is_read() {
        fn check(expected: Option<&str>, change: impl Fn(&mut serde_json::Value)) {
            let found = Calibration::from_json(&text(change)).err();
            assert_eq!(found.as_deref(), expected);
        }
        check(None, |_| {});
        check(Some("no card has `fp32` of 0"), |value| {
            value["rates"]["fp32"] = 0.into();
        });
        check(Some("no card has `launch_nanos` of 99"), |value| {
            value["rates"]["launch_nanos"] = 99.into();
        });
        check(Some("it has schema 2 and not 1"), |value| {
            value["schema"] = 2.into();
        });
        assert!(Calibration::from_json("{").is_err());
        assert!(Calibration::from_json(&text(|value| value["rates"] = 1.into())).is_err());
    }
}
