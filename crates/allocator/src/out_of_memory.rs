//! Why a request was refused, with the figures of PyTorch's message and its text.

use std::fmt::Write;

use oomproof_units::Bytes;
use thiserror::Error;

use crate::release::Release;

/// The figures of an out-of-memory error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The device's number.
    pub device: u8,
    /// What was asked for.
    pub requested: Bytes,
    /// The size that a block for it has.
    pub rounded: Bytes,
    /// The segment that was asked of the device, which is what the message calls "tried to allocate".
    pub tried: Bytes,
    /// Bytes of the device.
    pub total: Bytes,
    /// Bytes of the device that nobody holds.
    pub free: Bytes,
    /// What the memory fraction allows, when it is set.
    pub limit: Option<Bytes>,
    /// `allocated_bytes.all.current`.
    pub allocated: Bytes,
    /// `reserved_bytes.all.current`.
    pub reserved: Bytes,
    /// Free memory of private pools, which the message calls allocated.
    pub free_in_private_pools: Bytes,
    /// How much address space an expandable segment would have, when these are on.
    pub expandable_segments: Option<Bytes>,
}

/// What the message says of the processes on the device, from NVML; empty where there is none.
pub type Processes<'a> = &'a str;

impl OutOfMemory {
    /// The text of a release. `processes` is its part about who uses the device, with a space at its end.
    pub fn message(&self, release: Release, processes: Processes<'_>) -> String {
        let minor = if release.major() == 2 {
            release.minor()
        } else {
            u16::MAX
        };
        let tried = self.tried;
        if minor == 0 {
            return self.oldest_message();
        }
        let device = match minor {
            // The number is printed as a character; the text that Python sees ends there.
            3 => return oldest_bug(tried, self.device),
            _ => self.device.to_string(),
        };
        let capacity = if minor == 1 { "capacty" } else { "capacity" };
        let in_pools = if minor >= 4 {
            self.free_in_private_pools
        } else {
            Bytes::ZERO
        };
        let allocated = self.allocated + in_pools;
        let unallocated = self.reserved.saturating_sub(allocated);
        let mut text = format!(
            "CUDA out of memory. Tried to allocate {tried}. GPU {device} has a total {capacity} of {} of which {} is \
             free. {processes}",
            self.total, self.free
        );
        if let Some(limit) = self.limit
            && minor >= 5
        {
            let _ = write!(text, "{limit} allowed; ");
        }
        let _ = write!(
            text,
            "Of the allocated memory {allocated} is allocated by PyTorch, "
        );
        if in_pools > Bytes::ZERO {
            let _ = write!(
                text,
                "with {in_pools} allocated in private pools (e.g., CUDA Graphs), "
            );
        }
        let _ = write!(
            text,
            "and {unallocated} is reserved by PyTorch but unallocated."
        );
        text.push_str(&self.advice(minor));
        text
    }

    fn advice(&self, minor: u16) -> String {
        match self.expandable_segments {
            Some(reserve) if minor >= 15 && self.tried > reserve && self.tried <= self.total => {
                format!(
                    " This allocation exceeds the expandable-segment reserve of {reserve} for this stream, and a single \
                 allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF \
                 expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a segment \
                 is at least {}.",
                    self.tried
                )
            }
            Some(_) if minor == 14 => String::new(),
            Some(_) if minor >= 15 => ADVICE_ON_ADDRESS_SPACE.to_owned(),
            _ => advice(minor).to_owned(),
        }
    }

    fn oldest_message(&self) -> String {
        let allowed = self
            .limit
            .map_or(String::new(), |limit| format!("{limit} allowed; "));
        format!(
            "CUDA out of memory. Tried to allocate {} (GPU {}; {} total capacity; {} already allocated; {} free; \
             {allowed}{} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting \
             max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and \
             PYTORCH_CUDA_ALLOC_CONF",
            self.tried, self.device, self.total, self.allocated, self.free, self.reserved
        )
    }
}

fn oldest_bug(tried: Bytes, device: u8) -> String {
    let mut text = format!("CUDA out of memory. Tried to allocate {tried}. GPU ");
    if device > 0 {
        text.push(char::from(device));
    }
    text
}

const ADVICE_ON_ADDRESS_SPACE: &str = " expandable_segments is enabled. If instead the process is running out of \
    virtual address space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of device \
    memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
    expandable_segments_reserve_by_class.";

fn advice(minor: u16) -> &'static str {
    match minor {
        1 => {
            " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See \
             documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
        }
        2..=9 => {
            " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
             to avoid fragmentation.  See documentation for Memory Management  \
             (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        }
        10 => {
            " If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to \
             avoid fragmentation.  See documentation for Memory Management  \
             (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        }
        _ => {
            " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
             to avoid fragmentation.  See documentation for Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        }
    }
}

/// Why there is no block for a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AllocateError {
    /// Neither the cache nor the device has room.
    #[error("out of memory: tried to allocate {} on GPU {}", .0.tried, .0.device)]
    OutOfMemory(Box<OutOfMemory>),
    /// `throw_on_cudamalloc_oom` forbade to ask the device.
    #[error(
        "Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested \
         size: {}", .0
    )]
    Rejected(Bytes),
    /// The request is absurd, in most cases a negative number.
    #[error("Tried to allocate more than 1EB memory.")]
    TooLarge,
    /// PyTorch itself fails there with an internal error.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

/// What is a failed assertion in the PyTorch of that release.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InternalError {
    /// Up to 2.7 the cache cannot be emptied while a pool is filled.
    #[error(
        "PyTorch up to 2.7 fails an assertion when the cache is emptied while a private pool is filled"
    )]
    EmptiedWhilePoolIsFilled,
    /// From 2.1 to 2.4 `max_split_size_mb` and `expandable_segments` do not go together.
    #[error("PyTorch 2.1 to 2.4 fail an assertion when a large expandable block is to be released")]
    ExpandableReleased,
    /// `max_split_size_mb` was set while blocks were in use.
    #[error(
        "PyTorch gives CUDA the address of a part of a segment when `max_split_size_mb` is set late"
    )]
    SplitBlockReleased,
    /// A pool for emergencies was let go of before one came.
    #[error(
        "PyTorch from 2.11 on fails an assertion when private pool {0}, which nobody uses any more, is to help out"
    )]
    PoolRevived(crate::pool::PoolId),
    /// More pages of a pool were given back than PyTorch counted when it took them.
    #[error(
        "PyTorch fails an assertion when it unmaps more often from private pool {0} than it mapped"
    )]
    PoolCountBelowZero(crate::pool::PoolId),
}

/// What cannot be asked of the allocator.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UseError {
    /// The program holds no block there.
    #[error("no allocated block begins at {0}")]
    UnknownAddress(oomproof_units::DeviceAddress),
    /// The pool was never made, or is gone.
    #[error("there is no private pool {0}")]
    UnknownPool(crate::pool::PoolId),
    /// The pool is not being filled.
    #[error("private pool {0} is not being filled")]
    NotFilled(crate::pool::PoolId),
    /// The pool was released as often as it was taken.
    #[error("private pool {0} has no user left")]
    Unused(crate::pool::PoolId),
    /// The name of the pool of everything else.
    #[error("(0, 0) is the default pool, which cannot be a private one")]
    DefaultPool,
}
