//! The fixed header, and where each part of it lies.
//!
//! The agent writes the four words at [`STATE`] with plain stores from Python, so every part has a constant
//! offset and integers are little-endian. The records begin at [`HEADER_LEN`]; [`COMMITTED`] says where they end,
//! and is stored after the record it covers, so a process killed in between loses only that record.

/// The first eight bytes of every profile.
pub const MAGIC: [u8; 8] = *b"oomproof";
/// The version this crate reads and writes.
pub const VERSION: u32 = 1;
/// Length of the header; the first record follows.
pub const HEADER_LEN: usize = 4096;
/// Offset of the version, a `u32`.
pub const VERSION_AT: usize = 8;
/// Offset of the length of header and finished records together, a `u64`.
pub const COMMITTED: usize = 16;
/// Offset of the id of the process, a `u64`.
pub const PID: usize = 24;
/// Offset of a `u64` that is not zero when records were lost because the disk was full.
pub const LOST: usize = 32;
/// Offset of what the agent says is going on: four `u32`: site, module, phase, step.
pub const STATE: usize = 64;
/// Offset of the [`N_COUNTERS`] `u64` counters.
pub const COUNTERS: usize = 128;
/// Number of counters.
pub const N_COUNTERS: usize = 16;

/// Which counter is which, as an index from [`COUNTERS`].
pub mod counter {
    /// PyTorch's allocated bytes now.
    pub const ALLOCATED: usize = 0;
    /// PyTorch's reserved bytes now.
    pub const RESERVED: usize = 1;
    /// Highest allocated bytes.
    pub const PEAK_ALLOCATED: usize = 2;
    /// Highest reserved bytes.
    pub const PEAK_RESERVED: usize = 3;
    /// Device bytes in use now, with context and other processes.
    pub const USED: usize = 4;
    /// Highest device bytes in use.
    pub const PEAK_USED: usize = 5;
    /// Highest allocated bytes since the last step ended.
    pub const STEP_PEAK_ALLOCATED: usize = 6;
    /// Highest reserved bytes since the last step ended.
    pub const STEP_PEAK_RESERVED: usize = 7;
    /// Allocator events recorded.
    pub const EVENTS: usize = 8;
    /// Reads of unknown memory.
    pub const UNKNOWN_READS: usize = 9;
    /// Calls of functions that are not modelled.
    pub const UNSUPPORTED: usize = 10;
    /// Times PyTorch's allocator gave up.
    pub const OUT_OF_MEMORY: usize = 11;
    /// Kernels launched.
    pub const LAUNCHES: usize = 12;
    /// Bytes copied from the host, done or not.
    pub const HOST_TO_DEVICE: usize = 13;
    /// Bytes copied to the host, done or not.
    pub const DEVICE_TO_HOST: usize = 14;
    /// Nanoseconds on the device's clock, an estimate, as it stood when the last phase or step began or the profile
    /// was closed.
    pub const DEVICE_TIME: usize = 15;
}

/// An empty profile of the process `pid`: a header and no records.
pub fn new_header(pid: u64) -> Vec<u8> {
    let mut header = vec![0; HEADER_LEN];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[VERSION_AT..VERSION_AT + 4].copy_from_slice(&VERSION.to_le_bytes());
    header[PID..PID + 8].copy_from_slice(&pid.to_le_bytes());
    set_committed(&mut header);
    header
}

/// Declares all bytes of `file` finished.
pub fn set_committed(file: &mut [u8]) {
    let len = (file.len() as u64).to_le_bytes();
    file[COMMITTED..COMMITTED + 8].copy_from_slice(&len);
}
