//! What ids in records stand for. A profile may be damaged, so an id that was never declared means nothing, and never
//! stops anything.

use oomproof_profile::Record;

/// Texts, source lines and modules, by id.
#[derive(Debug, Default)]
pub(crate) struct Legend {
    texts: Vec<String>,
    sites: Vec<[u32; 3]>,
    modules: Vec<u32>,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceLine<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) function: &'a str,
}

impl Legend {
    /// Takes note of a declaration; other records are none of its business.
    pub(crate) fn declare(&mut self, record: &Record) {
        match record {
            Record::Text(text) => self.texts.push(text.clone()),
            Record::Site {
                file,
                line,
                function,
            } => self.sites.push([*file, *line, *function]),
            Record::Module { path, .. } => self.modules.push(*path),
            _ => {}
        }
    }

    /// The text of an id.
    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        of(&self.texts, id).map(String::as_str)
    }

    /// The source line of an id.
    pub(crate) fn source_line(&self, id: u32) -> Option<SourceLine<'_>> {
        let [file, line, function] = *of(&self.sites, id)?;
        Some(SourceLine {
            file: self.text(file)?,
            line,
            function: self.text(function).unwrap_or_default(),
        })
    }

    /// `file:line` of a source line.
    pub(crate) fn place(&self, id: u32) -> Option<String> {
        let SourceLine { file, line, .. } = self.source_line(id)?;
        Some(format!("{file}:{line}"))
    }

    /// The lever of the plan that did what was done at a line; the agent names it where others have a function.
    pub(crate) fn lever(&self, id: u32) -> Option<&str> {
        self.source_line(id)?.function.strip_prefix("lever ")
    }

    /// The dotted path of a module.
    pub(crate) fn module(&self, id: u32) -> Option<&str> {
        self.text(*of(&self.modules, id)?)
    }
}

fn of<T>(declared: &[T], id: u32) -> Option<&T> {
    declared.get((id as usize).checked_sub(1)?)
}
