//! The card as a bar: who holds which part of it.
//!
//! Each kind of memory has a glyph of its own, so that the bar reads the same without color and on a terminal
//! without Unicode.

use oomproof_profile::Role;
use oomproof_units::Bytes;
use owo_colors::{AnsiColors, OwoColorize};

/// Width of the bar in cells.
pub(crate) const CELLS: usize = 64;

/// Which characters the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// Block characters.
    Unicode,
    /// Letters and punctuation.
    Ascii,
}

impl Glyphs {
    /// What the locale of this process promises.
    pub(crate) fn of_locale() -> Self {
        if cfg!(not(target_os = "linux")) {
            return Self::Unicode;
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.is_empty())
            .unwrap_or_default()
            .to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }
}

/// A kind of memory on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Allocated, in a role.
    Role(Role),
    /// Reserved by PyTorch and not allocated at that moment.
    Cached,
    /// The context, and libraries outside PyTorch's allocator.
    Context,
    /// Tensors of which only that they are alive is known.
    Live,
    /// Used, by whom is not told.
    Untold,
    /// Other processes.
    Others,
    /// Nobody's.
    Free,
}

impl Part {
    /// The glyph, colored; whoever prints to something that is not a terminal strips the color.
    pub(crate) fn glyph(self, glyphs: Glyphs) -> String {
        let (unicode, ascii, color) = match self {
            Self::Role(Role::Parameter) => ('█', 'P', AnsiColors::Blue),
            Self::Role(Role::Gradient) => ('▓', 'G', AnsiColors::Cyan),
            Self::Role(Role::OptimizerState) => ('▒', 'O', AnsiColors::Magenta),
            Self::Role(Role::Activation) => ('▚', 'A', AnsiColors::Yellow),
            Self::Role(Role::Buffer) => ('▌', 'B', AnsiColors::Green),
            Self::Role(Role::Input) => ('▝', 'I', AnsiColors::Green),
            Self::Role(Role::Temporary) => ('▖', 'T', AnsiColors::Red),
            Self::Role(Role::Workspace) => ('▄', 'W', AnsiColors::Red),
            Self::Role(Role::Unknown) => ('?', '?', AnsiColors::White),
            Self::Cached => ('░', '-', AnsiColors::BrightBlack),
            Self::Context => ('▀', 'C', AnsiColors::BrightBlack),
            Self::Live => ('█', 'L', AnsiColors::Blue),
            Self::Untold => ('▞', 'u', AnsiColors::White),
            Self::Others => ('x', 'x', AnsiColors::BrightBlack),
            Self::Free => ('·', '.', AnsiColors::BrightBlack),
        };
        let glyph = match glyphs {
            Glyphs::Unicode => unicode,
            Glyphs::Ascii => ascii,
        };
        glyph.color(color).to_string()
    }
}

/// One line: `parts` to the scale of `whole`, and what is left of it as free.
pub(crate) fn bar(parts: &[(Part, Bytes)], whole: Bytes, glyphs: Glyphs) -> String {
    let held: Bytes = parts.iter().map(|&(_, size)| size).sum();
    let mut all = parts.to_vec();
    all.push((Part::Free, whole.saturating_sub(held)));
    let sizes: Vec<Bytes> = all.iter().map(|&(_, size)| size).collect();
    let cells: String = all
        .iter()
        .zip(share(&sizes))
        .map(|(&(part, _), count)| part.glyph(glyphs).repeat(count))
        .collect();
    match glyphs {
        Glyphs::Unicode => format!("▕{cells}▏"),
        Glyphs::Ascii => format!("[{cells}]"),
    }
}

/// Shares [`CELLS`] among `sizes`: whole cells first, the rest to those with the largest remainders.
fn share(sizes: &[Bytes]) -> Vec<usize> {
    let total: u128 = sizes.iter().map(|size| u128::from(size.get())).sum();
    if total == 0 {
        return vec![0; sizes.len()];
    }
    let exact = |size: &Bytes| u128::from(size.get()) * CELLS as u128;
    let mut cells: Vec<usize> = sizes
        .iter()
        .map(|size| (exact(size) / total) as usize)
        .collect();
    let mut by_remainder: Vec<usize> = (0..sizes.len()).collect();
    by_remainder.sort_by_key(|&at| std::cmp::Reverse(exact(&sizes[at]) % total));
    let left = CELLS - cells.iter().sum::<usize>();
    for &at in by_remainder.iter().take(left) {
        cells[at] += 1;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[u64], expected: &[usize]) {
        let sizes: Vec<Bytes> = sizes.iter().map(|&size| Bytes::new(size)).collect();
        let cells = share(&sizes);
        assert_eq!(cells, expected, "{sizes:?}");
    }

    #[test]
    fn all_cells_are_shared() {
        check(&[1], &[CELLS]);
        check(&[1, 1], &[32, 32]);
        check(&[1, 1, 1], &[22, 21, 21]);
        check(&[0, 5], &[0, CELLS]);
        check(&[u64::MAX, u64::MAX], &[32, 32]);
        check(&[1, 1_000_000], &[0, CELLS]);
    }

    #[test]
    fn an_empty_card_has_no_cells() {
        check(&[], &[]);
        check(&[0, 0], &[0, 0]);
    }

    #[test]
    fn ascii_needs_no_unicode() {
        let parts = [(Part::Role(Role::Parameter), Bytes::from_gib(1))];
        let colored = bar(&parts, Bytes::from_gib(2), Glyphs::Ascii);
        let plain = anstream::adapter::strip_str(&colored).to_string();
        assert_eq!(plain, format!("[{}{}]", "P".repeat(32), ".".repeat(32)));
    }
}
