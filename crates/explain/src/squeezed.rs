//! The text without what pasting does to it. Terminals wrap anywhere, even inside a word; people quote; launchers put
//! a rank before every line; notebooks color. So words are compared in a text that has no white space, no case and
//! nothing but ASCII, and each place in it knows its line.

/// A text made comparable.
#[derive(Debug, Default)]
pub(crate) struct Squeezed {
    text: String,
    /// Where in `text` each line that left something begins: offset and line number from 0.
    lines: Vec<(usize, usize)>,
}

impl Squeezed {
    /// Squeezes these lines, whose prefixes are gone already.
    pub(crate) fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut squeezed = Self::default();
        for (number, line) in lines.enumerate() {
            let before = squeezed.text.len();
            let kept = line.bytes().filter(u8::is_ascii_graphic);
            let lower = kept.map(|byte| char::from(byte.to_ascii_lowercase()));
            squeezed.text.extend(lower);
            if squeezed.text.len() > before {
                squeezed.lines.push((before, number));
            }
        }
        squeezed
    }

    /// The text; all of it is ASCII, so that it may be cut anywhere.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The line, from 0, of this place.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let after = self.lines.partition_point(|&(begin, _)| begin <= offset);
        after.checked_sub(1).map_or(0, |index| self.lines[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_knows_its_line() {
        let squeezed = Squeezed::of("CUDA out\n\n of mem\nory. Tried".lines());
        assert_eq!(squeezed.text(), "cudaoutofmemory.tried");
        assert_eq!([0, 6, 7, 12].map(|at| squeezed.line_at(at)), [0, 0, 2, 3]);
        assert_eq!(Squeezed::default().line_at(7), 0);
    }
}
