//! `generate`: the name tables of the stand-ins, from NVIDIA's own packages; and whether they suffice for a torch.
//!
//! The tables are committed, so that building and testing need none of these packages, which are gigabytes.
//! A run over an environment adds what it finds and removes nothing, because one table serves many versions.

mod declarations;
mod needs;
mod wheels;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use oomproof_standins::{Library, all_libraries};

use declarations::Declarations;
use needs::Need;
use wheels::Wheels;

/// What to do with the tables.
pub(crate) enum Mode {
    /// Add the names of the NVIDIA packages that are installed in this folder.
    Write { site_packages: PathBuf },
    /// Say what the torch that is installed in this folder needs and the tables lack.
    Check { site_packages: PathBuf },
}

/// Does it; an error when a check finds a gap.
pub(crate) fn run(check: Mode) -> Result<()> {
    match check {
        Mode::Write { site_packages } => write(&site_packages),
        Mode::Check { site_packages } => verify(&site_packages),
    }
}

fn write(site_packages: &Path) -> Result<()> {
    let wheels = Wheels::find(site_packages)?;
    let declarations = Declarations::read(&wheels.headers)?;
    for known in all_libraries() {
        let mut table = known.clone();
        for found in wheels
            .libraries
            .iter()
            .filter(|found| found.soname == known.soname)
        {
            if found.version != table.version {
                bail!(
                    "{} has the version node {:?} in {} and {:?} in its table",
                    table.soname,
                    found.version,
                    found.source,
                    table.version
                );
            }
            table.sources.insert(found.source.clone());
            add_functions(&mut table, &found.functions);
            for (name, size) in &found.variables {
                if table.owns(name) {
                    table.variables.entry(name.clone()).or_insert(*size);
                }
            }
        }
        for file in known
            .declared_in
            .iter()
            .filter_map(|name| wheels.headers.get(name))
        {
            table.sources.insert(file.source.clone());
            add_functions(&mut table, &Declarations::named_in(&file.path)?);
        }
        mark_functions_without_status(&mut table, &declarations);
        if table != *known {
            let path = tables().join(format!("{}.txt", table.soname));
            fs::write(&path, table.to_string())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn add_functions(table: &mut Library, names: &BTreeSet<String>) {
    for name in names {
        if table.owns(name) {
            table
                .functions
                .entry(name.clone())
                .or_insert(table.not_supported.code);
        }
    }
}

/// A function that returns a pointer, a count or nothing must not return a status number.
fn mark_functions_without_status(table: &mut Library, declarations: &Declarations) {
    let status_types = &table.status_types;
    for (name, code) in &mut table.functions {
        if *code == table.not_supported.code && declarations.returns_other_than(name, status_types)
        {
            *code = 0;
        }
    }
}

fn verify(site_packages: &Path) -> Result<()> {
    let needs = needs::of_torch(site_packages)?;
    let gaps: Vec<String> = needs.iter().filter_map(gap).collect();
    if !gaps.is_empty() {
        bail!(
            "the tables lack {} of the {} names that torch needs:\n{}\n\nhint: run `cargo xtask generate` on an \
             environment that has torch's own NVIDIA packages",
            gaps.len(),
            needs.len(),
            gaps.join("\n")
        );
    }
    Ok(())
}

/// What the tables lack for one need.
fn gap(need: &Need) -> Option<String> {
    match need {
        Need::Library { soname, by } => all_libraries()
            .all(|library| library.soname != *soname)
            .then(|| format!("{soname}, a library that {by} links")),
        Need::Symbol {
            name,
            version: Some((soname, node)),
            by,
        } => {
            let Some(library) = all_libraries().find(|library| library.soname == *soname) else {
                return Some(format!("{name} of {soname}, a library that {by} links"));
            };
            if library.version.as_ref() != Some(node) {
                return Some(format!(
                    "the version node {node} of {soname}, which {by} needs for {name}"
                ));
            }
            (!library.has(name)).then(|| format!("{name} of {soname}, which {by} needs"))
        }
        Need::Symbol {
            name,
            version: None,
            by,
        } => all_libraries()
            .all(|library| !library.has(name))
            .then(|| format!("{name}, which {by} needs")),
    }
}

fn tables() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../standins/tables")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, version: Option<(&str, &str)>) -> Need {
        Need::Symbol {
            name: name.to_owned(),
            version: version.map(|(soname, node)| (soname.to_owned(), node.to_owned())),
            by: "liba.so".to_owned(),
        }
    }

    fn check(need: &Need, expected: Option<&str>) {
        assert_eq!(gap(need).as_deref(), expected);
    }

    #[test]
    fn gaps_are_named() {
        let library = |soname: &str| Need::Library {
            soname: soname.to_owned(),
            by: "liba.so".to_owned(),
        };
        check(&library("libcudart.so.13"), None);
        check(
            &library("libcudart.so.99"),
            Some("libcudart.so.99, a library that liba.so links"),
        );
        check(
            &symbol("cudaMalloc", Some(("libcudart.so.13", "libcudart.so.13"))),
            None,
        );
        check(
            &symbol("cudaMalloc", Some(("libcudart.so.13", "other"))),
            Some("the version node other of libcudart.so.13, which liba.so needs for cudaMalloc"),
        );
        check(
            &symbol("cudaNothing", Some(("libcudart.so.13", "libcudart.so.13"))),
            Some("cudaNothing of libcudart.so.13, which liba.so needs"),
        );
        check(&symbol("cuInit", None), None);
        check(
            &symbol("cuNothing", None),
            Some("cuNothing, which liba.so needs"),
        );
    }
}
