//! Libraries that need more of CUDA than the virtual device has. They do not load, and packages tend to carry on without
//! them, as another program than the one on a GPU.

use crate::notes::Note;
use crate::verdict::Assumption;

/// More names than these make no one wiser.
const MOST_NAMED: usize = 12;

pub(super) fn missing_functions(note: &Note) -> Option<Assumption> {
    let library = note.text("library")?;
    let functions = names(note, "functions");
    let libraries = names(note, "libraries");
    let (named, what) = match (functions.as_slice(), libraries.as_slice()) {
        ([], []) => return None,
        ([], libraries) => (libraries, "libraries that are not modeled"),
        (functions, _) => (functions, "functions that are not modeled"),
    };
    let text = format!(
        "{library} needs {what}: {}; it does not work here, and what the script does without it may take other memory",
        listed(named)
    );
    Some(Assumption {
        kind: "missing_functions".to_owned(),
        text,
        r#where: note.text("where").map(str::to_owned),
    })
}

fn names<'a>(note: &'a Note, field: &str) -> Vec<&'a str> {
    let listed = note.fields.get(field).and_then(|names| names.as_array());
    listed
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect()
}

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named: Vec<_> = names.iter().copied().take(MOST_NAMED).collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
