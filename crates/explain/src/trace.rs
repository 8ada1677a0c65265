//! Tracebacks: of Python, of notebooks and boxed ones. Most frames lie in libraries; what a user can change is the
//! innermost line of their own.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;

use crate::lines::Line;

/// How many lines above a failure its traceback may begin.
const LONGEST: usize = 600;
/// Most frames that are kept, the innermost.
const MOST_FRAMES: usize = 200;

/// Parts of paths that belong to Python and its packages.
const LIBRARIES: &[&str] = &[
    "site-packages",
    "dist-packages",
    "lib/python3",
    "/lib/python",
    "\\lib\\",
    "<frozen",
    "<string>",
    "<__array_function__",
];

/// A line of Python that was running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The file, or the cell of a notebook.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function; empty when the traceback does not say.
    pub function: String,
    /// The source line, when the traceback shows it.
    pub code: Option<String>,
}

impl Frame {
    /// Whether it is in Python itself or in a package.
    pub(crate) fn is_of_library(&self) -> bool {
        LIBRARIES.iter().any(|part| self.file.contains(part))
    }

    /// `train.py:12`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// The frames in `room`, whose end is the line of a failure, outermost first: those of its own traceback and of the
/// same rank.
pub(crate) fn above(lines: &[Line], room: Range<usize>) -> Vec<Frame> {
    let rank = lines.get(room.end).and_then(|line| line.rank);
    let own = |line: &&Line| rank.is_none() || line.rank == rank || line.rank.is_none();
    let end = room.end.min(lines.len());
    let begin = end.saturating_sub(LONGEST).max(room.start.min(end));
    let mut frames = Vec::new();
    let mut below: Option<&str> = None;
    for line in lines[begin..end].iter().rev().filter(own) {
        let text = line.text.trim();
        if text.contains("Traceback (most recent call last)") {
            break;
        }
        if let Some(mut frame) = frame(text) {
            frame.code = below.map(|code| code.chars().take(200).collect());
            frames.push(frame);
            below = None;
            if frames.len() == MOST_FRAMES {
                break;
            }
        } else if !text.is_empty() {
            // Of the lines between two frames the first is the source; marks below it are not.
            below = Some(arrowed(text));
        }
    }
    frames.reverse();
    frames
}

/// Notebooks mark the line with an arrow and its number.
fn arrowed(text: &str) -> &str {
    let marked = text.trim_start_matches('-').strip_prefix('>');
    let source = marked.map(|rest| {
        rest.trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit())
    });
    source.map_or(text, str::trim)
}

fn frame(text: &str) -> Option<Frame> {
    quoted(text)
        .or_else(|| of_notebook(text))
        .or_else(|| boxed(text))
}

/// `File "train.py", line 12, in main`
fn quoted(text: &str) -> Option<Frame> {
    let (file, rest) = text.strip_prefix("File \"")?.split_once('"')?;
    let rest = rest
        .trim_start_matches(',')
        .trim_start()
        .strip_prefix("line ")?;
    Some(Frame {
        file: file.to_owned(),
        line: leading_number(rest)?,
        function: function(rest),
        code: None,
    })
}

/// `File ~/train.py:12, in main(args)`, `Cell In[3], line 5, in main()`, `<ipython-input-3-0f> in main()`
fn of_notebook(text: &str) -> Option<Frame> {
    if let Some(rest) = text
        .strip_prefix("Cell In")
        .or_else(|| text.strip_prefix("Input In"))
    {
        let (cell, after) = rest.split_once("line ")?;
        let cell = cell.trim().trim_matches(|c| "[],() <>".contains(c));
        return Some(Frame {
            file: format!("cell {cell}"),
            line: leading_number(after)?,
            function: function(after),
            code: None,
        });
    }
    if let Some(rest) = text.strip_prefix("File ") {
        let (file, after) = rest.rsplit_once(", in ").unwrap_or((rest, ""));
        let (file, line) = file.rsplit_once(':')?;
        return Some(Frame {
            file: file.to_owned(),
            line: leading_number(line)?,
            function: name(after),
            code: None,
        });
    }
    let rest = text.strip_prefix("<ipython-input-")?;
    let (cell, after) = rest.split_once("> in ")?;
    Some(Frame {
        file: format!("cell {}", cell.split('-').next().unwrap_or_default()),
        line: 1,
        function: name(after),
        code: None,
    })
}

/// `/home/me/train.py:12 in main`
fn boxed(text: &str) -> Option<Frame> {
    let (place, after) = text.split_once(" in ")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_python = Path::new(file).extension().is_some_and(|end| end == "py");
    if !is_python || file.contains(' ') {
        return None;
    }
    Some(Frame {
        file: file.to_owned(),
        line: leading_number(line).filter(|_| line.bytes().all(|byte| byte.is_ascii_digit()))?,
        function: name(after),
        code: None,
    })
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

fn function(rest: &str) -> String {
    rest.split_once(", in ")
        .map_or_else(String::new, |(_, after)| name(after))
}

fn name(text: &str) -> String {
    let end = text.find(['(', ' ']).unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, u32, &str)>) {
        let found = frame(text);
        let found = found
            .as_ref()
            .map(|frame| (frame.file.as_str(), frame.line, frame.function.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn frames_in_every_dress() {
        check(
            r#"File "/a/train.py", line 12, in main"#,
            Some(("/a/train.py", 12, "main")),
        );
        check(r#"File "train.py", line 12"#, Some(("train.py", 12, "")));
        check(
            "File ~/a/train.py:12, in main(args)",
            Some(("~/a/train.py", 12, "main")),
        );
        check("Cell In[3], line 5, in run()", Some(("cell 3", 5, "run")));
        check("Cell In[3], line 5", Some(("cell 3", 5, "")));
        check(
            "<ipython-input-7-0fae> in train(model)",
            Some(("cell 7", 1, "train")),
        );
        check("/a/train.py:12 in main", Some(("/a/train.py", 12, "main")));
        check("loss = model(x) in train", None);
        check("File \"", None);
    }

    #[test]
    fn the_traceback_above_a_failure_is_its_own() {
        let text = "Traceback (most recent call last):\n  File \"old.py\", line 1, in a\n    x()\nKeyError\n\
            Traceback (most recent call last):\n  File \"train.py\", line 3, in main\n    loss.backward()\n    ^^^^\n\
            RuntimeError";
        let frames = above(&crate::lines::of(text), 0..8);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].code.as_deref(), Some("loss.backward()"));
        assert_eq!(frames[0].place(), "train.py:3");
    }

    #[test]
    fn frames_of_other_ranks_are_left_out() {
        let text = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"a.py\", line 1, in a\n\
            [rank1]:   File \"b.py\", line 2, in b\n[rank0]: error";
        let frames = above(&crate::lines::of(text), 0..3);
        assert_eq!(
            frames.iter().map(Frame::place).collect::<Vec<_>>(),
            ["a.py:1"]
        );
    }
}
