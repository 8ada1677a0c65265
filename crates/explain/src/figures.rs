//! The figures that an out-of-memory text prints. Each is as printed, to two decimals of its unit, and none is
//! derived from another but `reserved` and `unallocated`, of which each generation prints one.

use oomproof_units::Bytes;
use serde::Serialize;

/// What a text says in figures; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// What the allocator asked the driver for: a segment, mostly larger than the tensor it was for.
    pub tried_bytes: Option<Bytes>,
    /// Memory of the device.
    pub total_bytes: Option<Bytes>,
    /// What nobody held.
    pub free_bytes: Option<Bytes>,
    /// Tensors that were alive, and since PyTorch 2.4 idle memory of private pools.
    pub allocated_bytes: Option<Bytes>,
    /// What PyTorch's allocator held: allocated and unallocated together.
    pub reserved_bytes: Option<Bytes>,
    /// What PyTorch's allocator held without a tensor in it.
    pub unallocated_bytes: Option<Bytes>,
    /// Idle memory of private pools, such as those of CUDA graphs.
    pub private_pools_bytes: Option<Bytes>,
    /// What was alive or not yet released by another stream.
    pub active_bytes: Option<Bytes>,
    /// The most that the process may take; `None` also when the text says that there is no limit.
    pub allowed_bytes: Option<Bytes>,
    /// What this process held according to the driver.
    pub this_process_bytes: Option<Bytes>,
    /// What processes held according to the driver, in the order of the text.
    pub processes: Vec<ProcessFigure>,
    /// On Apple's GPUs: what was held outside PyTorch's allocator.
    pub other_allocations_bytes: Option<Bytes>,
    /// On-chip memory that a kernel wanted, which is no device memory.
    pub required_on_chip_bytes: Option<Bytes>,
    /// On-chip memory that there is.
    pub on_chip_limit_bytes: Option<Bytes>,
}

/// One process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessFigure {
    /// Its number; in a container that of the host.
    pub pid: u64,
    /// What it held.
    pub bytes: Bytes,
}

impl Figures {
    /// Whether the text says how full the device was.
    pub fn describe_device(&self) -> bool {
        self.total_bytes.is_some() || self.allocated_bytes.is_some()
    }

    /// Fills in the one of `reserved` and `unallocated` that is not printed.
    pub(crate) fn complete(&mut self) {
        let Some(allocated) = self.allocated_bytes else {
            return;
        };
        match (self.reserved_bytes, self.unallocated_bytes) {
            (Some(reserved), None) => {
                self.unallocated_bytes = Some(reserved.saturating_sub(allocated));
            }
            (None, Some(unallocated)) => self.reserved_bytes = Some(allocated + unallocated),
            _ => {}
        }
    }
}
