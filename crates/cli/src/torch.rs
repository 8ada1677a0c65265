//! Which torch the virtual device can answer exactly, and why another is refused.
//!
//! torch's version decides how its allocator, its cuBLAS workspaces and its kernels behave, so a version that was
//! not checked is refused rather than answered roughly.

use crate::failure::Failure;
use crate::python::{Interpreter, TorchProbe};

/// The oldest Python the agent runs under.
const OLDEST_PYTHON: (u32, u32) = (3, 9);

/// A release of torch whose figures were checked, and the libraries its official wheels are built for.
struct Supported {
    release: (u32, u32),
    cuda_major: u32,
    cudnn: &'static str,
    nccl: &'static str,
}

const SUPPORTED: &[Supported] = &[
    Supported {
        release: (2, 11),
        cuda_major: 13,
        cudnn: "9.19.0",
        nccl: "2.28.9",
    },
    Supported {
        release: (2, 15),
        cuda_major: 13,
        cudnn: "9.26.0",
        nccl: "2.30.7",
    },
];

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
}

/// Whether PyTorch's wheels for a CUDA version carry code for a compute capability: those for CUDA 13 begin with 7.5.
pub(crate) fn has_kernels_for(cuda_version: u32, compute_capability: (u32, u32)) -> bool {
    cuda_version < 13_000 || compute_capability >= (7, 5)
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
        let known: Vec<String> = SUPPORTED
            .iter()
            .map(|known| {
                format!(
                    "{}.{} with CUDA {}",
                    known.release.0, known.release.1, known.cuda_major
                )
            })
            .collect();
        Failure::environment(
            "unsupported_torch",
            format!("torch {version} with CUDA {cuda} is not supported yet"),
        )
        .hint(format!("supported: torch {}", known.join(", torch ")))
        .hint("`oomproof venv PATH --torch 2.15.0` makes a light environment with one of them")
    };
    let release = numbers(version);
    let cuda_numbers = numbers(cuda);
    let known = SUPPORTED
        .iter()
        .find(|known| {
            release.starts_with(&[known.release.0, known.release.1])
                && cuda_numbers.first() == Some(&known.cuda_major)
                && !is_prerelease(version)
        })
        .ok_or_else(unsupported)?;
    let [cuda_major, cuda_minor, ..] = cuda_numbers[..] else {
        return Err(unsupported());
    };
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
        cuda_version: cuda_major * 1000 + cuda_minor * 10,
        cudnn_version: library("nvidia-cudnn-cu", known.cudnn),
        nccl_version: library("nvidia-nccl-cu", known.nccl),
    })
}

/// A release such as `2.15.0`, not `2.15.0a0`, `2.15.0.dev20260101` or `2.15.0rc1`.
fn is_prerelease(version: &str) -> bool {
    let public = version.split('+').next().unwrap_or_default();
    public.contains(|c: char| c.is_ascii_alphabetic())
}

/// The numbers in front of a version.
fn numbers(version: &str) -> Vec<u32> {
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

    #[test]
    fn wheels_for_cuda_13_begin_with_turing() {
        assert!(has_kernels_for(13_020, (7, 5)));
        assert!(has_kernels_for(13_000, (12, 0)));
        assert!(!has_kernels_for(13_020, (7, 0)));
        assert!(has_kernels_for(12_080, (7, 0)));
    }

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

    #[test]
    fn the_rest_is_refused() {
        check_refused("2.15.0+cpu", None, None, "cpu_torch");
        check_refused("2.15.0", None, None, "cpu_torch");
        check_refused("2.15.0+rocm7.2", None, Some("7.2.1"), "rocm_torch");
        check_refused("2.14.1+cu130", Some("13.0"), None, "unsupported_torch");
        check_refused("2.1.0+cu121", Some("12.1"), None, "unsupported_torch");
        check_refused("2.11.0+cu128", Some("12.8"), None, "unsupported_torch");
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
