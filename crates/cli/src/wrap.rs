//! Text in lines of a width, for people: what is said is made of sentences of any length.

use std::fmt::{self, Write as _};

/// Where lines begin and end.
#[derive(Clone, Copy)]
pub(crate) struct Margins<'a> {
    /// What the first line begins with. The further ones are indented as far; a rule (`|`) goes on beside them.
    pub(crate) lead: &'a str,
    /// The most characters of a line; a longer word stands alone.
    pub(crate) line: usize,
}

/// Adds the words of `text` in lines between `margins`.
pub(crate) fn wrap(out: &mut String, text: &str, margins: Margins) -> fmt::Result {
    let Margins { lead, line: width } = margins;
    let blank = if lead.contains('|') {
        lead.to_owned()
    } else {
        " ".repeat(lead.chars().count())
    };
    let mut line = lead.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            writeln!(out, "{line}")?;
            line.clone_from(&blank);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", line.trim_end())
}
