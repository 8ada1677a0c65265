//! How much a file may cost. Everything a hostile file can inflate is bounded by its length.

/// Bounds on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many times its compressed length a compressed file may unfold to, beyond [`Limits::unfolded_bytes`].
    pub unfolded_ratio: u64,
    /// What any compressed file may unfold to, in bytes.
    pub unfolded_bytes: u64,
}

impl Default for Limits {
    /// 256 times its length and 64 MiB: real snapshots unfold to 1.3 to 60 times.
    fn default() -> Self {
        Self {
            unfolded_ratio: 256,
            unfolded_bytes: 64 << 20,
        }
    }
}
