//! NVRTC: programs are kept and not compiled. What it hands out instead of machine code names the kernels, and the
//! driver takes any image.

mod program;
mod status;

pub use program::*;
pub use status::*;
