//! The verdict, whose fields are exactly the JSON of `oomproof run --json` in their order: scripts rely on it, so a
//! field is added but never renamed, and every map and list has a fixed order.

use std::collections::BTreeMap;

use oomproof_profile::{Phase, Role};
use oomproof_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::processes::{Holder, OtherProcess};
use crate::ranks::Rank;

/// What a run found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Version of this form: 1.
    pub schema: u32,
    /// The answer.
    pub verdict: Answer,
    /// Why the answer is `tight`, `does_not_fit` or `unknown`; empty for `fits`.
    pub reasons: Vec<Reason>,
    /// The virtual device.
    pub device: Device,
    /// The script's torch, such as `2.15.0+cu132`.
    pub torch: String,
    /// The CUDA version of that torch, such as `13.2`.
    pub cuda: String,
    /// The allocator's settings the script ran under; `None` for PyTorch's defaults.
    pub conf: Option<String>,
    /// The highest use of memory and what it consisted of.
    pub peak: Peak,
    /// What the CUDA context takes: an estimate from the catalogue of GPUs.
    pub context_bytes: Estimate,
    /// What libraries took from the driver outside PyTorch's allocator.
    pub library_bytes: Estimate,
    /// What other processes of the script held of the card beside this one when it was fullest.
    #[serde(default)]
    pub beside_bytes: Estimate,
    /// Those processes.
    #[serde(default)]
    pub other_processes: Vec<OtherProcess>,
    /// The highest levels while in each phase that was entered.
    pub phases: BTreeMap<Phase, PhasePeak>,
    /// Which of forward, backward, optimizer, evaluation and save were never entered.
    pub not_reached: Vec<Phase>,
    /// Number of training steps that ended.
    pub steps_measured: u32,
    /// How long the device is busy with a training step: the median of the steps but the first; `None` when no step
    /// ended or no time is known.
    #[serde(default)]
    pub step_device_ns: Option<TimeEstimate>,
    /// By how much each step holds more than the one before; 0 when steady or not known.
    pub growth_bytes_per_step: Bytes,
    /// What had to be assumed.
    pub assumptions: Vec<Assumption>,
    /// Functions that were called and are not modelled, in the order of their first call.
    pub unsupported: Vec<Unsupported>,
    /// The last time PyTorch's allocator gave up.
    pub oom: Option<Oom>,
    /// How the script ended.
    pub script: Script,
    /// The rank that the figures are of; `None` for one process.
    #[serde(default)]
    pub rank: Option<u32>,
    /// All ranks, in their order; `None` for one process.
    pub ranks: Option<Vec<Rank>>,
    /// Path of the profile.
    pub profile: String,
}

/// Does it fit?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The upper end of the estimate fits, with room to spare.
    Fits,
    /// The likely figure fits, but the upper end does not or little room is left.
    Tight,
    /// PyTorch ran out of memory, or the likely figure is above the card.
    DoesNotFit,
    /// What was seen does not decide it.
    Unknown,
}

/// Why the answer is not a plain `fits`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Which of the reasons it is.
    pub kind: ReasonKind,
    /// One sentence.
    pub text: String,
}

/// The reasons there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// PyTorch ran out of memory and the script did not go on.
    OutOfMemory,
    /// The likely process total is above the card.
    AboveCard,
    /// Only the upper end of the process total is above the card.
    UpperEndAboveCard,
    /// Less than two percent of the card are left.
    LittleHeadroom,
    /// Each step holds more than the one before, and the card is full before long.
    Growing,
    /// The time limit ended the run.
    TimedOut,
    /// The user ended the run.
    Interrupted,
    /// A signal ended the script.
    Signal,
    /// The script failed, and not for lack of memory.
    ScriptFailed,
    /// The profile is incomplete.
    RecordsLost,
    /// The script touched no device memory.
    DeviceUnused,
    /// No training step ended and no evaluation was seen.
    NothingMeasured,
}

/// The virtual device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The name CUDA reports.
    pub name: String,
    /// Its memory.
    pub total_bytes: Bytes,
    /// Compute capability, such as `9.0`.
    pub compute_capability: String,
    /// What other processes hold.
    pub reserved_by_others_bytes: Bytes,
    /// Index of the device the figures are of: the one with the highest reserved memory.
    pub index: u8,
}

/// The highest use of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// PyTorch's `max_memory_allocated`: exact but for scratch memory of libraries (the assumption `library_scratch`).
    pub allocated_bytes: Bytes,
    /// PyTorch's `max_memory_reserved`: exact but for that and the driver's own pools (`driver_pool`).
    pub reserved_bytes: Bytes,
    /// What `nvidia-smi` would show for the process: reserved + context + libraries.
    pub process_bytes: Estimate,
    /// The card less other programs, other processes of the script and the likely process total; negative when that is above the card.
    pub headroom_bytes: i64,
    /// The phase in which allocated memory was highest.
    pub phase: Phase,
    /// The training step in which it was; 0 before the first.
    pub step: u32,
    /// The allocated bytes at that moment by role; the values add up to `allocated_bytes`.
    pub roles: BTreeMap<Role, Bytes>,
    /// The same by module, largest first; blocks that belong to no module are left out.
    pub modules: Vec<ModuleShare>,
    /// The same by source line, largest first; blocks whose line is unknown are left out.
    pub sites: Vec<SiteShare>,
}

/// A module's share of the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleShare {
    /// Dotted path, such as `transformer.h.3.mlp`.
    pub path: String,
    /// Bytes of blocks that belong to it, its children's not included.
    pub bytes: Bytes,
}

/// A source line's share of the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteShare {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function.
    pub function: String,
    /// Bytes of blocks allocated from this line.
    pub bytes: Bytes,
}

/// A figure that lies between `low` and `high`; exact when the three are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The least it can be.
    pub low: Bytes,
    /// The best single figure.
    pub likely: Bytes,
    /// The most it can be.
    pub high: Bytes,
}

/// A time that lies between `low` and `high`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeEstimate {
    /// When work reaches the full speed of the card.
    pub low: Nanos,
    /// The best single figure.
    pub likely: Nanos,
    /// When it reaches half of what is likely.
    pub high: Nanos,
}

/// The highest levels while in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePeak {
    /// Highest allocated bytes.
    pub allocated_bytes: Bytes,
    /// Highest reserved bytes.
    pub reserved_bytes: Bytes,
}

/// Something that was assumed because it could not be known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assumption {
    /// What sort of assumption it is; docs/verdict.md lists them.
    pub kind: String,
    /// One sentence.
    pub text: String,
    /// `file:line`, when one line is concerned.
    pub r#where: Option<String>,
}

/// Calls of a function that is not modelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// The function.
    pub function: String,
    /// How often it was called.
    pub count: u64,
    /// `file:line` of the first call, when known.
    pub r#where: Option<String>,
    /// The library it belongs to.
    pub library: String,
}

/// Who was refused memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBy {
    /// PyTorch's allocator, which gave up.
    #[default]
    Pytorch,
    /// Somebody who asked the driver directly: a library, or the context itself.
    Library,
}

/// A request for memory was refused, and nothing could be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oom {
    /// Who asked.
    #[serde(default)]
    pub asked_by: AskedBy,
    /// The error's own text; `None` when it never reached Python.
    pub message: Option<String>,
    /// The phase it happened in.
    pub phase: Phase,
    /// `file:line function`, when known.
    pub r#where: Option<String>,
    /// The size the message names, to its two decimals: that of the segment PyTorch asked the driver for.
    pub tried_bytes: Option<Bytes>,
    /// What the failing line asked for, rounded up to 512 bytes.
    pub requested_bytes: Option<Bytes>,
    /// Free memory of the device.
    pub free_bytes: Option<Bytes>,
    /// Reserved bytes of PyTorch's allocator at that moment.
    #[serde(default)]
    pub reserved_bytes: Option<Bytes>,
    /// Allocated bytes at that moment by role.
    pub held_by: BTreeMap<Role, Bytes>,
    /// What other processes of the script held of the card at that moment.
    #[serde(default)]
    pub held_by_others: Vec<Holder>,
    /// The smallest card on which this very request would have succeeded: a lower bound for the whole run.
    pub would_have_fitted_bytes: Option<Bytes>,
    /// The script caught the error and went on to finish a later step.
    pub survived: bool,
    /// The training step it happened in.
    pub step: u32,
    /// The innermost module that was running.
    pub module: Option<String>,
}

/// How the script ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The schema of [`Verdict`].
pub const SCHEMA: u32 = 1;
