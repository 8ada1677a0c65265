//! The libraries there are, by CUDA version, in the order in which they are to be loaded.
//!
//! A library stands after those that the real one links, so that a reader of the order sees what needs what.
//! Libraries whose SONAME carries no CUDA version serve every version with the union of their names.

use std::sync::LazyLock;

use crate::Library;

/// Which versions of CUDA a table serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cuda {
    Any,
    Only(u32),
}

impl Cuda {
    fn includes(self, major: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == major,
        }
    }
}

macro_rules! tables {
    ($($cuda:expr => $($soname:literal)+;)+) => {
        &[$($(($cuda, include_str!(concat!("../tables/", $soname, ".txt"))),)+)+]
    };
}

const TABLES: &[(Cuda, &str)] = {
    use Cuda::{Any, Only};
    tables! {
        Any => "libcuda.so.1" "libnvidia-ml.so.1";
        Only(12) => "libcudart.so.12" "libnvrtc.so.12" "libnvJitLink.so.12" "libcublasLt.so.12" "libcublas.so.12";
        Only(13) => "libcudart.so.13" "libnvrtc.so.13" "libnvJitLink.so.13" "libcublasLt.so.13" "libcublas.so.13";
        Any => "libcurand.so.10" "libcusparse.so.12" "libcusparseLt.so.0";
        Only(12) => "libcufft.so.11" "libcusolver.so.11" "libcusolverMg.so.11";
        Only(13) => "libcufft.so.12" "libcusolver.so.12" "libcusolverMg.so.12";
        Any => "libcudnn_graph.so.9" "libcudnn_ops.so.9" "libcudnn_engines_precompiled.so.9"
            "libcudnn_engines_runtime_compiled.so.9" "libcudnn_engines_tensor_ir.so.9" "libcudnn_heuristic.so.9"
            "libcudnn_cnn.so.9" "libcudnn_adv.so.9" "libcudnn_ext.so.9" "libcudnn.so.9";
        Any => "libnccl.so.2" "libcufile.so.0" "libnvshmem_host.so.3";
        Only(12) => "libcupti.so.12" "libnvToolsExt.so.1" "libnvjpeg.so.12"
            "libnppc.so.12" "libnppicc.so.12" "libnppig.so.12";
        Only(13) => "libcupti.so.13" "libnvjpeg.so.13" "libnppc.so.13" "libnppicc.so.13" "libnppig.so.13";
    }
};

static LIBRARIES: LazyLock<Vec<(Cuda, Library)>> = LazyLock::new(|| {
    TABLES
        .iter()
        .map(|(cuda, table)| (*cuda, table.parse().expect("a test parses every table")))
        .collect()
});

/// The libraries of one major version of CUDA, in load order; none for a version that is not known.
pub fn libraries(cuda_major: u32) -> impl Iterator<Item = &'static Library> {
    let known = LIBRARIES
        .iter()
        .any(|(cuda, _)| *cuda == Cuda::Only(cuda_major));
    LIBRARIES
        .iter()
        .filter(move |(cuda, _)| known && cuda.includes(cuda_major))
        .map(|(_, library)| library)
}

/// Every library of every version.
pub fn all_libraries() -> impl Iterator<Item = &'static Library> {
    LIBRARIES.iter().map(|(_, library)| library)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(cuda_major: u32, first: Option<&str>, runtime: Option<&str>) {
        let sonames: Vec<_> = libraries(cuda_major)
            .map(|library| library.soname.as_str())
            .collect();
        let found = sonames
            .iter()
            .find(|soname| soname.starts_with("libcudart.so"));
        assert_eq!(sonames.first().copied(), first);
        assert_eq!(found.copied(), runtime);
        assert_eq!(sonames.iter().collect::<BTreeSet<_>>().len(), sonames.len());
    }

    #[test]
    fn each_version_has_its_own_runtime_once() {
        check(12, Some("libcuda.so.1"), Some("libcudart.so.12"));
        check(13, Some("libcuda.so.1"), Some("libcudart.so.13"));
        check(9, None, None);
    }

    #[test]
    fn tables_are_written_as_they_are_printed() {
        for ((_, text), library) in TABLES.iter().zip(all_libraries()) {
            assert_eq!(&library.to_string(), text, "{}", library.soname);
        }
    }

    #[test]
    fn names_belong_to_their_library() {
        for library in all_libraries() {
            for name in library.functions.keys().chain(library.variables.keys()) {
                assert!(library.owns(name), "{name} in {}", library.soname);
            }
        }
    }
}
