//! The output of `nvidia-smi`, as a table or as CSV, pasted beside a message or alone. Its processes are those of the
//! host, and what it shows of one is context and cache, not live tensors.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::figures::ProcessFigure;

/// Most lines that are looked at.
const LONGEST: usize = 20_000;
/// Most devices or processes that are kept.
const MOST: usize = 256;

/// What `nvidia-smi` showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Smi {
    /// Used and total memory of each device, in its order.
    pub devices: Vec<SmiDevice>,
    /// Processes with what they hold.
    pub processes: Vec<SmiProcess>,
    /// Whether a device is divided.
    pub mig: bool,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SmiDevice {
    /// Its name, when the table shows it.
    pub name: Option<String>,
    /// Used memory.
    pub used_bytes: Bytes,
    /// All of its memory.
    pub total_bytes: Bytes,
}

/// One process on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SmiProcess {
    /// The device, when the table says which.
    pub device: Option<u32>,
    /// Its number and what it holds.
    #[serde(flatten)]
    pub process: ProcessFigure,
    /// What runs.
    pub name: String,
}

/// What a text shows of `nvidia-smi`; `None` when nothing.
pub(crate) fn read(text: &str) -> Option<Smi> {
    let mut smi = Smi::default();
    let mut name = None;
    for line in text.lines().take(LONGEST) {
        let plain = line.trim().trim_matches(['|', '│', ' ']);
        smi.mig |= plain.contains("MIG devices") || plain.starts_with("MIG ");
        if let Some(found) = device_name(plain) {
            name = Some(found);
        }
        if smi.devices.len() < MOST
            && let Some((used, total)) = usage(plain)
        {
            smi.devices.push(SmiDevice {
                name: name.take(),
                used_bytes: used,
                total_bytes: total,
            });
        } else if smi.processes.len() < MOST {
            smi.processes.extend(process(plain).or_else(|| csv(plain)));
        }
    }
    let found = !smi.devices.is_empty() || !smi.processes.is_empty();
    found.then_some(smi)
}

/// `0  NVIDIA A100-SXM4-40GB  On | 00000000:07:00.0 Off`
fn device_name(line: &str) -> Option<String> {
    let first = line.split('|').next()?.trim();
    let (index, rest) = first.split_once(char::is_whitespace)?;
    index.parse::<u32>().ok()?;
    let name: Vec<&str> = rest
        .split_whitespace()
        // Whether it persists, the driver's model, or the bus comes behind the name.
        .take_while(|word| {
            !word.contains(':') && !matches!(*word, "On" | "Off" | "N/A" | "TCC" | "WDDM" | "MCDM")
        })
        .collect();
    let known = name.first().is_some_and(|word| {
        [
            "NVIDIA", "Tesla", "GeForce", "Quadro", "TITAN", "A100", "H100",
        ]
        .iter()
        .any(|brand| word.starts_with(brand))
    });
    known.then(|| name.join(" "))
}

/// `10240MiB / 24564MiB`
fn usage(line: &str) -> Option<(Bytes, Bytes)> {
    line.split('|').find_map(|cell| {
        let (used, total) = cell.trim().split_once('/')?;
        let used = used.trim().rsplit(char::is_whitespace).next()?;
        let total = total.split_whitespace().next()?;
        let is_size = |text: &str| text.ends_with("MiB");
        if !is_size(used) || !is_size(total) {
            return None;
        }
        Some((used.parse().ok()?, total.parse().ok()?))
    })
}

/// `0   N/A  N/A     12345      C   python     10240MiB`
fn process(line: &str) -> Option<SmiProcess> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let device = words.first()?.parse().ok()?;
    let held = words.last()?.strip_suffix("MiB")?.parse().ok()?;
    let kind = words
        .iter()
        .position(|word| matches!(*word, "C" | "G" | "C+G" | "M+C"))?;
    let pid = words.get(kind.checked_sub(1)?)?.parse().ok()?;
    Some(SmiProcess {
        device: Some(device),
        process: ProcessFigure {
            pid,
            bytes: Bytes::from_mib(held),
        },
        name: words.get(kind + 1..words.len() - 1)?.join(" "),
    })
}

/// `12345, 10240 MiB` or `GPU-1c..., 12345, 10240 MiB, python`
fn csv(line: &str) -> Option<SmiProcess> {
    let cells: Vec<&str> = line.split(", ").map(str::trim).collect();
    let at = cells.iter().position(|cell| {
        let number = cell.strip_suffix(" MiB");
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    })?;
    let held = cells[at].strip_suffix(" MiB")?.parse().ok()?;
    let pid = cells[..at]
        .iter()
        .rev()
        .find_map(|cell| cell.parse().ok())?;
    let is_name = |cell: &&&str| cell.parse::<f64>().is_err() && !cell.starts_with("GPU-");
    let name = cells
        .iter()
        .filter(|cell| !cell.ends_with(" MiB"))
        .find(is_name);
    Some(SmiProcess {
        device: None,
        process: ProcessFigure {
            pid,
            bytes: Bytes::from_mib(held),
        },
        name: name.map_or_else(String::new, |name| (*name).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
| 30%   45C    P2            110W /  350W |   20480MiB /  24576MiB |     98%      Default |
|    0   N/A  N/A     12345      C   python train.py                       18000MiB |
|    0   N/A  N/A      2001      G   /usr/lib/xorg/Xorg                      120MiB |
";

    #[test]
    fn the_table_is_read() {
        let smi = read(TABLE).unwrap();
        assert_eq!(smi.devices.len(), 1);
        assert_eq!(
            smi.devices[0].name.as_deref(),
            Some("NVIDIA GeForce RTX 3090")
        );
        assert_eq!(smi.devices[0].used_bytes, Bytes::from_mib(20480));
        assert_eq!(smi.processes.len(), 2);
        assert_eq!(smi.processes[0].process.pid, 12345);
        assert_eq!(smi.processes[0].name, "python train.py");
    }

    #[test]
    fn csv_is_read() {
        let smi = read("pid, used_gpu_memory [MiB]\n77, 1024 MiB\nGPU-aa, 78, 2048 MiB, python\n")
            .unwrap();
        let pids: Vec<u64> = smi.processes.iter().map(|each| each.process.pid).collect();
        assert_eq!(pids, [77, 78]);
        assert_eq!(smi.processes[1].name, "python");
    }

    #[test]
    fn other_text_is_none() {
        assert_eq!(read("loss 0.3, 10 of 20"), None);
        assert_eq!(read(""), None);
    }
}
