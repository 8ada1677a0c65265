//! One library as a table: a file that a person can read and review, and that a generator can extend.
//!
//! A table is a head of `key: value` lines, an empty line, and one name a line:
//!
//! ```text
//! soname: libcudart.so.13
//! version: libcudart.so.13
//! not supported: 801 cudaErrorNotSupported
//! status type: cudaError_t
//! prefix: cuda __cuda
//! source: nvidia-cuda-runtime 13.5.37
//!
//! cudaMalloc
//! cudaGetErrorString 0
//! data some_exported_variable 4
//! ```
//!
//! A number behind a function is what its stub returns in place of the library's code, because the function
//! returns no status. `data` is an exported variable with its size.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What is known of one shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name by which the dynamic linker knows it.
    pub soname: String,
    /// The version node of all its symbols; `None` where the real library has unversioned symbols.
    pub version: Option<String>,
    /// What its functions return when they cannot do a thing.
    pub not_supported: NotSupported,
    /// The C types of a status, by which a generator tells status functions from others.
    pub status_types: Vec<String>,
    /// How the names of its own functions begin.
    pub prefixes: Vec<String>,
    /// Headers that declare its functions, for a library that is in no wheel.
    pub declared_in: Vec<String>,
    /// The packages its names were read from, with their versions.
    pub sources: BTreeSet<String>,
    /// Its functions, each with what a stub of it returns.
    pub functions: BTreeMap<String, i32>,
    /// Its exported variables, each with its size in bytes.
    pub variables: BTreeMap<String, u64>,
}

/// The status by which a library refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSupported {
    /// Its number.
    pub code: i32,
    /// Its name in the library's headers.
    pub name: String,
}

/// Why a text is not a table.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotATable {
    /// A line of the head is not one of the known keys.
    #[error("`{0}` is not a line of a table's head")]
    Head(String),
    /// A key that every table has is absent.
    #[error("a table has no `{0}`")]
    Missing(&'static str),
    /// A line of the body is not a name, optionally with a number.
    #[error("`{0}` is not a name, optionally with a number")]
    Body(String),
}

impl Library {
    /// Whether a symbol of this name is one of the library's own.
    pub fn owns(&self, name: &str) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether the table has a function or variable of this name.
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name) || self.variables.contains_key(name)
    }
}

impl FromStr for Library {
    type Err = NotATable;

    fn from_str(text: &str) -> Result<Self, NotATable> {
        let mut lines = text.lines();
        let mut head: BTreeMap<&str, &str> = BTreeMap::new();
        let mut sources = BTreeSet::new();
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let (key, value) = line
                .split_once(": ")
                .ok_or_else(|| NotATable::Head(line.to_owned()))?;
            match key {
                "source" => {
                    sources.insert(value.to_owned());
                }
                "soname" | "version" | "not supported" | "status type" | "prefix"
                | "declared in" => {
                    head.insert(key, value);
                }
                _ => return Err(NotATable::Head(line.to_owned())),
            }
        }
        let required = |key: &'static str| head.get(key).copied().ok_or(NotATable::Missing(key));
        let words = |key: &str| {
            let value = head.get(key).copied().unwrap_or_default();
            value
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let refusal = required("not supported")?;
        let not_supported = refusal
            .split_once(' ')
            .and_then(|(code, name)| {
                Some(NotSupported {
                    code: code.parse().ok()?,
                    name: name.to_owned(),
                })
            })
            .ok_or_else(|| NotATable::Head(refusal.to_owned()))?;

        let mut functions = BTreeMap::new();
        let mut variables = BTreeMap::new();
        for line in lines {
            let malformed = || NotATable::Body(line.to_owned());
            match *line.split(' ').collect::<Vec<_>>() {
                [name] if !name.is_empty() => {
                    functions.insert(name.to_owned(), not_supported.code);
                }
                [name, code] => {
                    functions.insert(name.to_owned(), code.parse().map_err(|_| malformed())?);
                }
                ["data", name, size] => {
                    variables.insert(name.to_owned(), size.parse().map_err(|_| malformed())?);
                }
                _ => return Err(malformed()),
            }
        }
        Ok(Self {
            soname: required("soname")?.to_owned(),
            version: head.get("version").map(|&node| node.to_owned()),
            status_types: words("status type"),
            prefixes: words("prefix"),
            declared_in: words("declared in"),
            not_supported,
            sources,
            functions,
            variables,
        })
    }
}

/// The table, as [`Library::from_str`] reads it.
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "soname: {}", self.soname)?;
        if let Some(version) = &self.version {
            writeln!(f, "version: {version}")?;
        }
        let NotSupported {
            code: refusal,
            name,
        } = &self.not_supported;
        writeln!(f, "not supported: {refusal} {name}")?;
        writeln!(f, "status type: {}", self.status_types.join(" "))?;
        writeln!(f, "prefix: {}", self.prefixes.join(" "))?;
        if !self.declared_in.is_empty() {
            writeln!(f, "declared in: {}", self.declared_in.join(" "))?;
        }
        for source in &self.sources {
            writeln!(f, "source: {source}")?;
        }
        writeln!(f)?;
        for (name, code) in &self.functions {
            if code == refusal {
                writeln!(f, "{name}")?;
            } else {
                writeln!(f, "{name} {code}")?;
            }
        }
        for (name, size) in &self.variables {
            writeln!(f, "data {name} {size}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "soname: liba.so.1\nversion: V1\nnot supported: 7 A_NO\nstatus type: a_t\nprefix: a\n";

    /// Functions with their codes, then variables with their sizes, or the reason.
    fn check(head_and_body: &str, expected: Result<&str, NotATable>) {
        let table = format!("{HEAD}{head_and_body}");
        let read = table.parse::<Library>();
        let found = read.as_ref().map_err(Clone::clone).map(|library| {
            let functions = library
                .functions
                .iter()
                .map(|(name, code)| format!("{name}={code}"));
            let variables = library
                .variables
                .iter()
                .map(|(name, size)| format!("{name}:{size}"));
            functions.chain(variables).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found, expected.map(str::to_owned));
        if let Ok(library) = read {
            assert_eq!(library.to_string(), table);
        }
    }

    #[test]
    fn tables_are_read_and_written_back() {
        check("\n", Ok(""));
        check("declared in: a.h b.h\nsource: p 1\n\n", Ok(""));
        check("\nab\nac 0\nad -1\n", Ok("ab=7 ac=0 ad=-1"));
        check("\nab\ndata ax 4\n", Ok("ab=7 ax:4"));
    }

    #[test]
    fn malformed_tables_are_refused() {
        check(
            "color: red\n\n",
            Err(NotATable::Head("color: red".to_owned())),
        );
        check("nothing\n\n", Err(NotATable::Head("nothing".to_owned())));
        check("\nab x\n", Err(NotATable::Body("ab x".to_owned())));
        check("\nab 1 2\n", Err(NotATable::Body("ab 1 2".to_owned())));
        check("\nab\n\n", Err(NotATable::Body(String::new())));
    }

    #[test]
    fn a_head_needs_its_keys() {
        assert_eq!(
            "\n".parse::<Library>(),
            Err(NotATable::Missing("not supported"))
        );
        assert_eq!(
            "not supported: 7 A_NO\nstatus type: a_t\n\n".parse::<Library>(),
            Err(NotATable::Missing("soname"))
        );
    }
}
