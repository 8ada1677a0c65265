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
