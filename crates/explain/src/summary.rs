//! The table of `torch.cuda.memory_summary()`, pasted beside a message or alone. It is of the moment it was printed,
//! mostly after the failing step was unwound, so its figures stand apart and never take the place of a message's.

use oomproof_units::Bytes;
use serde::Serialize;

/// Most lines that are looked at.
const LONGEST: usize = 20_000;
/// Most tables that are kept.
const MOST: usize = 64;

/// One table, its sizes rounded down to the unit it printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemorySummary {
    /// The device.
    pub device: Option<u32>,
    /// Requests that failed since the process began.
    pub ooms: Option<u64>,
    /// Times the allocator gave its idle segments back to find room.
    pub retries: Option<u64>,
    /// Live tensors when it was printed.
    pub allocated_bytes: Option<Bytes>,
    /// The most they ever were.
    pub peak_allocated_bytes: Option<Bytes>,
    /// What the allocator held when it was printed.
    pub reserved_bytes: Option<Bytes>,
    /// The most it ever held.
    pub peak_reserved_bytes: Option<Bytes>,
    /// Free pieces of segments that also hold live tensors, which clearing the cache cannot release.
    pub non_releasable_bytes: Option<Bytes>,
}

impl MemorySummary {
    /// What the table says, in sentences.
    pub fn reading(&self) -> Vec<String> {
        let (Some(allocated), Some(reserved)) = (self.allocated_bytes, self.reserved_bytes) else {
            return vec!["The table is cut: allocated or reserved memory is not in it.".to_owned()];
        };
        let mut said = vec![format!(
            "Live tensors held {allocated}, and PyTorch {reserved} with its cache."
        )];
        if let Some(peak) = self.peak_allocated_bytes.filter(|peak| *peak > allocated) {
            said.push(format!(
                "At the peak live tensors held {peak}: {} were gone again when the table was printed.",
                peak.saturating_sub(allocated)
            ));
        }
        let idle = reserved.saturating_sub(allocated);
        if let Some(pieces) = self.non_releasable_bytes {
            said.push(format!(
                "Of the {idle} without a tensor {} lie between live tensors, which empty_cache() cannot release, and at most {} would go back.",
                pieces.min(idle),
                idle.saturating_sub(pieces)
            ));
        }
        match (self.ooms, self.retries) {
            (Some(ooms), Some(retries)) if ooms + retries > 0 => said.push(format!(
                "Since the process began {ooms} {} failed, and {retries} {} the cache was given back to find room.",
                if ooms == 1 { "request" } else { "requests" },
                if retries == 1 { "time" } else { "times" },
            )),
            _ => {}
        }
        said
    }
}

/// The tables of a text.
pub(crate) fn read(text: &str) -> Vec<MemorySummary> {
    let mut found: Vec<MemorySummary> = Vec::new();
    for line in text.lines().take(LONGEST) {
        if let Some((_, rest)) = line.split_once("memory summary, device ID") {
            if found.len() == MOST {
                break;
            }
            found.push(MemorySummary {
                device: number(rest),
                ..MemorySummary::default()
            });
        } else if let Some(table) = found.last_mut() {
            row(table, line);
        }
    }
    found
}

/// Whether a line is the table's count of failures, which is no failure itself.
pub(crate) fn counts_failures(line: &str) -> bool {
    line.contains("CUDA OOMs:") && line.contains("cudaMalloc retries:")
}

fn row(table: &mut MemorySummary, line: &str) {
    if let Some((ooms, retries)) = line.split_once("cudaMalloc retries:") {
        table.ooms = ooms.split_once("CUDA OOMs:").and_then(|(_, n)| number(n));
        table.retries = number(retries);
        return;
    }
    let Some((name, cells)) = line
        .split_once('|')
        .and_then(|(_, rest)| rest.split_once('|'))
    else {
        return;
    };
    let mut cells = cells.split('|');
    let (now, peak) = (cells.next().and_then(size), cells.next().and_then(size));
    match name.trim() {
        "Allocated memory" => {
            table.allocated_bytes = table.allocated_bytes.or(now);
            table.peak_allocated_bytes = table.peak_allocated_bytes.or(peak);
        }
        "GPU reserved memory" => {
            table.reserved_bytes = table.reserved_bytes.or(now);
            table.peak_reserved_bytes = table.peak_reserved_bytes.or(peak);
        }
        "Non-releasable memory" => {
            table.non_releasable_bytes = table.non_releasable_bytes.or(now);
        }
        _ => {}
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let text = text.trim_start();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// `14210 MiB`; older releases print `MB` and mean the same.
fn size(cell: &str) -> Option<Bytes> {
    let (value, unit) = cell.trim().split_once(' ')?;
    let power = match unit.trim() {
        "B" => 0,
        "KB" | "KiB" => 10,
        "MB" | "MiB" => 20,
        "GB" | "GiB" => 30,
        "TB" | "TiB" => 40,
        "PB" | "PiB" => 50,
        _ => return None,
    };
    let value: u64 = value.parse().ok()?;
    value.checked_mul(1 << power).map(Bytes::new)
}
