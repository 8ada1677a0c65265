//! What the launcher tells the device and the agent: one JSON file, `run.json`, named by `OOMPROOF_RUN`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::values::{AssumedRead, Routing, Values};

/// An estimate in bytes: it lies between `low` and `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The least it can be.
    pub low: u64,
    /// The best single figure.
    pub likely: u64,
    /// The most it can be.
    pub high: u64,
}

/// Floating-point operations in a second at most, by the format of what is multiplied; 0 where it is not known. Formats
/// that the hardware lacks have the rate of what stands in for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArithmeticRates {
    /// 64-bit numbers.
    pub fp64: u64,
    /// 32-bit numbers outside the tensor cores.
    pub fp32: u64,
    /// 32-bit numbers that tensor cores round.
    pub tf32: u64,
    /// 16-bit numbers.
    pub fp16: u64,
    /// bfloat16.
    pub bf16: u64,
    /// 8-bit numbers.
    pub fp8: u64,
}

/// What a real device was measured to do in a second, in place of what its catalog says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredRates {
    /// Floating-point operations of a large product of 32-bit numbers.
    pub fp32: u64,
    /// The same, rounded by tensor cores.
    pub tf32: u64,
    /// Of 16-bit numbers.
    pub fp16: u64,
    /// Of bfloat16.
    pub bf16: u64,
    /// Bytes of a large copy on the device, read and written.
    pub memory_bytes: u64,
    /// Bytes from pinned memory of the host.
    pub from_host_bytes: u64,
    /// Bytes to it.
    pub to_host_bytes: u64,
    /// Nanoseconds that the shortest kernel takes.
    pub launch_nanos: u64,
}

/// The figures of one device that programs can ask for, and how fast it computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSettings {
    /// The name CUDA reports, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Total memory that CUDA reports.
    pub total_bytes: u64,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Resident threads per multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Resident blocks per multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// 32-bit registers per multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Shared memory per multiprocessor.
    pub shared_memory_per_multiprocessor: u32,
    /// Shared memory one block may opt in to.
    pub shared_memory_per_block_optin: u32,
    /// Level-2 cache.
    pub l2_cache_bytes: u32,
    /// Boost clock of the multiprocessors in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// How fast it computes, for the times of work.
    #[serde(default)]
    pub arithmetic: ArithmeticRates,
    /// What was measured on such a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredRates>,
}

/// All settings of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Version of this form: 1.
    pub schema: u32,
    /// The device, which every ordinal in `device_count` is a copy of.
    pub device: DeviceSettings,
    /// Number of devices before `CUDA_VISIBLE_DEVICES` is applied.
    pub device_count: u32,
    /// Memory that other processes hold on each device.
    pub reserved_by_others_bytes: u64,
    /// What a CUDA context takes on this device.
    pub context_bytes: Range,
    /// The CUDA version of the user's torch as CUDA writes it: 13020 for 13.2.
    pub cuda_version: u32,
    /// The cuDNN version the user's torch was built for, as `cudnnGetVersion` writes it: 92600 for 9.26.0.
    pub cudnn_version: u32,
    /// The NCCL version the user's torch was built for, as `ncclGetVersion` writes it.
    pub nccl_version: u32,
    /// The user's torch, such as `2.15.0+cu132`.
    pub torch_version: String,
    /// What is assumed of that torch because this very build was not tried.
    #[serde(default)]
    pub torch_assumption: Option<String>,
    /// The folder with the stand-in libraries.
    pub standins: PathBuf,
    /// The virtual device's library.
    pub vgpu: PathBuf,
    /// The folder where each process that uses the device writes `<pid>.oomprofile`.
    pub run_dir: PathBuf,
    /// The folder that takes what the script writes.
    pub scratch: PathBuf,
    /// Stop after this many training steps.
    pub steps: Option<u32>,
    /// Run to the end, whether the peak is steady or not.
    pub full: bool,
    /// Give up after this many seconds.
    pub timeout_secs: u64,
    /// Initialise large parameters for real.
    pub real_init: bool,
    /// Let the script write where it wants.
    pub allow_writes: bool,
    /// The agent labels memory; without it only the device records.
    pub labels: bool,
    /// What was started: the interpreter, then its arguments. A rerun on another card starts the same.
    #[serde(default)]
    pub command: Vec<String>,
    /// The folder it was started in.
    #[serde(default)]
    pub cwd: PathBuf,
    /// What is done about values.
    #[serde(default)]
    pub values: Values,
    /// How unknown choices fall.
    #[serde(default)]
    pub routing: Routing,
    /// What is read at some source lines when it is not known.
    #[serde(default)]
    pub assume: Vec<AssumedRead>,
    /// The batch size of the script's loaders in place of its own.
    #[serde(default)]
    pub batch_size: Option<u64>,
    /// PyTorch's memory history is recorded, and each process leaves `<pid>.snapshot` in `run_dir`.
    #[serde(default)]
    pub snapshot: bool,
    /// What is changed in the script while it runs; the agent applies it, or ends the process with the reason.
    #[serde(default)]
    pub plan: Option<serde_json::Value>,
    /// The agent finds out what a plan is made from, and leaves the note `plan_facts`.
    #[serde(default)]
    pub probe: bool,
    /// The run ends once the peak of its training steps is known; what comes after them is not run.
    #[serde(default)]
    pub training_only: bool,
    /// Where the script waits before its first use of the device, to be forked for each run that is asked for.
    #[serde(default)]
    pub warm: Option<WarmSettings>,
}

/// How a script that waits before its first use of the device is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmSettings {
    /// The Unix socket that the launcher listens on.
    pub socket: PathBuf,
    /// The launcher's process: only its own child waits, and none that the script starts.
    pub launcher: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels_as_json() {
        let json = r#"{"schema":1,"device":{"name":"NVIDIA H100","total_bytes":85899345920,
            "compute_capability":[9,0],"multiprocessors":132,"max_threads_per_multiprocessor":2048,
            "max_blocks_per_multiprocessor":32,"registers_per_multiprocessor":65536,
            "shared_memory_per_multiprocessor":233472,"shared_memory_per_block_optin":232448,
            "l2_cache_bytes":52428800,"clock_khz":1980000,"memory_clock_khz":2619000,"memory_bus_bits":5120},
            "device_count":1,"reserved_by_others_bytes":0,
            "context_bytes":{"low":1,"likely":2,"high":3},"cuda_version":13020,"cudnn_version":92600,
            "nccl_version":23007,"torch_version":"2.15.0+cu132","standins":"/s","vgpu":"/v","run_dir":"/r",
            "scratch":"/t","steps":null,"full":false,"timeout_secs":600,"real_init":false,
            "allow_writes":false,"labels":true}"#;
        let settings: RunSettings = serde_json::from_str(json).unwrap();
        assert_eq!(settings.device.compute_capability, (9, 0));
        let again = serde_json::to_string(&settings).unwrap();
        assert_eq!(
            serde_json::from_str::<RunSettings>(&again).unwrap(),
            settings
        );
    }
}
