//! How fast a GPU is at most: arithmetic by number format, and memory.
//!
//! Data sheets state rates at different clocks, so rates are the operations of one multiprocessor in one cycle,
//! which the architecture decides, times multiprocessors and boost clock. They are upper bounds: power limits keep
//! most cards below them, laptops far below.

use oomproof_profile::ArithmeticRates;

use crate::gpu::Gpu;
use crate::limits::Architecture;

/// Operations or bytes in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// The number.
    pub const fn per_second(self) -> u64 {
        self.0
    }

    /// In units of 10^12 a second.
    pub fn tera(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

/// Floating-point operations in a second, dense; a multiply-add counts as two. Products of 16-bit and 8-bit
/// numbers are summed in 32 bits, as PyTorch does. `None` where the hardware lacks the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// 64-bit numbers, on tensor cores where those take them.
    pub fp64: Rate,
    /// 32-bit numbers outside the tensor cores.
    pub fp32: Rate,
    /// `allow_tf32`.
    pub tf32: Option<Rate>,
    /// 16-bit numbers; without tensor cores they are computed as 32-bit ones unless twice as fast.
    pub fp16: Rate,
    /// bfloat16.
    pub bf16: Option<Rate>,
    /// 8-bit numbers.
    pub fp8: Option<Rate>,
}

/// Cards that are slowed down: the part of the architecture's rate that is left to tensor cores, and to 64-bit numbers,
/// in 1/1000. The H20's data sheet states 148 TFLOPS where 78 multiprocessors at its clock would reach 632, and 1 TFLOPS
/// in 64 bits where they would reach 40.
const SLOWED: &[(&str, u64, u64)] = &[("h20-96gb", 234, 25)];

/// Operations of one multiprocessor in one cycle.
struct PerCycle {
    fp64: u64,
    fp32: u64,
    /// 16-bit matrix products on tensor cores, or 16-bit arithmetic where there are none.
    half: u64,
    tf32: Option<u64>,
    bf16: bool,
    fp8: bool,
}

impl Gpu {
    /// Bytes the memory moves in a second at most.
    pub fn memory_bandwidth(&self) -> Rate {
        // Both edges of the clock carry data.
        let bits_per_cycle = 2 * u64::from(self.memory_bus_bits);
        Rate(u64::from(self.memory_clock_khz) * 1000 * bits_per_cycle / 8)
    }

    /// Arithmetic at the boost clock.
    pub fn rates(&self) -> Rates {
        let one = self.per_cycle();
        let cycles = u64::from(self.multiprocessors) * u64::from(self.clock_khz) * 1000;
        let (left, left_fp64) = SLOWED
            .iter()
            .find(|(id, ..)| *id == self.id)
            .map_or((1000, 1000), |&(_, left, left_fp64)| (left, left_fp64));
        let tensor = |operations: u64| Rate(cycles / 1000 * operations * left);
        Rates {
            fp64: Rate(cycles / 1000 * one.fp64 * left_fp64),
            fp32: Rate(cycles * one.fp32),
            tf32: one.tf32.map(tensor),
            fp16: tensor(one.half),
            bf16: one.bf16.then(|| tensor(one.half)),
            fp8: one.fp8.then(|| tensor(one.half * 2)),
        }
    }

    /// Arithmetic for the clock of the virtual device: what stands in for a format that the hardware lacks is the
    /// next wider one.
    pub(crate) fn arithmetic(&self) -> ArithmeticRates {
        let rates = self.rates();
        let or = |rate: Option<Rate>, wider: Rate| rate.unwrap_or(wider).per_second();
        ArithmeticRates {
            fp64: rates.fp64.per_second(),
            fp32: rates.fp32.per_second(),
            tf32: or(rates.tf32, rates.fp32),
            fp16: rates.fp16.per_second(),
            bf16: or(rates.bf16, rates.fp32),
            fp8: or(rates.fp8, rates.fp16),
        }
    }

    fn per_cycle(&self) -> PerCycle {
        let plain = |fp64, fp32, half| PerCycle {
            fp64,
            fp32,
            half,
            tf32: None,
            bf16: false,
            fp8: false,
        };
        let tensor = |fp64, fp32, half, fp8| PerCycle {
            fp64,
            fp32,
            half,
            tf32: Some(half / 2),
            bf16: true,
            fp8,
        };
        // The GeForce cards sum in 32 bits at half the rate of the same chip elsewhere.
        let geforce = self.name.contains("GeForce");
        let slowed = |operations: u64| if geforce { operations / 2 } else { operations };
        match self.architecture {
            Architecture::Maxwell | Architecture::Pascal61 => plain(8, 256, 256),
            Architecture::Pascal60 => plain(64, 128, 256),
            Architecture::Volta => plain(64, 128, 1024),
            Architecture::Turing if self.name.contains("GTX") => plain(4, 128, 256),
            Architecture::Turing => plain(4, 128, slowed(1024)),
            Architecture::Ampere80 => tensor(128, 128, 2048, false),
            Architecture::Ampere86 => tensor(4, 256, slowed(1024), false),
            Architecture::Ada | Architecture::Blackwell120 => tensor(4, 256, slowed(1024), true),
            Architecture::Hopper => tensor(256, 256, 4096, true),
            Architecture::Blackwell100 => tensor(128, 256, 8192, true),
            Architecture::Blackwell103 => tensor(4, 256, 8192, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::find;

    /// What NVIDIA's data sheets and white papers state, in TFLOPS and GB/s.
    fn check(name: &str, fp32: f64, fp16: f64, gigabytes: f64) {
        let gpu = find(name).unwrap();
        let rates = gpu.rates();
        let near = |found: f64, stated: f64| (found / stated - 1.0).abs() < 0.09;
        assert!(near(rates.fp32.tera(), fp32), "{name}: {rates:?}");
        assert!(near(rates.fp16.tera(), fp16), "{name}: {rates:?}");
        let bandwidth = gpu.memory_bandwidth().tera() * 1000.0;
        assert!(near(bandwidth, gigabytes), "{name}: {bandwidth}");
    }

    #[test]
    fn are_those_of_the_data_sheets() {
        check("gtx-titan-x", 6.6, 6.6, 336.0);
        check("p100", 9.5, 19.0, 732.0);
        check("p40", 11.8, 11.8, 347.0);
        check("v100-16gb", 15.7, 125.0, 900.0);
        check("t4", 8.1, 65.0, 320.0);
        check("2080 ti", 13.4, 53.8, 616.0);
        check("gtx-1660-ti", 5.4, 10.9, 288.0);
        check("a100-80gb", 19.5, 312.0, 2039.0);
        check("a30", 10.3, 165.0, 933.0);
        check("3090", 35.6, 71.0, 936.0);
        check("a40", 37.4, 149.7, 696.0);
        check("l4", 30.3, 121.0, 300.0);
        check("l40s", 91.6, 362.0, 864.0);
        check("4090", 82.6, 165.2, 1008.0);
        check("h100", 67.0, 989.0, 3350.0);
        // The data sheet says 44 TFLOPS in 32 bits, for which the clock would have to be 2.2 GHz.
        check("h20", 39.5, 148.0, 4000.0);
        check("h200", 67.0, 989.0, 4800.0);
        check("b200", 75.0, 2250.0, 7700.0);
        check("5090", 104.8, 209.5, 1792.0);
        check("rtx-pro-6000-workstation", 125.0, 503.8, 1792.0);
    }

    #[test]
    fn double_precision_is_that_of_the_data_sheets() {
        let check = |name: &str, stated: f64| {
            let found = find(name).unwrap().rates().fp64.tera();
            assert!((found / stated - 1.0).abs() < 0.09, "{name}: {found}");
        };
        check("p100", 4.7);
        check("v100-16gb", 7.8);
        check("a100-80gb", 19.5);
        check("a30", 10.3);
        check("4090", 1.29);
        check("h100", 67.0);
        check("h20", 1.0);
        check("b200", 37.0);
        check("rtx-pro-6000-workstation", 1.97);
    }

    #[test]
    fn what_a_card_lacks_is_done_in_the_next_wider_format() {
        let check = |name: &str| {
            let gpu = find(name).unwrap();
            let (rates, arithmetic) = (gpu.rates(), gpu.arithmetic());
            [
                arithmetic.tf32 == rates.fp32.per_second(),
                arithmetic.bf16 == rates.fp32.per_second(),
                arithmetic.fp8 == rates.fp16.per_second(),
            ]
        };
        assert_eq!(check("t4"), [true, true, true]);
        assert_eq!(check("a100-80gb"), [false, false, true]);
        assert_eq!(check("h100"), [false, false, false]);
    }

    #[test]
    fn formats_come_with_their_generations() {
        fn check(name: &str, tf32: bool, bf16: bool, fp8: bool) {
            let rates = find(name).unwrap().rates();
            let found = (
                rates.tf32.is_some(),
                rates.bf16.is_some(),
                rates.fp8.is_some(),
            );
            assert_eq!(found, (tf32, bf16, fp8), "{name}");
        }
        check("p40", false, false, false);
        check("t4", false, false, false);
        check("a100-80gb", true, true, false);
        check("4090", true, true, true);
        check("h100", true, true, true);
    }

    #[test]
    fn a_slice_has_its_part() {
        let (card, slice) = (
            find("a100-80gb").unwrap(),
            find("a100-80gb:3g.40gb").unwrap(),
        );
        assert_eq!(
            slice.memory_bandwidth().per_second() * 2,
            card.memory_bandwidth().per_second()
        );
        assert!(slice.rates().fp16 < card.rates().fp16);
    }
}
