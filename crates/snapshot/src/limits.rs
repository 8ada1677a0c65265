//! How much a file may cost.

/// Bounds on reading.
///
/// Memory is bounded by the length of what is read. Reading a pickle of n bytes takes less than 20 n + 32 MiB, whatever
/// it holds, and about n for what torch writes; a compressed file may unfold to [`Limits::unfolded`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many times its length a compressed file may unfold to.
    pub unfolded_ratio: u64,
    /// What any compressed file may unfold to, in bytes, however short it is.
    pub unfolded_bytes: u64,
}

impl Default for Limits {
    /// 256 times its length or 64 MiB: real snapshots unfold to 1.3 to 60 times.
    fn default() -> Self {
        Self {
            unfolded_ratio: 256,
            unfolded_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// What a compressed file of so many bytes may unfold to.
    pub fn unfolded(&self, len: usize) -> u64 {
        self.unfolded_ratio
            .saturating_mul(len as u64)
            .max(self.unfolded_bytes)
    }
}
