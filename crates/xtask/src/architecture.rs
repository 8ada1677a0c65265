//! The test that keeps `ARCHITECTURE.md` true: its two lists of dependencies against `cargo metadata`.
//!
//! The document is the source. A crate may depend on what the block fenced as `edges` allows and on the
//! external crates in the table under "External dependencies", and nothing may be listed that is not there,
//! because a list with dead entries stops being read.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::repository::Repository;
use crate::spawn;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
    kind: Option<String>,
}

/// Compares the document with the workspace; the line for the summary.
pub(crate) fn check(repository: &Repository) -> Result<String> {
    let path = repository.root.join("ARCHITECTURE.md");
    let document = fs::read_to_string(&path)
        .with_context(|| format!("`{}` cannot be read", path.display()))?;
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let metadata = spawn::capture(repository.cargo().args(arguments))?;
    let metadata: Metadata = serde_json::from_str(&metadata).context("cargo metadata")?;
    let differences = differences(&document, &metadata);
    if !differences.is_empty() {
        bail!(
            "ARCHITECTURE.md and the workspace differ:\n  {}",
            differences.join("\n  ")
        );
    }
    let edges = edges_of(&metadata);
    Ok(format!(
        "{} dependency edges between crates, all listed",
        edges.len()
    ))
}

fn differences(document: &str, metadata: &Metadata) -> Vec<String> {
    let allowed = listed_edges(document);
    let actual = edges_of(metadata);
    let explained = listed_externals(document);
    let used = externals_of(metadata);
    let mut found = Vec::new();
    for edge in actual.difference(&allowed) {
        found.push(format!("the edge `{edge}` is not allowed"));
    }
    for edge in allowed.difference(&actual) {
        found.push(format!("the edge `{edge}` is listed and not there"));
    }
    for name in used.difference(&explained) {
        found.push(format!("the external dependency `{name}` is not explained"));
    }
    for name in explained.difference(&used) {
        found.push(format!(
            "the external dependency `{name}` is explained and not there"
        ));
    }
    found
}

fn listed_edges(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .skip_while(|line| *line != "```edges")
        .skip(1)
        .take_while(|line| *line != "```")
        .flat_map(|line| {
            let (from, to) = line.split_once("->").unwrap_or((line, ""));
            let from = from.trim().to_owned();
            to.split_whitespace()
                .map(move |to| format!("{from} -> {to}"))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn listed_externals(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .skip_while(|line| *line != "## External dependencies")
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned))
        .collect()
}

fn edges_of(metadata: &Metadata) -> BTreeSet<String> {
    let edges = metadata.packages.iter().flat_map(|package| {
        let internal = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some());
        internal.map(|dependency| {
            let note = match dependency.kind.as_deref() {
                Some("dev") => " (dev)",
                Some("build") => " (build)",
                _ => "",
            };
            format!(
                "{}{note} -> {}",
                short(&package.name),
                short(&dependency.name)
            )
        })
    });
    edges.collect()
}

fn externals_of(metadata: &Metadata) -> BTreeSet<String> {
    let dependencies = metadata
        .packages
        .iter()
        .flat_map(|package| &package.dependencies);
    dependencies
        .filter(|dependency| dependency.path.is_none())
        .map(|dependency| dependency.name.clone())
        .collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("oomproof-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &str, externals: &str, expected: &[&str]) {
        let document = format!(
            "# A\n```edges\n{edges}\n```\n## External dependencies\n| crate | why |\n| --- | --- |\n{externals}\n## B\n| `x` | y |\n"
        );
        let metadata = serde_json::from_str(
            r#"{"packages":[
                {"name":"oomproof-units","dependencies":[{"name":"serde","path":null,"kind":null}]},
                {"name":"oomproof-cli","dependencies":[
                    {"name":"oomproof-units","path":"p","kind":null},
                    {"name":"oomproof-gpus","path":"p","kind":"dev"}]}]}"#,
        );
        assert_eq!(differences(&document, &metadata.unwrap()), expected);
    }

    #[test]
    fn the_lists_and_the_workspace_must_agree() {
        let edges = "cli -> units\ncli (dev) -> gpus";
        let externals = "| `serde` | reads and writes |";
        check(edges, externals, &[]);
        check(
            "cli -> units",
            externals,
            &["the edge `cli (dev) -> gpus` is not allowed"],
        );
        check(
            "cli -> units gpus\ncli (dev) -> gpus",
            externals,
            &["the edge `cli -> gpus` is listed and not there"],
        );
        check(
            edges,
            "",
            &["the external dependency `serde` is not explained"],
        );
        check(
            edges,
            "| `serde`, `libc` | why |",
            &["the external dependency `libc` is explained and not there"],
        );
    }
}
