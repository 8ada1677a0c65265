//! The NVIDIA packages in an environment: their libraries, headers, and which package each file is from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _, SymbolKind, elf};

/// All that the packages bring.
pub(crate) struct Wheels {
    pub(crate) libraries: Vec<Exports>,
    /// By file name.
    pub(crate) headers: BTreeMap<String, Header>,
}

/// What one real library exports.
pub(crate) struct Exports {
    pub(crate) soname: String,
    pub(crate) version: Option<String>,
    pub(crate) functions: BTreeSet<String>,
    pub(crate) variables: BTreeMap<String, u64>,
    pub(crate) source: String,
}

/// A file that declares functions.
pub(crate) struct Header {
    pub(crate) path: PathBuf,
    pub(crate) source: String,
}

impl Wheels {
    /// Reads the records of installed packages and the libraries that they list.
    pub(crate) fn find(site_packages: &Path) -> Result<Self> {
        let mut wheels = Self {
            libraries: Vec::new(),
            headers: BTreeMap::new(),
        };
        for (path, source) in files_of_nvidia(site_packages)? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.contains(".so") {
                let bytes =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let exports = exports(&bytes, source)
                    .with_context(|| format!("{} is not a library", path.display()))?;
                wheels.libraries.extend(exports);
            } else if [".h", ".hpp", ".py"].iter().any(|end| name.ends_with(end)) {
                wheels
                    .headers
                    .entry(name)
                    .or_insert(Header { path, source });
            }
        }
        Ok(wheels)
    }
}

/// Every file of the packages whose name begins with `nvidia`, with `name version` of its package.
fn files_of_nvidia(site_packages: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let entries = fs::read_dir(site_packages)
        .with_context(|| format!("cannot list {}", site_packages.display()))?;
    for entry in entries {
        let folder = entry?.path();
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((package, version)) = name
            .strip_suffix(".dist-info")
            .and_then(|name| name.split_once('-'))
        else {
            continue;
        };
        if !package.starts_with("nvidia") {
            continue;
        }
        let record = folder.join("RECORD");
        let record = fs::read_to_string(&record)
            .with_context(|| format!("cannot read {}", record.display()))?;
        let source = format!("{} {version}", package.replace('_', "-"));
        for line in record.lines() {
            let path = site_packages.join(line.split(',').next().unwrap_or_default());
            if path.is_file() {
                files.insert(path, source.clone());
            }
        }
    }
    Ok(files)
}

/// The exports of a library; none for a file without a SONAME.
fn exports(bytes: &[u8], source: String) -> Result<Option<Exports>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let dynamic = file.elf_dynamic_table()?;
    let mut soname = None;
    for entry in &dynamic {
        if entry.tag == elf::DT_SONAME {
            soname = Some(String::from_utf8(dynamic.string(entry)?.to_vec())?);
        }
    }
    let Some(soname) = soname else {
        return Ok(None);
    };
    let versions = file.elf_section_table().versions(file.endian(), bytes)?;
    let mut exports = Exports {
        soname,
        version: None,
        functions: BTreeSet::new(),
        variables: BTreeMap::new(),
        source,
    };
    for symbol in file
        .dynamic_symbols()
        .filter(object::ObjectSymbol::is_definition)
    {
        let name = symbol.name()?.to_owned();
        match symbol.kind() {
            SymbolKind::Text => {
                if let Some(versions) = &versions {
                    let index = versions
                        .version_index(file.endian(), symbol.index())
                        .index();
                    let version = versions.version(index)?;
                    let node =
                        version.map(|version| String::from_utf8_lossy(version.name()).into_owned());
                    exports.version = exports.version.or(node);
                }
                exports.functions.insert(name);
            }
            SymbolKind::Data if symbol.size() > 0 => {
                exports.variables.insert(name, symbol.size());
            }
            _ => {}
        }
    }
    Ok(Some(exports))
}
