//! Slices of cards that can be divided (MIG), each of which programs see as a GPU of its own.
//!
//! A slice has memory, cache and bus in eighths or quarters of its card and multiprocessors in sevenths or quarters,
//! but not exactly so: what the driver keeps for itself differs with the profile, so that the figures are listed. A
//! profile that takes the whole card is not: that is the card.

use oomproof_units::Bytes;

use crate::gpu::{Certainty, Gpu};

struct Slice {
    card: &'static str,
    id: &'static str,
    name: &'static str,
    aliases: &'static [&'static str],
    /// Gigabytes in the name of the profile.
    sold_gb: u64,
    total: Bytes,
    multiprocessors: u32,
    /// The part of the card's cache and bus.
    share: (u32, u32),
    source: &'static str,
}

const LISTED: &str = "total memory, multiprocessors: public output of `nvidia-smi mig -lgip`, which prints two decimals of GiB; programs on a 1g.10gb slice of an A100 80GB report the figure listed for it";
const H200_2G: &str = "total memory: estimated from the 1g.18gb profile, which has half of it and lists 16.00 GiB; multiprocessors: public report";
const H200_3G: &str =
    "total memory: estimated from a public report of 69.8 GiB; multiprocessors: the same";

#[rustfmt::skip]
static SLICES: &[Slice] = &[
    Slice { card: "a100-40gb", id: "a100-40gb:1g.5gb", name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", aliases: &["1g.5gb", "a100:1g.5gb"], sold_gb: 5, total: Bytes::from_mib(4864), multiprocessors: 14, share: (1, 8), source: LISTED },
    Slice { card: "a100-40gb", id: "a100-40gb:1g.10gb", name: "NVIDIA A100-SXM4-40GB MIG 1g.10gb", aliases: &["1g.10gb", "a100:1g.10gb"], sold_gb: 10, total: Bytes::from_mib(9984), multiprocessors: 14, share: (2, 8), source: LISTED },
    Slice { card: "a100-40gb", id: "a100-40gb:2g.10gb", name: "NVIDIA A100-SXM4-40GB MIG 2g.10gb", aliases: &["2g.10gb", "a100:2g.10gb"], sold_gb: 10, total: Bytes::from_mib(9984), multiprocessors: 28, share: (2, 8), source: LISTED },
    Slice { card: "a100-40gb", id: "a100-40gb:3g.20gb", name: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", aliases: &["3g.20gb", "a100:3g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 42, share: (4, 8), source: LISTED },
    Slice { card: "a100-40gb", id: "a100-40gb:4g.20gb", name: "NVIDIA A100-SXM4-40GB MIG 4g.20gb", aliases: &["4g.20gb", "a100:4g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 56, share: (4, 8), source: LISTED },
    Slice { card: "a100-80gb", id: "a100-80gb:1g.10gb", name: "NVIDIA A100-SXM4-80GB MIG 1g.10gb", aliases: &["1g.10gb", "a100:1g.10gb"], sold_gb: 10, total: Bytes::from_mib(9728), multiprocessors: 14, share: (1, 8), source: LISTED },
    Slice { card: "a100-80gb", id: "a100-80gb:1g.20gb", name: "NVIDIA A100-SXM4-80GB MIG 1g.20gb", aliases: &["1g.20gb", "a100:1g.20gb"], sold_gb: 20, total: Bytes::from_mib(19_968), multiprocessors: 14, share: (2, 8), source: LISTED },
    Slice { card: "a100-80gb", id: "a100-80gb:2g.20gb", name: "NVIDIA A100-SXM4-80GB MIG 2g.20gb", aliases: &["2g.20gb", "a100:2g.20gb"], sold_gb: 20, total: Bytes::from_mib(19_968), multiprocessors: 28, share: (2, 8), source: LISTED },
    Slice { card: "a100-80gb", id: "a100-80gb:3g.40gb", name: "NVIDIA A100-SXM4-80GB MIG 3g.40gb", aliases: &["3g.40gb", "a100:3g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_192), multiprocessors: 42, share: (4, 8), source: LISTED },
    Slice { card: "a100-80gb", id: "a100-80gb:4g.40gb", name: "NVIDIA A100-SXM4-80GB MIG 4g.40gb", aliases: &["4g.40gb", "a100:4g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_192), multiprocessors: 56, share: (4, 8), source: LISTED },
    Slice { card: "a30", id: "a30:1g.6gb", name: "NVIDIA A30 MIG 1g.6gb", aliases: &["1g.6gb"], sold_gb: 6, total: Bytes::from_mib(5952), multiprocessors: 14, share: (1, 4), source: LISTED },
    Slice { card: "a30", id: "a30:2g.12gb", name: "NVIDIA A30 MIG 2g.12gb", aliases: &["2g.12gb"], sold_gb: 12, total: Bytes::from_mib(11_968), multiprocessors: 28, share: (2, 4), source: LISTED },
    Slice { card: "h100-80gb", id: "h100-80gb:1g.10gb", name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", aliases: &["1g.10gb", "h100:1g.10gb"], sold_gb: 10, total: Bytes::from_mib(9984), multiprocessors: 16, share: (1, 8), source: LISTED },
    Slice { card: "h100-80gb", id: "h100-80gb:1g.20gb", name: "NVIDIA H100 80GB HBM3 MIG 1g.20gb", aliases: &["1g.20gb", "h100:1g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 26, share: (2, 8), source: LISTED },
    Slice { card: "h100-80gb", id: "h100-80gb:2g.20gb", name: "NVIDIA H100 80GB HBM3 MIG 2g.20gb", aliases: &["2g.20gb", "h100:2g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 32, share: (2, 8), source: LISTED },
    Slice { card: "h100-80gb", id: "h100-80gb:3g.40gb", name: "NVIDIA H100 80GB HBM3 MIG 3g.40gb", aliases: &["3g.40gb", "h100:3g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_448), multiprocessors: 60, share: (4, 8), source: LISTED },
    Slice { card: "h100-80gb", id: "h100-80gb:4g.40gb", name: "NVIDIA H100 80GB HBM3 MIG 4g.40gb", aliases: &["4g.40gb", "h100:4g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_448), multiprocessors: 64, share: (4, 8), source: LISTED },
    Slice { card: "h100-pcie", id: "h100-pcie:1g.20gb", name: "NVIDIA H100 PCIe MIG 1g.20gb", aliases: &["1g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 14, share: (2, 8), source: LISTED },
    Slice { card: "h100-pcie", id: "h100-pcie:2g.20gb", name: "NVIDIA H100 PCIe MIG 2g.20gb", aliases: &["2g.20gb"], sold_gb: 20, total: Bytes::from_mib(20_096), multiprocessors: 30, share: (2, 8), source: LISTED },
    Slice { card: "h100-pcie", id: "h100-pcie:3g.40gb", name: "NVIDIA H100 PCIe MIG 3g.40gb", aliases: &["3g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_448), multiprocessors: 46, share: (4, 8), source: LISTED },
    Slice { card: "h100-pcie", id: "h100-pcie:4g.40gb", name: "NVIDIA H100 PCIe MIG 4g.40gb", aliases: &["4g.40gb"], sold_gb: 40, total: Bytes::from_mib(40_448), multiprocessors: 62, share: (4, 8), source: LISTED },
    Slice { card: "h100-nvl", id: "h100-nvl:1g.12gb", name: "NVIDIA H100 NVL MIG 1g.12gb", aliases: &["1g.12gb"], sold_gb: 12, total: Bytes::from_mib(10_880), multiprocessors: 16, share: (1, 8), source: LISTED },
    Slice { card: "h100-nvl", id: "h100-nvl:1g.24gb", name: "NVIDIA H100 NVL MIG 1g.24gb", aliases: &["1g.24gb"], sold_gb: 24, total: Bytes::from_mib(22_016), multiprocessors: 26, share: (2, 8), source: LISTED },
    Slice { card: "h100-nvl", id: "h100-nvl:2g.24gb", name: "NVIDIA H100 NVL MIG 2g.24gb", aliases: &["2g.24gb"], sold_gb: 24, total: Bytes::from_mib(22_016), multiprocessors: 32, share: (2, 8), source: LISTED },
    Slice { card: "h100-nvl", id: "h100-nvl:3g.47gb", name: "NVIDIA H100 NVL MIG 3g.47gb", aliases: &["3g.47gb"], sold_gb: 47, total: Bytes::from_mib(47_232), multiprocessors: 60, share: (4, 8), source: LISTED },
    Slice { card: "h200", id: "h200:1g.18gb", name: "NVIDIA H200 MIG 1g.18gb", aliases: &["1g.18gb"], sold_gb: 18, total: Bytes::from_mib(16_384), multiprocessors: 16, share: (1, 8), source: LISTED },
    Slice { card: "h200", id: "h200:2g.35gb", name: "NVIDIA H200 MIG 2g.35gb", aliases: &["2g.35gb"], sold_gb: 35, total: Bytes::from_mib(33_280), multiprocessors: 32, share: (2, 8), source: H200_2G },
    Slice { card: "h200", id: "h200:3g.71gb", name: "NVIDIA H200 MIG 3g.71gb", aliases: &["3g.71gb"], sold_gb: 71, total: Bytes::from_mib(71_424), multiprocessors: 60, share: (4, 8), source: H200_3G },
    Slice { card: "rtx-pro-6000-server", id: "rtx-pro-6000-server:1g.24gb", name: "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", aliases: &["1g.24gb"], sold_gb: 24, total: Bytes::from_mib(23_680), multiprocessors: 46, share: (1, 4), source: LISTED },
    Slice { card: "rtx-pro-6000-server", id: "rtx-pro-6000-server:2g.48gb", name: "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb", aliases: &["2g.48gb"], sold_gb: 48, total: Bytes::from_mib(47_616), multiprocessors: 94, share: (2, 4), source: LISTED },
];

/// The slices of these cards.
pub(super) fn of(cards: &[Gpu]) -> Vec<Gpu> {
    let slice_of = |slice: &'static Slice| {
        let card = cards.iter().find(|card| card.id == slice.card)?;
        let (part, whole) = slice.share;
        Some(Gpu {
            id: slice.id,
            name: slice.name,
            aliases: slice.aliases,
            marketing_memory: Bytes::from_gib(slice.sold_gb),
            total: slice.total,
            certainty: Certainty::Estimated,
            multiprocessors: slice.multiprocessors,
            l2_cache: Bytes::new(card.l2_cache.get() * u64::from(part) / u64::from(whole)),
            memory_bus_bits: card.memory_bus_bits * part / whole,
            sources: std::slice::from_ref(&slice.source),
            ..card.clone()
        })
    };
    SLICES.iter().filter_map(slice_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{all, find};

    #[test]
    fn every_slice_is_a_part_of_its_card() {
        for slice in SLICES {
            let card = find(slice.card).unwrap();
            let gpu = find(slice.id).unwrap();
            assert_eq!(gpu.slice_of(), Some(card.id), "{}", gpu.id);
            assert!(
                gpu.total.get() <= card.total.get() / 2 + (1 << 28),
                "{}",
                gpu.id
            );
            assert!(gpu.multiprocessors < card.multiprocessors, "{}", gpu.id);
            assert_eq!(gpu.architecture, card.architecture);
            assert!(gpu.name.starts_with(card.name), "{}", gpu.id);
        }
        assert_eq!(
            all().iter().filter(|gpu| gpu.slice_of().is_some()).count(),
            SLICES.len()
        );
    }
}
