//! What an installed torch needs of NVIDIA's libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _, elf};
use oomproof_standins::{all_libraries, exported_functions};

/// Something that must be there for a library of torch to load.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A library.
    Library { soname: String, by: String },
    /// A function or variable, with the SONAME and the version node it is bound to.
    Symbol {
        name: String,
        version: Option<(String, String)>,
        by: String,
    },
}

/// The needs of all shared libraries of the torch in this folder.
///
/// A name without a version is a need only when no library of torch's has it: LAPACK's `cungqr_` begins like the
/// driver's functions.
pub(crate) fn of_torch(site_packages: &Path) -> Result<BTreeSet<Need>> {
    let folder = site_packages.join("torch/lib");
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("there is no torch in {}", site_packages.display()))?;
    let mut needs = BTreeSet::new();
    let mut own = BTreeSet::new();
    let mut carried = BTreeSet::new();
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.contains(".so") && path.is_file() {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if is_nvidia(&name) {
                carried.insert(name.clone());
            } else {
                own.extend(exported_functions(&bytes)?);
            }
            collect(&bytes, &name, &mut needs)
                .with_context(|| format!("{} is not a library", path.display()))?;
        }
    }
    // A wheel may carry a library of NVIDIA's under a name of its own, such as `libcusparseLt-f80c68d1.so.0`. The
    // stand-ins are loaded before it and answer for it, so its functions are needs and its file is none.
    needs.retain(|need| match need {
        Need::Library { soname, .. } => !carried.contains(soname),
        Need::Symbol {
            name,
            version: None,
            ..
        } => !own.contains(name),
        Need::Symbol { .. } => true,
    });
    if needs.is_empty() {
        bail!(
            "the torch in {} links no library of NVIDIA's",
            site_packages.display()
        );
    }
    Ok(needs)
}

fn collect(bytes: &[u8], by: &str, needs: &mut BTreeSet<Need>) -> Result<()> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let dynamic = file.elf_dynamic_table()?;
    for entry in &dynamic {
        if entry.tag == elf::DT_NEEDED {
            let soname = String::from_utf8(dynamic.string(entry)?.to_vec())?;
            if is_nvidia(&soname) {
                needs.insert(Need::Library {
                    soname,
                    by: by.to_owned(),
                });
            }
        }
    }
    let versions = file.elf_section_table().versions(file.endian(), bytes)?;
    for symbol in file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined() && !symbol.is_weak())
    {
        let name = symbol.name()?.to_owned();
        let version = match &versions {
            Some(versions) => {
                let index = versions
                    .version_index(file.endian(), symbol.index())
                    .index();
                versions.version(index)?.map(|version| {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    (
                        text(version.file().unwrap_or_default()),
                        text(version.name()),
                    )
                })
            }
            None => None,
        };
        let needed = match &version {
            Some((soname, _)) => is_nvidia(soname),
            None => all_libraries().any(|library| library.owns(&name)),
        };
        if needed {
            needs.insert(Need::Symbol {
                name,
                version,
                by: by.to_owned(),
            });
        }
    }
    Ok(())
}

fn is_nvidia(soname: &str) -> bool {
    ["libcu", "libnv", "libnccl", "libnpp"]
        .iter()
        .any(|prefix| soname.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(soname: &str, expected: bool) {
        assert_eq!(is_nvidia(soname), expected, "{soname}");
    }

    #[test]
    fn libraries_of_nvidia_are_known_by_name() {
        check("libcudart.so.13", true);
        check("libnvrtc.so.13", true);
        check("libnccl.so.2", true);
        check("libc.so.6", false);
        check("libnuma.so.1", false);
    }

    #[test]
    fn every_table_is_of_nvidia() {
        for library in all_libraries() {
            check(&library.soname, true);
        }
    }
}
