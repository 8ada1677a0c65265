//! One GPU as programs see it.
//!
//! A verdict rests on [`Gpu::total`], so each entry says how well that figure is known, and where every figure
//! comes from. Figures that follow from the architecture stand in `limits.rs`, once.

use oomproof_profile::DeviceSettings;
use oomproof_units::Bytes;

use crate::limits::Architecture;

/// How well the total memory of a GPU is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// To the byte, from the output of a program on that GPU.
    Exact,
    /// From output that prints whole MiB: the real figure is less than 1 MiB larger.
    WholeMib,
    /// No output that names this GPU was found; the entry's sources say what it was derived from.
    Estimated,
}

/// What error correction means for the memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecc {
    /// The GPU has none.
    Absent,
    /// Always on, in memory that carries spare bits for it.
    Inherent,
    /// On unless switched off; its bits lie in the memory and are already missing from the total.
    OnByDefault,
    /// Off unless switched on; then about a sixteenth of the total is lost.
    OffByDefault,
}

/// One GPU of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The name people type, such as `rtx-4090`.
    pub id: &'static str,
    /// The name CUDA reports.
    pub name: &'static str,
    /// Other names that mean this GPU; a name that several GPUs share is ambiguous.
    pub aliases: &'static [&'static str],
    /// Its generation, from which the compute capability and the limits of a multiprocessor follow.
    pub architecture: Architecture,
    /// Memory as it is sold.
    pub marketing_memory: Bytes,
    /// Total memory that CUDA reports.
    pub total: Bytes,
    /// How well `total` is known.
    pub certainty: Certainty,
    /// What error correction does to the memory.
    pub ecc: Ecc,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Level-2 cache.
    pub l2_cache: Bytes,
    /// Boost clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz, as CUDA reports it.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// Where the figures come from.
    pub sources: &'static [&'static str],
}

impl Gpu {
    /// The same GPU with another amount of memory, for a card that is not in the catalog or a part of one.
    #[must_use]
    pub fn with_memory(&self, total: Bytes) -> Self {
        Self {
            marketing_memory: total,
            total,
            certainty: Certainty::Exact,
            sources: &["total memory: given by the user; the rest: as the GPU it was derived from"],
            ..self.clone()
        }
    }

    /// The id of the card that this is a slice of.
    pub fn slice_of(&self) -> Option<&'static str> {
        self.id.split_once(':').map(|(card, _)| card)
    }

    /// Threads that can be resident on the whole GPU.
    pub fn resident_threads(&self) -> u64 {
        u64::from(self.multiprocessors)
            * u64::from(self.architecture.limits().threads_per_multiprocessor)
    }

    /// What the virtual device answers.
    pub fn device_settings(&self) -> DeviceSettings {
        let limits = self.architecture.limits();
        DeviceSettings {
            name: self.name.to_owned(),
            total_bytes: self.total.get(),
            compute_capability: self.architecture.compute_capability(),
            multiprocessors: self.multiprocessors,
            max_threads_per_multiprocessor: limits.threads_per_multiprocessor,
            max_blocks_per_multiprocessor: limits.blocks_per_multiprocessor,
            registers_per_multiprocessor: limits.registers_per_multiprocessor,
            shared_memory_per_multiprocessor: limits.shared_memory_per_multiprocessor,
            shared_memory_per_block_optin: limits.shared_memory_per_block_optin,
            l2_cache_bytes: self.l2_cache.get() as u32,
            clock_khz: self.clock_khz,
            memory_clock_khz: self.memory_clock_khz,
            memory_bus_bits: self.memory_bus_bits,
            arithmetic: self.arithmetic(),
            measured: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn settings_carry_the_figures_of_the_card() {
        let settings = find("h100").unwrap().device_settings();
        assert_eq!(settings.name, "NVIDIA H100 80GB HBM3");
        assert_eq!(settings.total_bytes, 85_017_755_648);
        assert_eq!(settings.compute_capability, (9, 0));
        assert_eq!(settings.multiprocessors, 132);
        assert_eq!(settings.max_threads_per_multiprocessor, 2048);
        assert_eq!(settings.shared_memory_per_multiprocessor, 233_472);
        assert_eq!(settings.shared_memory_per_block_optin, 232_448);
        assert_eq!(settings.l2_cache_bytes, 52_428_800);
    }

    #[test]
    fn other_memory_changes_nothing_else() {
        let card = find("rtx-4090").unwrap();
        let small = card.with_memory(Bytes::from_gib(8)).device_settings();
        let settings = DeviceSettings {
            total_bytes: 8 << 30,
            ..card.device_settings()
        };
        assert_eq!(small, settings);
    }
}
