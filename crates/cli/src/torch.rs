//! Which torch the virtual device can answer, and why another is refused.
//!
//! torch's version decides how its allocator, its cuBLAS workspaces and its kernels behave, so a minor version that
//! was not tried is refused rather than answered roughly.

mod releases;

use crate::failure::Failure;
use crate::python::{Interpreter, TorchProbe};

pub(crate) use releases::has_kernels_for;
use releases::{CUDA_MAJORS, RELEASES, Release, numbers, of_the_minor};

/// The oldest Python the agent runs under.
const OLDEST_PYTHON: (u32, u32) = (3, 9);

/// A torch that the virtual device can answer, its versions in the form CUDA's own functions give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Torch {
    /// Such as `2.15.0+cu132`.
    pub version: String,
    /// Such as `13.2`.
    pub cuda: String,
    /// Such as 13020.
    pub cuda_version: u32,
    /// Such as 92600.
    pub cudnn_version: u32,
    /// Such as 23007.
    pub nccl_version: u32,
    /// What is assumed of it because this very build was not tried.
    pub assumption: Option<String>,
}

impl Torch {
    /// The major version of CUDA.
    pub(crate) const fn cuda_major(&self) -> u32 {
        self.cuda_version / 1000
    }
}

/// The torch of `interpreter`, or the reason why it cannot be used.
pub(crate) fn usable(interpreter: &Interpreter) -> Result<Torch, Failure> {
    let (major, minor, patch) = interpreter.probe.version;
    let interpreter_path = interpreter.path.display();
    if (major, minor) < OLDEST_PYTHON {
        return Err(Failure::environment(
            "python_too_old",
            format!("`{interpreter_path}` is Python {major}.{minor}.{patch}, and 3.9 is the oldest that is supported"),
        )
        .hint("name a newer interpreter with `--python PATH`"));
    }
    let Some(torch) = &interpreter.probe.torch else {
        return Err(
            Failure::environment("no_torch", format!("`{interpreter_path}` has no torch"))
                .hint("activate the environment that holds it, or name its interpreter with `--python PATH`")
                .hint("`oomproof venv PATH` makes a light environment with torch"),
        );
    };
    judge(torch)
}

fn judge(torch: &TorchProbe) -> Result<Torch, Failure> {
    let version = &torch.version;
    if let Some(hip) = &torch.hip {
        return Err(Failure::environment(
            "rocm_torch",
            format!("torch {version} is built for ROCm {hip}, and the virtual GPU answers CUDA"),
        )
        .hint("`oomproof venv PATH` makes a light environment with a CUDA build"));
    }
    let Some(cuda) = torch.cuda.as_ref().filter(|_| !version.ends_with("+cpu")) else {
        return Err(Failure::environment(
            "cpu_torch",
            format!("torch {version} is built for the CPU only, and the memory of a GPU needs a CUDA build"),
        )
        .hint("no GPU is needed for it: `oomproof venv PATH` makes a light environment with a CUDA build"));
    };
    let unsupported = || {
        Failure::environment(
            "unsupported_torch",
            format!("torch {version} with CUDA {cuda} is not supported"),
        )
        .hint(supported())
        .hint("`oomproof venv PATH --torch 2.15.0` makes a light environment with one of them")
    };
    let [cuda_major, cuda_minor, ..] = numbers(cuda)[..] else {
        return Err(unsupported());
    };
    let known = of_the_minor(version)
        .filter(|_| CUDA_MAJORS.contains(&cuda_major))
        .ok_or_else(unsupported)?;
    let cuda_version = cuda_major * 1000 + cuda_minor * 10;
    let library = |name: &str, official: &str| {
        let pinned = torch
            .requires
            .iter()
            .find_map(|requirement| pinned(requirement, name));
        packed(pinned.unwrap_or(official))
    };
    Ok(Torch {
        version: version.clone(),
        cuda: cuda.clone(),
        cuda_version,
        cudnn_version: library("nvidia-cudnn-cu", known.cudnn),
        nccl_version: library("nvidia-nccl-cu", known.nccl),
        assumption: (!known.is(version, cuda_version)).then(|| untested(known, version, cuda)),
    })
}

fn untested(known: &Release, version: &str, cuda: &str) -> String {
    let (tried_major, tried_minor) = (known.cuda_version / 1000, known.cuda_version % 1000 / 10);
    format!(
        "torch {version} with CUDA {cuda} was not tried; it is taken to behave like {} with CUDA {tried_major}.{tried_minor}",
        known.version
    )
}

/// Whether a version that somebody typed is of a known minor.
pub(crate) fn has_release(version: &str) -> bool {
    of_the_minor(version).is_some()
}

/// One sentence about what can be used.
pub(crate) fn supported() -> String {
    let ends = [RELEASES.first(), RELEASES.last()].map(|end| {
        let (major, minor) = end.map_or((0, 0), |release| release.minor);
        format!("{major}.{minor}")
    });
    format!(
        "supported: torch {} to {}, built for CUDA 12 or 13",
        ends[0], ends[1]
    )
}

/// The version in a requirement such as `nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"`.
fn pinned<'a>(requirement: &'a str, name: &str) -> Option<&'a str> {
    let (package, version) = requirement.split(';').next()?.split_once("==")?;
    package.trim().starts_with(name).then(|| version.trim())
}

/// Both `cudnnGetVersion` and `ncclGetVersion` give major, minor and patch with two digits for each of the last two.
fn packed(version: &str) -> u32 {
    let mut parts = numbers(version).into_iter().chain(std::iter::repeat(0));
    let mut next = || parts.next().unwrap_or_default();
    next() * 10_000 + next() * 100 + next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(
        version: &str,
        cuda: Option<&str>,
        hip: Option<&str>,
        requires: &[&str],
    ) -> TorchProbe {
        TorchProbe {
            version: version.into(),
            cuda: cuda.map(Into::into),
            hip: hip.map(Into::into),
            requires: requires.iter().map(|&text| text.into()).collect(),
        }
    }

    fn check(torch: &TorchProbe, expected: (u32, u32, u32)) {
        let torch = judge(torch).unwrap();
        assert_eq!(
            (torch.cuda_version, torch.cudnn_version, torch.nccl_version),
            expected
        );
    }

    fn check_refused(version: &str, cuda: Option<&str>, hip: Option<&str>, id: &str) {
        let failure = judge(&probe(version, cuda, hip, &[])).unwrap_err();
        assert_eq!(failure.id, id, "{version}");
        assert!(failure.text.contains(version));
        assert!(!failure.hints.is_empty());
    }

    #[test]
    fn versions_of_libraries_come_from_the_metadata() {
        check(
            &probe(
                "2.15.0+cu132",
                Some("13.2"),
                None,
                &[
                    "filelock",
                    "nvidia-cudnn-cu13==9.27.1.51; platform_system == \"Linux\"",
                    "nvidia-nccl-cu13==2.31.4; platform_system == \"Linux\"",
                ],
            ),
            (13_020, 92_701, 23_104),
        );
    }

    #[test]
    fn without_metadata_those_of_the_official_wheels_are_taken() {
        check(
            &probe("2.15.0", Some("13.2"), None, &[]),
            (13_020, 92_600, 23_007),
        );
        check(
            &probe("2.11.0+cu130", Some("13.0"), None, &[]),
            (13_000, 91_900, 22_809),
        );
        check(
            &probe("2.11.1+local.build", Some("13.0"), None, &[]),
            (13_000, 91_900, 22_809),
        );
    }

    fn check_assumed(version: &str, cuda: &str, expected: Option<&str>) {
        let torch = judge(&probe(version, Some(cuda), None, &[])).unwrap();
        assert_eq!(torch.assumption.as_deref(), expected);
    }

    #[test]
    fn another_build_of_a_known_minor_is_accepted_and_named() {
        check_assumed("2.15.0+cu132", "13.2", None);
        check_assumed("2.6.0", "12.4", None);
        check_assumed(
            "2.11.0+cu128",
            "12.8",
            Some(
                "torch 2.11.0+cu128 with CUDA 12.8 was not tried; it is taken to behave like 2.11.0 with CUDA 13.0",
            ),
        );
        check_assumed(
            "2.6.1",
            "12.4",
            Some(
                "torch 2.6.1 with CUDA 12.4 was not tried; it is taken to behave like 2.6.0 with CUDA 12.4",
            ),
        );
    }

    #[test]
    fn the_rest_is_refused() {
        check_refused("2.15.0+cpu", None, None, "cpu_torch");
        check_refused("2.15.0", None, None, "cpu_torch");
        check_refused("2.15.0+rocm7.2", None, Some("7.2.1"), "rocm_torch");
        check_refused("2.4.0+cu118", Some("11.8"), None, "unsupported_torch");
        check_refused("2.16.0", Some("13.2"), None, "unsupported_torch");
        check_refused("2.1.0+cu121", Some("12.1"), None, "unsupported_torch");
        check_refused("2.15.0a0+git1234", Some("13.2"), None, "unsupported_torch");
        check_refused(
            "2.15.0.dev20260901+cu132",
            Some("13.2"),
            None,
            "unsupported_torch",
        );
        check_refused("2.150.0", Some("13.2"), None, "unsupported_torch");
        check_refused("None", Some("13.2"), None, "unsupported_torch");
    }
}
