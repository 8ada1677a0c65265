//! What headers say of functions: that they exist, and whether they return a status.
//!
//! This is no C parser. A declaration is an identifier before a parenthesis, with only words and stars before
//! it in its statement; that holds for every header of NVIDIA's, and a miss only leaves a function with the
//! default, a status.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::wheels::Header;

/// The words before each declared function, once for each declaration.
pub(crate) struct Declarations(BTreeMap<String, Vec<Vec<String>>>);

impl Declarations {
    /// Reads all headers.
    pub(crate) fn read(headers: &BTreeMap<String, Header>) -> Result<Self> {
        let mut found = BTreeMap::new();
        for header in headers.values().filter(|header| !is_python(&header.path)) {
            collect(&read(&header.path)?, &mut found);
        }
        Ok(Self(found))
    }

    /// Whether the function is declared, and never with one of these types.
    pub(crate) fn returns_other_than(&self, name: &str, types: &[String]) -> bool {
        self.0.get(name).is_some_and(|declarations| {
            declarations.iter().all(|words| {
                words.iter().any(|word| word == "*")
                    || !words.iter().any(|word| types.contains(word))
            })
        })
    }

    /// Every function that a file knows: declared in a header, renamed there, or a string in a Python file.
    pub(crate) fn named_in(path: &Path) -> Result<BTreeSet<String>> {
        let text = read(path)?;
        if is_python(path) {
            let strings = text.split(['"', '\'']).filter(|part| is_identifier(part));
            return Ok(strings.map(str::to_owned).collect());
        }
        let mut found = BTreeMap::new();
        collect(&text, &mut found);
        let mut names: BTreeSet<String> = found.into_keys().collect();
        names.extend(renamed(&text));
        Ok(names)
    }
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The targets of `#define name target`, with the suffixes that the macros for per-thread streams add.
fn renamed(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<_> = words(line).collect();
        if let ["#", "define", from, rest @ ..] = words.as_slice()
            && !rest.contains(&",")
        {
            for target in rest.iter().filter(|word| word.starts_with(from)) {
                names.insert((*target).to_owned());
                for (macro_end, suffix) in [("_PTDS", "_ptds"), ("_PTSZ", "_ptsz")] {
                    if rest.iter().any(|word| word.ends_with(macro_end)) {
                        names.insert(format!("{target}{suffix}"));
                    }
                }
            }
        }
    }
    names
}

fn collect(text: &str, found: &mut BTreeMap<String, Vec<Vec<String>>>) {
    let code = without_comments_and_directives(text);
    for statement in code.split([';', '{', '}']) {
        let mut before: Vec<String> = Vec::new();
        let mut depth = 0_usize;
        let mut tokens = words(statement).peekable();
        while let Some(token) = tokens.next() {
            match token {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                "return" | "typedef" | "=" | "else" | "case" | "goto" => break,
                _ if tokens.peek() == Some(&"(") && !before.is_empty() && is_identifier(token) => {
                    found
                        .entry(token.to_owned())
                        .or_default()
                        .push(before.clone());
                    before.push(token.to_owned());
                }
                _ => before.push(token.to_owned()),
            }
        }
    }
}

fn without_comments_and_directives(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        code.push_str(&rest[..start]);
        code.push(' ');
        rest = rest[start..]
            .find("*/")
            .map_or("", |end| &rest[start + end + 2..]);
    }
    code.push_str(rest);

    let mut continued = false;
    let mut kept = String::with_capacity(code.len());
    for line in code.lines() {
        let directive = continued || line.trim_start().starts_with('#');
        continued = directive && line.trim_end().ends_with('\\');
        if !directive {
            kept.push_str(line.split("//").next().unwrap_or_default());
            kept.push('\n');
        }
    }
    kept
}

/// Identifiers and single other characters.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        rest = after.trim_start();
        Some(word)
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| is_word(c) && !c.is_ascii_digit()) && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, name: &str, other_than_status: bool) {
        let mut found = BTreeMap::new();
        collect(header, &mut found);
        let declarations = Declarations(found);
        assert_eq!(
            declarations.returns_other_than(name, &["st_t".to_owned()]),
            other_than_status,
            "{header}"
        );
    }

    #[test]
    fn status_functions_are_told_from_others() {
        check("st_t f(int a);", "f", false);
        check("extern st_t API f(void (*callback)(int));", "f", false);
        check("DEPRECATED(\"x\") st_t f();", "f", false);
        check("const char *f(st_t status);", "f", true);
        check("st_t *f(int);", "f", true);
        check("void\nf(int);", "f", true);
        check("/* st_t f(); */ // st_t f()\nsize_t f();", "f", true);
        check("#define f(x) \\\n void f(x)\nst_t f(int);", "f", false);
        check("int g() { return f(1); }", "f", false);
        check("st_t f(int); template <class T> void f(T);", "f", false);
        check("typedef st_t (*f)(int);", "f", false);
    }

    #[test]
    fn renaming_macros_name_more_functions() {
        let header = "#define cuA cuA_v2\n#define cuB PER_THREAD_PTSZ(cuB_v3)\n#define cuC 1\n#define D cuD\n";
        let names: Vec<_> = renamed(header).into_iter().collect();
        assert_eq!(names, ["cuA_v2", "cuB_v3", "cuB_v3_ptsz"]);
    }
}
