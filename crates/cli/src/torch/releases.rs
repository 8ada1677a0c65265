//! The releases of torch that the virtual device was tried with.
//!
//! For each minor version one wheel was run, the one that a package index gives by default. Another patch or another
//! CUDA of a known minor has the same allocator, so it is accepted; that it was not tried is said.

/// A wheel that was tried.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub minor: (u32, u32),
    /// Its version without the local part.
    pub version: &'static str,
    /// The CUDA it is built for, as CUDA writes it: 13020 for 13.2.
    pub cuda_version: u32,
    /// The cuDNN and NCCL that its metadata pins.
    pub cudnn: &'static str,
    pub nccl: &'static str,
    /// The compute capabilities, as major times ten plus minor, that it carries machine code for.
    code: &'static [u32],
}

/// The majors of CUDA for which there are stand-ins.
pub(crate) const CUDA_MAJORS: [u32; 2] = [12, 13];

const MAXWELL_TO_HOPPER: &[u32] = &[50, 60, 70, 75, 80, 86, 90];
const VOLTA_TO_BLACKWELL: &[u32] = &[70, 75, 80, 86, 90, 100, 120];
const TURING_TO_BLACKWELL: &[u32] = &[75, 80, 86, 90, 100, 120];

pub(crate) const RELEASES: &[Release] = &[
    Release {
        minor: (2, 4),
        version: "2.4.1",
        cuda_version: 12_010,
        cudnn: "9.1.0",
        nccl: "2.20.5",
        code: MAXWELL_TO_HOPPER,
    },
    Release {
        minor: (2, 5),
        version: "2.5.1",
        cuda_version: 12_040,
        cudnn: "9.1.0",
        nccl: "2.21.5",
        code: MAXWELL_TO_HOPPER,
    },
    Release {
        minor: (2, 6),
        version: "2.6.0",
        cuda_version: 12_040,
        cudnn: "9.1.0",
        nccl: "2.21.5",
        code: MAXWELL_TO_HOPPER,
    },
    Release {
        minor: (2, 7),
        version: "2.7.1",
        cuda_version: 12_060,
        cudnn: "9.5.1",
        nccl: "2.26.2",
        code: MAXWELL_TO_HOPPER,
    },
    Release {
        minor: (2, 8),
        version: "2.8.0",
        cuda_version: 12_080,
        cudnn: "9.10.2",
        nccl: "2.27.3",
        code: VOLTA_TO_BLACKWELL,
    },
    Release {
        minor: (2, 9),
        version: "2.9.1",
        cuda_version: 12_080,
        cudnn: "9.10.2",
        nccl: "2.27.5",
        code: VOLTA_TO_BLACKWELL,
    },
    Release {
        minor: (2, 10),
        version: "2.10.0",
        cuda_version: 12_080,
        cudnn: "9.10.2",
        nccl: "2.27.5",
        code: VOLTA_TO_BLACKWELL,
    },
    Release {
        minor: (2, 11),
        version: "2.11.0",
        cuda_version: 13_000,
        cudnn: "9.19.0",
        nccl: "2.28.9",
        code: TURING_TO_BLACKWELL,
    },
    Release {
        minor: (2, 12),
        version: "2.12.1",
        cuda_version: 13_000,
        cudnn: "9.20.0",
        nccl: "2.29.7",
        code: TURING_TO_BLACKWELL,
    },
    Release {
        minor: (2, 13),
        version: "2.13.0",
        cuda_version: 13_000,
        cudnn: "9.20.0",
        nccl: "2.29.7",
        code: TURING_TO_BLACKWELL,
    },
    Release {
        minor: (2, 14),
        version: "2.14.1",
        cuda_version: 13_000,
        cudnn: "9.24.0",
        nccl: "2.30.7",
        code: TURING_TO_BLACKWELL,
    },
    Release {
        minor: (2, 15),
        version: "2.15.0",
        cuda_version: 13_020,
        cudnn: "9.26.0",
        nccl: "2.30.7",
        code: TURING_TO_BLACKWELL,
    },
];

/// The tried release with the minor version of `version`, such as `2.15.0+cu132`; none for another minor, and none
/// for what is no release, such as `2.15.0a0`, `2.15.0.dev20260101` or `2.15.0rc1`.
pub(crate) fn of_the_minor(version: &str) -> Option<&'static Release> {
    let public = public(version);
    if public.contains(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let [major, minor, ..] = numbers(public)[..] else {
        return None;
    };
    RELEASES
        .iter()
        .find(|release| release.minor == (major, minor))
}

impl Release {
    /// Whether this very wheel was tried.
    pub(crate) fn is(&self, version: &str, cuda_version: u32) -> bool {
        public(version) == self.version && cuda_version == self.cuda_version
    }
}

/// Whether the wheel has kernels for a compute capability: machine code of the same major and no later minor.
///
/// PyTorch's wheels hold no intermediate code that a driver could translate for a later architecture. Of a wheel for
/// another CUDA than the tried one, what that CUDA's wheels have is taken.
pub(crate) fn has_kernels_for(
    version: &str,
    cuda_version: u32,
    (major, minor): (u32, u32),
) -> bool {
    let code = of_the_minor(version)
        .filter(|release| release.cuda_version == cuda_version)
        .map_or_else(|| usual_code(cuda_version), |release| release.code);
    code.iter()
        .any(|have| have / 10 == major && have % 10 <= minor)
}

fn usual_code(cuda_version: u32) -> &'static [u32] {
    match cuda_version {
        13_000.. => TURING_TO_BLACKWELL,
        12_080.. => VOLTA_TO_BLACKWELL,
        _ => MAXWELL_TO_HOPPER,
    }
}

/// A version without its local part, such as `+cu132`.
fn public(version: &str) -> &str {
    version.split('+').next().unwrap_or_default()
}

/// The numbers in front of a version.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|part| {
            let digits = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..digits].parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, cuda_version: u32, capability: (u32, u32), expected: bool) {
        assert_eq!(
            has_kernels_for(version, cuda_version, capability),
            expected,
            "{version} {cuda_version} {capability:?}"
        );
    }

    #[test]
    fn each_wheel_runs_on_the_cards_it_has_code_for() {
        check("2.15.0+cu132", 13_020, (7, 5), true);
        check("2.15.0+cu132", 13_020, (7, 0), false);
        check("2.15.0+cu132", 13_020, (12, 1), true);
        check("2.15.0+cu128", 12_080, (7, 0), true);
        check("2.15.0+cu126", 12_060, (6, 1), true);
        check("2.15.0+cu126", 12_060, (12, 0), false);
        check("2.6.0+cu124", 12_040, (5, 2), true);
        check("2.6.0+cu124", 12_040, (8, 9), true);
        check("2.6.0+cu124", 12_040, (3, 5), false);
        check("2.6.0+cu124", 12_040, (10, 0), false);
        check("2.6.0+cu124", 12_040, (12, 0), false);
    }

    #[test]
    fn minors_are_told_from_longer_numbers() {
        let of = |version| of_the_minor(version).map(|release| release.version);
        assert_eq!(of("2.15.3+cu132"), Some("2.15.0"));
        assert_eq!(of("2.150.0"), None);
        assert_eq!(of("2.15.0rc1"), None);
        assert_eq!(of("None"), None);
    }
}
