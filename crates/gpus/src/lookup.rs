//! From what people type to a GPU.
//!
//! A GPU has many spellings (`4090`, `RTX 4090`, `NVIDIA GeForce RTX 4090`), so spellings are reduced to a key
//! before they are compared. A name that fits several GPUs is an error and never a guess: the memory it would
//! decide on differs by a factor of two.

use thiserror::Error;

use crate::catalog_table::CATALOG;
use crate::gpu::Gpu;

/// How many near names an error carries at most.
const SUGGESTIONS: usize = 3;

/// Why a name is not one GPU of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownGpu {
    /// No GPU has this name.
    #[error("there is no GPU named `{name}` in the catalog")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Ids that are spelled nearly the same, nearest first; often none.
        near: Vec<&'static str>,
    },
    /// Several GPUs have this name.
    #[error("`{name}` is the name of more than one GPU")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// The ids of all of them.
        choices: Vec<&'static str>,
    },
}

impl UnknownGpu {
    /// Ids to try instead, best first.
    pub fn suggestions(&self) -> &[&'static str] {
        match self {
            Self::NotFound { near, .. } => near,
            Self::Ambiguous { choices, .. } => choices,
        }
    }
}

/// All GPUs, from the smallest memory to the largest.
pub fn all() -> &'static [Gpu] {
    CATALOG
}

/// The GPU with this name. Case, spaces, dashes and the words NVIDIA, `GeForce`, Tesla and Quadro do not matter.
pub fn find(name: &str) -> Result<&'static Gpu, UnknownGpu> {
    let wanted = key(name);
    if let Some(gpu) = CATALOG.iter().find(|gpu| key(gpu.id) == wanted) {
        return Ok(gpu);
    }
    let matching: Vec<&Gpu> = CATALOG
        .iter()
        .filter(|gpu| keys(gpu).any(|key| key == wanted))
        .collect();
    match matching.as_slice() {
        [gpu] => Ok(gpu),
        [] => Err(UnknownGpu::NotFound {
            name: name.to_owned(),
            near: near(&wanted),
        }),
        several => Err(UnknownGpu::Ambiguous {
            name: name.to_owned(),
            choices: several.iter().map(|gpu| gpu.id).collect(),
        }),
    }
}

/// A spelling without what people leave out: `NVIDIA GeForce RTX 4090` and `rtx-4090` are both `rtx4090`.
fn key(name: &str) -> String {
    let letters: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let mut key = letters;
    for word in ["nvidia", "geforce", "tesla", "quadro"] {
        key = key.replace(word, "");
    }
    match key.strip_suffix("gb") {
        Some(shorter) => shorter.to_owned(),
        None => key,
    }
}

/// Every key of a GPU; a leading `rtx` or `gtx` may be left out.
fn keys(gpu: &Gpu) -> impl Iterator<Item = String> {
    [gpu.id, gpu.name]
        .into_iter()
        .chain(gpu.aliases.iter().copied())
        .flat_map(|spelling| {
            let full = key(spelling);
            let short = full
                .strip_prefix("rtx")
                .or_else(|| full.strip_prefix("gtx"))
                .map(str::to_owned);
            [Some(full), short]
        })
        .flatten()
}

fn near(wanted: &str) -> Vec<&'static str> {
    let tolerance = 1.max(wanted.len() / 4);
    let mut found: Vec<(usize, &str)> = CATALOG
        .iter()
        .filter_map(|gpu| {
            let distance = keys(gpu)
                .map(|key| strsim::damerau_levenshtein(&key, wanted))
                .min()?;
            (distance <= tolerance).then_some((distance, gpu.id))
        })
        .collect();
    found.sort_by_key(|&(distance, _)| distance);
    found.truncate(SUGGESTIONS);
    found.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, id: &str) {
        assert_eq!(find(name).map(|gpu| gpu.id), Ok(id), "{name}");
    }

    fn check_error(name: &str, text: &str, suggestions: &[&str]) {
        let error = find(name).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.suggestions(), suggestions, "{name}");
    }

    #[test]
    fn finds_what_people_type() {
        check("rtx-4090", "rtx-4090");
        check("4090", "rtx-4090");
        check("rtx4090", "rtx-4090");
        check("RTX 4090", "rtx-4090");
        check("NVIDIA GeForce RTX 4090", "rtx-4090");
        check("GeForce_RTX_4090", "rtx-4090");
        check("2080ti", "rtx-2080-ti");
        check("GTX 1080 Ti", "gtx-1080-ti");
        check("3080", "rtx-3080-10gb");
        check("RTX 3060", "rtx-3060-12gb");
        check("4070 ti super", "rtx-4070-ti-super");
        check("T4", "t4");
        check("Tesla T4", "t4");
        check("p100", "tesla-p100-16gb");
        check("V100 32GB", "v100-32gb");
        check("Tesla V100-SXM2-16GB", "v100-16gb");
        check("a100-40gb", "a100-40gb");
        check("A100 80GB", "a100-80gb");
        check("NVIDIA A100 80GB PCIe", "a100-80gb-pcie");
        check("h100", "h100-80gb");
        check("H100 PCIe", "h100-pcie");
        check("H100 SXM", "h100-80gb");
        check("A6000", "rtx-a6000");
        check("6000 ada", "rtx-6000-ada");
        check("RTX 6000 Ada Generation", "rtx-6000-ada");
        check("a10", "a10");
        check("a10g", "a10g");
        check("L40S", "l40s");
        check("GH200", "gh200-96gb");
    }

    #[test]
    fn every_id_and_name_finds_its_own_gpu() {
        for gpu in all() {
            check(gpu.id, gpu.id);
            check(gpu.name, gpu.id);
        }
    }

    #[test]
    fn ambiguous_names_list_the_choices() {
        check_error(
            "a100",
            "`a100` is the name of more than one GPU",
            &["a100-40gb", "a100-80gb-pcie", "a100-80gb"],
        );
        check_error(
            "Tesla V100",
            "`Tesla V100` is the name of more than one GPU",
            &["v100-16gb", "v100-32gb"],
        );
    }

    #[test]
    fn unknown_names_suggest_near_ones() {
        check_error(
            "rtx-4091",
            "there is no GPU named `rtx-4091` in the catalog",
            &["rtx-4090"],
        );
        check_error(
            "h2000",
            "there is no GPU named `h2000` in the catalog",
            &["h200"],
        );
        check_error(
            "toaster",
            "there is no GPU named `toaster` in the catalog",
            &[],
        );
        check_error("", "there is no GPU named `` in the catalog", &[]);
        check_error(
            "nvidia",
            "there is no GPU named `nvidia` in the catalog",
            &[],
        );
    }
}
