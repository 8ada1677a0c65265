//! `oomproof gpus --calibrate`: how fast the GPU of this machine is, measured once.
//!
//! The only verb that computes on a real device: the timing program runs in the user's Python with nothing before torch.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use oomproof_profile::MeasuredRates;
use serde::Deserialize;

use crate::calibration::{self, Calibration};
use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::platform;
use crate::printer;
use crate::python;

/// What is run.
const PROGRAM: &str = include_str!("../calibrate.py");

/// What it prints.
#[derive(Deserialize)]
struct Printed {
    device: String,
    torch: String,
    rates: MeasuredRates,
}

/// Measures and keeps what was measured.
pub(crate) fn calibrate(named: Option<&Path>) -> Result<Exit, Failure> {
    platform::check("gpus --calibrate")?;
    let python = python::interpreter(named)?;
    printer::say("timing products and copies on the GPU of this machine");
    let refused = |why: &str| {
        Failure::environment(
            "no_real_gpu",
            format!("no GPU of this machine could be measured: {why}"),
        )
        .hint("run it where `nvidia-smi` lists a GPU, with a Python whose torch can use it: `--python PATH`")
    };
    let done = Command::new(&python.path)
        .args(["-c", PROGRAM])
        .output()
        .map_err(|error| refused(&reason(&error)))?;
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    if !done.status.success() {
        return Err(refused(last.unwrap_or("the timing program failed")));
    }
    let printed: Printed = serde_json::from_slice(&done.stdout).map_err(|error| {
        refused(&format!(
            "what the timing program printed is no JSON: {error}"
        ))
    })?;
    let found = Calibration {
        schema: 1,
        device: printed.device,
        driver: driver(),
        torch: printed.torch,
        measured_at_secs: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        rates: printed.rates,
    };
    found.check().map_err(|why| refused(&why))?;
    let path = calibration::write(&found)?;
    printer::say(&format!("written to {}", path.display()));
    printer::json(&found)?;
    Ok(Exit::Done)
}

/// The driver's version as `nvidia-smi` has it; `unknown` without one.
fn driver() -> String {
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=driver_version", "--format=csv,noheader"])
        .output();
    let text = asked.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let first = text.unwrap_or_default().lines().next().map(str::to_owned);
    first
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
