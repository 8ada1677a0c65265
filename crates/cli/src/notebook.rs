//! Notebooks, from their file to the code cells that Python runs one after the other.
//!
//! A notebook may be of any size, age and origin, so everything about the file is decided here, before a script is
//! started; what a line of a cell means is Python's affair and decided there, by the agent's `notebook.py`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::{Failure, reason};

/// Outputs can be large; what is larger than this is not a notebook that a person made.
const LARGEST: u64 = 256 << 20;

/// The code of a notebook, as the agent reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Notebook {
    /// Its absolute path, which sites and tracebacks name with the cell behind it.
    path: String,
    /// The text of each code cell that is not empty: the first is cell 1, as after "Restart and run all".
    cells: Vec<String>,
}

/// The command that runs a notebook, and the folder it is run in.
#[derive(Debug)]
pub(crate) struct NotebookCommand {
    /// What Python gets in place of `NOTEBOOK ARGS`.
    pub arguments: Vec<OsString>,
    /// The notebook's folder: Jupyter starts kernels there.
    pub folder: PathBuf,
}

/// Whether the first argument of a command names a notebook.
pub(crate) fn is_notebook(script: &OsStr) -> bool {
    Path::new(script)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// Reads the notebook that `arguments` begin with, seen from `from`, and leaves its code in `folder`.
pub(crate) fn command(
    arguments: &[OsString],
    from: &Path,
    folder: &Path,
) -> Result<Option<NotebookCommand>, Failure> {
    let Some((script, rest)) = arguments.split_first() else {
        return Ok(None);
    };
    if !is_notebook(script) {
        return Ok(None);
    }
    let path = from.join(script);
    let path = std::path::absolute(&path).unwrap_or(path);
    let notebook = read(&path)?;
    let file = folder.join("notebook.json");
    let text = serde_json::to_vec(&notebook).map_err(|error| {
        Failure::environment("io", format!("the cells cannot be written: {error}"))
    })?;
    fs::write(&file, text).map_err(|error| Failure::io("write", &file, &error))?;
    let module = ["-m".into(), "_oomproof_agent.notebook".into(), file.into()];
    Ok(Some(NotebookCommand {
        arguments: module.into_iter().chain(rest.iter().cloned()).collect(),
        folder: path.parent().unwrap_or(from).to_path_buf(),
    }))
}

fn refused(path: &Path, what: &str) -> Failure {
    let text = format!("the notebook {} {what}", path.display());
    Failure::new(Exit::InputRefused, "notebook", text)
}

fn read(path: &Path) -> Result<Notebook, Failure> {
    let unread =
        |error: std::io::Error| refused(path, &format!("cannot be read: {}", reason(&error)));
    let about = fs::metadata(path).map_err(unread)?;
    if !about.is_file() {
        return Err(refused(path, "is not a file"));
    }
    if about.len() > LARGEST {
        return Err(refused(path, "is larger than 256 MiB")
            .hint("clear its outputs: `jupyter nbconvert --clear-output --inplace NOTEBOOK`"));
    }
    let bytes = fs::read(path).map_err(unread)?;
    let cells = cells(&bytes).map_err(|wrong| {
        let failure = refused(path, &wrong.what);
        match wrong.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    Ok(Notebook {
        path: path.to_string_lossy().into_owned(),
        cells,
    })
}

/// What is wrong with the text of a notebook.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    what: String,
    hint: Option<&'static str>,
}

#[derive(Deserialize)]
struct Form {
    nbformat: Option<u64>,
    #[serde(default)]
    metadata: serde_json::Value,
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    #[serde(default)]
    source: Source,
}

/// Jupyter writes lines, other tools one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Source {
    Text(String),
    Lines(Vec<String>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Source {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Lines(lines) => lines.concat(),
        }
    }
}

/// The code cells in the text of a notebook.
fn cells(text: &[u8]) -> Result<Vec<String>, Wrong> {
    let wrong = |what: String, hint| Wrong { what, hint };
    let form: Form = serde_json::from_slice(text).map_err(|error| {
        let what = if error.is_data() {
            format!("is not of the form of notebooks: {error}")
        } else {
            format!("is not JSON: {error}")
        };
        wrong(what, Some("open it in Jupyter and save it again"))
    })?;
    match form.nbformat {
        Some(4) => {}
        Some(version) => {
            return Err(wrong(
                format!("is of format {version}, and format 4 is read"),
                Some("`jupyter nbconvert --to notebook --nbformat 4 NOTEBOOK` converts it"),
            ));
        }
        None => {
            return Err(wrong(
                "does not say its format".to_owned(),
                Some("open it in Jupyter and save it again"),
            ));
        }
    }
    let language = ["/language_info/name", "/kernelspec/language"]
        .into_iter()
        .find_map(|place| form.metadata.pointer(place)?.as_str())
        .unwrap_or("python");
    if !language.to_ascii_lowercase().contains("python") {
        return Err(wrong(format!("is written in {language}"), None));
    }
    let cells: Vec<String> = form
        .cells
        .into_iter()
        .filter(|cell| cell.cell_type == "code")
        .map(|cell| cell.source.text())
        .filter(|source| !source.trim().is_empty())
        .collect();
    if cells.is_empty() {
        return Err(wrong("has no code".to_owned(), None));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let found = cells(text.as_bytes()).map_err(|wrong| wrong.what);
        let found = match &found {
            Ok(cells) => Ok(cells.iter().map(String::as_str).collect::<Vec<_>>()),
            Err(what) => Err(what.as_str()),
        };
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(what), Err(begin)) => assert!(what.starts_with(begin), "{text}: {what}"),
            _ => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn code_cells_in_order() {
        check(
            r#"{"nbformat":4,"cells":[{"cell_type":"markdown","source":"x"},{"cell_type":"code","source":["a\n","b"],
            "outputs":[{"data":{"image/png":"AAAA"}}]},{"cell_type":"code","source":" \n"},
            {"cell_type":"code","source":"c"},{"cell_type":"raw"}]}"#,
            Ok(&["a\nb", "c"]),
        );
        check(
            r#"{"nbformat":4,"metadata":{"kernelspec":{"name":"python3","language":"python"}},
            "cells":[{"cell_type":"code","source":"a"}]}"#,
            Ok(&["a"]),
        );
        check(
            r#"{"nbformat":4,"metadata":7,"cells":[{"cell_type":"code","source":"a"}]}"#,
            Ok(&["a"]),
        );
    }

    #[test]
    fn what_is_not_a_notebook_is_refused() {
        check("", Err("is not JSON: EOF"));
        check("print(1)", Err("is not JSON"));
        check("\0\0", Err("is not JSON"));
        check("[]", Err("is not of the form of notebooks"));
        check("7", Err("is not of the form of notebooks"));
        check("{}", Err("does not say its format"));
        check(
            r#"{"nbformat":"4"}"#,
            Err("is not of the form of notebooks"),
        );
        check(
            r#"{"nbformat":3,"worksheets":[{"cells":[]}]}"#,
            Err("is of format 3"),
        );
        check(r#"{"nbformat":4}"#, Err("has no code"));
        check(
            r#"{"nbformat":4,"cells":{}}"#,
            Err("is not of the form of notebooks"),
        );
        check(
            r#"{"nbformat":4,"cells":[{"cell_type":"code","source":[1]}]}"#,
            Err("is not of the form of notebooks"),
        );
        check(
            r#"{"nbformat":4,"cells":[{"cell_type":"code","source":"\ud800"}]}"#,
            Err("is not JSON"),
        );
        check(
            r#"{"nbformat":4,"metadata":{"language_info":{"name":"R"}},"cells":[{"cell_type":"code","source":"a"}]}"#,
            Err("is written in R"),
        );
        let deep = format!("{{\"nbformat\":4,\"cells\":{}", "[".repeat(100_000));
        check(&deep, Err("is not"));
    }

    #[test]
    fn only_notebooks_become_another_command() {
        let check = |script: &str, expected: bool| {
            assert_eq!(is_notebook(script.as_ref()), expected, "{script}");
        };
        check("a.ipynb", true);
        check("dir/A.IPYNB", true);
        check("a.py", false);
        check("ipynb", false);
        check("-m", false);
        check("a.ipynb.py", false);
    }
}
