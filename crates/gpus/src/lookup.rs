//! From what people type to a GPU.
//!
//! A GPU has many spellings (`4090`, `RTX 4090`, `NVIDIA GeForce RTX 4090`), so spellings are reduced to a key
//! before they are compared. A name that fits several GPUs is an error and never a guess: the memory it would
//! decide on differs by a factor of two.

use thiserror::Error;

use crate::catalog::all;
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

/// The GPU with this name. Case, spaces, dashes and the words NVIDIA, `GeForce`, Tesla and Quadro do not matter.
pub fn find(name: &str) -> Result<&'static Gpu, UnknownGpu> {
    let typed = letters(name);
    if let Some(gpu) = all().iter().find(|gpu| letters(gpu.id) == typed) {
        return Ok(gpu);
    }
    let wanted = key(name);
    // Cards with different memories may report the same name: what people call them goes first.
    let called: Vec<&Gpu> = matching(&wanted, called).collect();
    let found = if called.is_empty() {
        matching(&wanted, |gpu| vec![gpu.name]).collect()
    } else {
        called
    };
    match found.as_slice() {
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

fn matching<'a>(
    wanted: &'a str,
    spellings: impl Fn(&'static Gpu) -> Vec<&'static str> + 'a,
) -> impl Iterator<Item = &'static Gpu> + 'a {
    all().iter().filter(move |&gpu| {
        spellings(gpu)
            .into_iter()
            .flat_map(keys)
            .any(|key| key == wanted)
    })
}

fn called(gpu: &'static Gpu) -> Vec<&'static str> {
    let mut spellings = vec![gpu.id];
    spellings.extend(gpu.aliases);
    spellings
}

fn letters(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// A spelling without what people leave out: `NVIDIA GeForce RTX 4090` and `rtx-4090` are both `rtx4090`.
fn key(name: &str) -> String {
    let mut key = letters(name);
    for word in ["nvidia", "geforce", "tesla", "quadro"] {
        key = key.replace(word, "");
    }
    match key.strip_suffix("gb") {
        Some(shorter) => shorter.to_owned(),
        None => key,
    }
}

/// The keys of a spelling; a leading `rtx` or `gtx` may be left out.
fn keys(spelling: &str) -> impl Iterator<Item = String> {
    let full = key(spelling);
    let short = full
        .strip_prefix("rtx")
        .or_else(|| full.strip_prefix("gtx"))
        .map(str::to_owned);
    [Some(full), short].into_iter().flatten()
}

fn near(wanted: &str) -> Vec<&'static str> {
    let tolerance = 1.max(wanted.len() / 4);
    let distance = |spellings: &[&str]| {
        let keys = spellings.iter().copied().flat_map(keys);
        keys.map(|key| strsim::damerau_levenshtein(&key, wanted))
            .min()
            .unwrap_or(usize::MAX)
    };
    let mut found: Vec<((usize, bool), &str)> = all()
        .iter()
        .filter(|gpu| gpu.slice_of().is_none())
        .filter_map(|gpu| {
            let (own, other) = (distance(&[gpu.id, gpu.name]), distance(gpu.aliases));
            let nearest = own.min(other);
            (nearest <= tolerance).then_some(((nearest, other < own), gpu.id))
        })
        .collect();
    // The first letter is mistyped least often.
    let begins_otherwise = |id: &str| id.chars().next() != wanted.chars().next();
    found.sort_by_key(|&(distance, id)| (begins_otherwise(id), distance));
    if let Some(&(_, best)) = found.first() {
        found.retain(|&(_, id)| begins_otherwise(id) == begins_otherwise(best));
    }
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
        check("a100-40g", "a100-40gb");
        check("a100-80g", "a100-80gb");
        check("V100-PCIE-16GB", "v100-16gb-pcie");
        check("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "a100-80gb:1g.10gb");
        check("a100-80gb-1g.10gb", "a100-80gb:1g.10gb");
        check("h100:3g.40gb", "h100-80gb:3g.40gb");
        check("1g.18gb", "h200:1g.18gb");
        check("4090 laptop", "rtx-4090-laptop");
        check("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop");
        check("5070ti", "rtx-5070-ti");
        check("titan rtx", "titan-rtx");
        check("GTX TITAN X", "gtx-titan-x");
        check("NVIDIA GeForce RTX 3080", "rtx-3080-10gb");
        check("g4dn", "t4");
        check("quadro rtx 6000", "quadro-rtx-6000");
    }

    #[test]
    fn every_id_and_name_finds_its_own_gpu() {
        for gpu in all() {
            check(gpu.id, gpu.id);
            // Several cards may report one name.
            match find(gpu.name) {
                Ok(found) => assert_eq!(found.name, gpu.name),
                Err(error) => assert!(error.suggestions().contains(&gpu.id), "{}", gpu.name),
            }
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
            &["v100-16gb-pcie", "v100-16gb", "v100-32gb-pcie", "v100-32gb"],
        );
    }

    #[test]
    fn names_of_several_cards_are_no_guess() {
        fn check(name: &str, choices: &[&str]) {
            assert_eq!(find(name).unwrap_err().suggestions(), choices, "{name}");
        }
        check("colab", &["t4", "l4", "a100-40gb"]);
        check("kaggle", &["t4", "tesla-p100-16gb"]);
        check("4060 ti", &["rtx-4060-ti-8gb", "rtx-4060-ti-16gb"]);
        check(
            "GeForce RTX 4060 Ti",
            &["rtx-4060-ti-8gb", "rtx-4060-ti-16gb"],
        );
        check("rtx 4000", &["quadro-rtx-4000", "rtx-4000-ada"]);
        check("RTX 6000", &["quadro-rtx-6000", "rtx-6000-ada"]);
        check("a100:1g.10gb", &["a100-80gb:1g.10gb", "a100-40gb:1g.10gb"]);
        check("Titan X", &["titan-x-pascal", "gtx-titan-x"]);
        check("gtx 1060", &["gtx-1060-3gb", "gtx-1060-6gb"]);
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
