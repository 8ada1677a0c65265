//! The table, from the smallest reported memory to the largest.
//!
//! Drivers differ in how much they keep for themselves, by up to 2 % of the card. So `total` is the smallest
//! figure that a Linux driver of CUDA 12 or later was seen to report for the card (an older one where there is
//! none), and the sources say how far others differ: a verdict that holds for the smallest holds for all.

mod ada;
mod ampere;
mod blackwell;
mod hopper;
mod maxwell;
mod pascal;
mod slices;
mod turing;
mod volta;

use std::sync::LazyLock;

use crate::gpu::Gpu;

static CATALOG: LazyLock<Vec<Gpu>> = LazyLock::new(|| {
    let cards = [
        maxwell::GPUS,
        pascal::GPUS,
        volta::GPUS,
        turing::GPUS,
        ampere::GPUS,
        ada::GPUS,
        hopper::GPUS,
        blackwell::GPUS,
    ]
    .concat();
    let slices = slices::of(&cards);
    let mut all = [cards, slices].concat();
    all.sort_by_key(|gpu| (gpu.total, gpu.id));
    all
});

/// All GPUs, from the smallest memory to the largest: the cards, and the slices some of them can be divided into.
pub fn all() -> &'static [Gpu] {
    &CATALOG
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gpu::Certainty;

    fn percent_of_marketing(gpu: &Gpu) -> f64 {
        gpu.total.as_mib() / gpu.marketing_memory.as_mib() * 100.0
    }

    #[test]
    fn every_entry_is_sane() {
        for gpu in all() {
            let percent = percent_of_marketing(gpu);
            assert!((80.0..=101.0).contains(&percent), "{}: {percent}", gpu.id);
            assert!((1..=200).contains(&gpu.multiprocessors), "{}", gpu.id);
            assert!(
                (1_000_000..3_000_000).contains(&gpu.clock_khz),
                "{}",
                gpu.id
            );
            assert!(gpu.memory_clock_khz > 500_000, "{}", gpu.id);
            assert!(gpu.memory_bus_bits % 32 == 0, "{}", gpu.id);
            assert!(u32::try_from(gpu.l2_cache.get()).is_ok(), "{}", gpu.id);
            assert!(!gpu.sources.is_empty(), "{}", gpu.id);
        }
    }

    #[test]
    fn figures_that_are_not_exact_are_whole_mib_and_estimates_say_from_what() {
        for gpu in all() {
            let whole = gpu.total.get() % (1 << 20) == 0;
            assert!(whole || gpu.certainty == Certainty::Exact, "{}", gpu.id);
            if gpu.certainty == Certainty::Estimated {
                assert!(gpu.sources[0].starts_with("total memory"), "{}", gpu.id);
            }
        }
    }

    #[test]
    fn there_are_many_and_each_id_is_its_own() {
        let ids: BTreeSet<&str> = all().iter().map(|gpu| gpu.id).collect();
        assert_eq!(ids.len(), all().len());
        assert!(all().iter().filter(|gpu| gpu.slice_of().is_none()).count() >= 100);
        assert!(all().is_sorted_by_key(|gpu| (gpu.total, gpu.id)));
    }
}
