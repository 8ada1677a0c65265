//! NVML: the machine's devices as a monitor sees them, all of them, whatever `CUDA_VISIBLE_DEVICES` says.
//!
//! A virtual device runs nothing, so it is idle: utilization, power and temperature are 0. What the settings do not
//! say, such as power limits or links between devices, is not supported.

mod device;
mod process;
mod sensors;
mod status;
mod system;
mod topology;

pub use device::*;
pub use process::*;
pub use sensors::*;
pub use status::*;
pub use system::*;
pub use topology::*;

#[cfg(test)]
mod tests {
    use std::ffi::c_char;

    use super::*;
    use crate::libraries::testing::machine;

    /// One test, since starting and ending NVML is the process's.
    #[test]
    fn answers_once_it_is_started() {
        let session = machine();
        let mut count = 9;
        assert_eq!(
            // SAFETY: a place for a number.
            unsafe { nvmlDeviceGetCount_v2(&raw mut count) },
            NvmlStatus::UNINITIALIZED
        );
        assert_eq!(count, 0);
        assert_eq!(nvmlInit_v2(), NvmlStatus::SUCCESS);
        let (mut device, mut again) = (0, 0);
        let mut uuid = [0 as c_char; 41];
        // SAFETY: places for what is asked, of the lengths that are said.
        unsafe {
            assert_eq!(nvmlDeviceGetCount_v2(&raw mut count), NvmlStatus::SUCCESS);
            assert_eq!(count, session.settings.device_count);
            assert_eq!(
                nvmlDeviceGetHandleByIndex_v2(count, &raw mut device),
                NvmlStatus::INVALID_ARGUMENT
            );
            assert_eq!(
                nvmlDeviceGetHandleByIndex_v2(1, &raw mut device),
                NvmlStatus::SUCCESS
            );
            assert_eq!(
                nvmlDeviceGetUUID(device, uuid.as_mut_ptr(), 10),
                NvmlStatus::INSUFFICIENT_SIZE
            );
            assert_eq!(uuid[0], 0);
            assert_eq!(
                nvmlDeviceGetUUID(device, uuid.as_mut_ptr(), 41),
                NvmlStatus::SUCCESS
            );
            assert_eq!(
                nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &raw mut again),
                NvmlStatus::SUCCESS
            );
            assert_eq!(again, device);
            assert_eq!(
                nvmlDeviceGetHandleByPciBusId_v2(c"0000:02:00.0".as_ptr(), &raw mut again),
                NvmlStatus::SUCCESS
            );
            assert_eq!(again, device);
            assert_eq!(
                nvmlDeviceGetHandleByPciBusId_v2(c"0000:09:00.0".as_ptr(), &raw mut again),
                NvmlStatus::NOT_FOUND
            );
            assert_eq!(again, 0);
        }
        check_processes(device, session.settings.reserved_by_others_bytes);
        check_fabric(device);
        assert_eq!(nvmlShutdown(), NvmlStatus::SUCCESS);
        assert_eq!(nvmlShutdown(), NvmlStatus::UNINITIALIZED);
    }

    fn check_fabric(device: u64) {
        let asked = |version: u32| {
            let mut info = [u32::MAX; 10];
            info[0] = version;
            // SAFETY: the versions say at most the size of `info`.
            let status = unsafe { nvmlDeviceGetGpuFabricInfoV(device, info.as_mut_ptr().cast()) };
            (status, info.iter().filter(|word| **word == 0).count())
        };
        assert_eq!(asked(0x0200_0024), (NvmlStatus::SUCCESS, 8));
        assert_eq!(asked(0x0300_0028), (NvmlStatus::SUCCESS, 9));
        assert_eq!(asked(1), (NvmlStatus::INVALID_ARGUMENT, 0));
    }

    /// The second device, which no other test uses.
    fn check_processes(device: u64, others: u64) {
        let used_by = |expected: &[u64]| {
            let mut infos = [[0u64; 2]; 4];
            let mut count = 4;
            // SAFETY: room for four processes of 16 bytes.
            let status = unsafe {
                nvmlDeviceGetComputeRunningProcesses(
                    device,
                    &raw mut count,
                    infos.as_mut_ptr().cast(),
                )
            };
            assert_eq!(status, NvmlStatus::SUCCESS);
            let used: Vec<u64> = infos[..count as usize]
                .iter()
                .map(|[_, used]| *used)
                .collect();
            assert_eq!(used, expected);
        };
        used_by(&[others]);
        machine().ensure_context(1);
        used_by(&[others, machine().settings.context_bytes.likely]);
        let mut count = 1;
        // SAFETY: a place for a count.
        let full = unsafe {
            nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, std::ptr::null_mut())
        };
        assert_eq!((full, count), (NvmlStatus::INSUFFICIENT_SIZE, 2));
    }
}
