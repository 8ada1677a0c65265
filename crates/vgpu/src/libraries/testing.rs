//! A session for tests of exported functions: one virtual machine, shared by all of them as in a real process.

use std::sync::Once;

use crate::session::{Session, session};

/// Settings of the tests' machine.
const SETTINGS: &str = r#"{"schema":1,"device":{"name":"NVIDIA Test","total_bytes":8589934592,
    "compute_capability":[9,0],"multiprocessors":132,"max_threads_per_multiprocessor":2048,
    "max_blocks_per_multiprocessor":32,"registers_per_multiprocessor":65536,
    "shared_memory_per_multiprocessor":233472,"shared_memory_per_block_optin":232448,
    "l2_cache_bytes":52428800,"clock_khz":1980000,"memory_clock_khz":2619000,"memory_bus_bits":5120},
    "device_count":4,"reserved_by_others_bytes":1073741824,
    "context_bytes":{"low":1,"likely":2,"high":3},"cuda_version":13020,"cudnn_version":92600,
    "nccl_version":23007,"torch_version":"2.15.0+cu132","standins":"/s","vgpu":"/v","run_dir":"RUN_DIR",
    "scratch":"/t","steps":null,"full":false,"timeout_secs":600,"real_init":false,
    "allow_writes":false,"labels":true}"#;

/// The device of the tests' machine.
pub(crate) fn device() -> oomproof_profile::DeviceSettings {
    let settings: oomproof_profile::RunSettings = serde_json::from_str(SETTINGS).unwrap();
    settings.device
}

/// The tests' session.
pub(super) fn machine() -> &'static Session {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("run.json");
        std::fs::write(
            &settings,
            SETTINGS.replace("RUN_DIR", folder.path().to_str().unwrap()),
        )
        .unwrap();
        crate::session::attach(&settings).unwrap();
    });
    session().unwrap()
}

/// A block of device memory of `len` bytes, all of them known.
pub(super) fn known_block(len: usize) -> u64 {
    let session = machine();
    let mut memory = session.memory();
    let (address, _) = memory
        .allocate(0, len as u64, crate::memory::Kind::Malloc)
        .unwrap();
    memory.begin_block(address, len as u64);
    memory.contents.write(address, &vec![7; len]);
    address
}

/// Bytes of the block at `address` that are not known.
pub(super) fn unknown(address: u64, len: u64) -> u64 {
    machine().memory().contents.unknown(address, len)
}
