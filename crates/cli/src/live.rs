//! What the cards of this machine hold now. The driver's own program is asked, which every installation of the driver
//! has, so nothing is linked and nothing but its overview is read. A driver in trouble lets it hang, so it has a limit.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::exit::Exit;
use crate::failure::{Failure, reason};

/// The driver's program.
const PROGRAM: &str = "nvidia-smi";
/// How long it may take; a card that sleeps needs some seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often its end is looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// The overview of the cards and their processes, as the driver's program prints it.
pub(crate) fn overview() -> Result<String, Failure> {
    let started = Command::new(PROGRAM)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            refused("there is no `nvidia-smi` here, so no card can be asked")
        }
        _ => refused(&format!(
            "`nvidia-smi` cannot be started: {}",
            reason(&error)
        )),
    })?;
    let pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut text));
        text
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begin.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Ok(None) | Err(_) => {
                // One that does not die either leaves only its own process behind.
                let _ = child.kill();
                return Err(refused("`nvidia-smi` did not answer within 30 seconds"));
            }
        }
    };
    let text = reader.join().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    if status.success() {
        return Ok(text);
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    Err(refused(&format!(
        "`nvidia-smi` failed: {}",
        first.unwrap_or("it said nothing")
    )))
}

fn refused(text: &str) -> Failure {
    Failure::new(Exit::Environment, "no_live_card", text).hint(
        "call it on the machine with the GPU, or put the output of `nvidia-smi` there into the text",
    )
}
