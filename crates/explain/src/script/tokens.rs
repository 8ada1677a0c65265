//! Python's words. A script that is still being written has to be read, too, so nothing is refused: an open string ends
//! with its line or with the file, and brackets that are never closed merely make one long line.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    Number,
    /// A string with its quotes.
    Text,
    /// An operator, a bracket, a comma.
    Sign,
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Where it begins in the source.
    pub(super) at: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// A logical line: what Python takes as one, however many lines of the file it has.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    /// Columns before it.
    pub(super) indent: usize,
    /// The line of the file it begins in, from 1.
    pub(super) number: u32,
    pub(super) tokens: Vec<Token<'a>>,
}

/// Signs of more than one character.
const LONG_SIGNS: &[&str] = &[
    "**=", "//=", ">>=", "<<=", "...", "+=", "-=", "*=", "/=", "%=", "@=", "&=", "|=", "^=", "==",
    "!=", "<=", ">=", "->", ":=", "**", "//", "<<", ">>",
];

/// The logical lines of a script.
pub(super) fn lines(source: &str) -> Vec<Line<'_>> {
    let mut reader = Reader {
        source,
        at: 0,
        number: 1,
    };
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut line: Option<Line<'_>> = None;
    let mut indent = 0;
    let mut depth = 0_usize;
    let mut fresh = true;
    while let Some(first) = reader.peek() {
        match first {
            '\n' => {
                reader.skip(first);
                if depth == 0 {
                    lines.extend(line.take());
                    indent = 0;
                    fresh = true;
                }
            }
            ' ' | '\t' | '\r' | '\x0c' | '\u{feff}' => {
                if fresh && depth == 0 && line.is_none() {
                    indent = match first {
                        '\t' => (indent / 8 + 1) * 8,
                        ' ' => indent + 1,
                        _ => indent,
                    };
                }
                reader.skip(first);
            }
            '#' => reader.skip_while(|c| c != '\n'),
            '\\' => {
                reader.skip(first);
                reader.skip_while(|c| c == '\r');
                if reader.peek() == Some('\n') {
                    reader.skip('\n');
                }
            }
            ';' if depth == 0 => {
                reader.skip(first);
                lines.extend(line.take());
            }
            _ => {
                fresh = false;
                let number = reader.number;
                let token = reader.token(first);
                match token.text {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                line.get_or_insert_with(|| Line {
                    indent,
                    number,
                    tokens: Vec::new(),
                })
                .tokens
                .push(token);
            }
        }
    }
    lines.extend(line);
    lines
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    number: u32,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, c: char) {
        self.at += c.len_utf8();
        self.number += u32::from(c == '\n');
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        while let Some(c) = self.peek().filter(|&c| wanted(c)) {
            self.skip(c);
        }
    }

    fn token(&mut self, first: char) -> Token<'a> {
        let at = self.at;
        let kind = if first == '"' || first == '\'' {
            self.string(first);
            Kind::Text
        } else if first.is_ascii_digit() {
            self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            Kind::Number
        } else if first.is_alphanumeric() || first == '_' {
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
            let prefix = &self.source[at..self.at];
            let is_prefix = prefix.len() <= 2
                && prefix
                    .chars()
                    .all(|c| "rbfut".contains(c.to_ascii_lowercase()));
            match self.peek() {
                Some(quote @ ('"' | '\'')) if is_prefix => {
                    self.string(quote);
                    Kind::Text
                }
                _ => Kind::Word,
            }
        } else {
            let long = LONG_SIGNS
                .iter()
                .find(|sign| self.rest().starts_with(**sign));
            match long {
                Some(sign) => self.at += sign.len(),
                None => self.skip(first),
            }
            Kind::Sign
        };
        Token {
            kind,
            text: &self.source[at..self.at],
            at,
        }
    }

    fn string(&mut self, quote: char) {
        let triple: String = [quote; 3].iter().collect();
        let is_triple = self.rest().starts_with(&triple);
        self.at += if is_triple { 3 } else { 1 };
        while let Some(c) = self.peek() {
            if is_triple && self.rest().starts_with(&triple) {
                self.at += 3;
                return;
            }
            if !is_triple && c == '\n' {
                return;
            }
            self.skip(c);
            if !is_triple && c == quote {
                return;
            }
            if c == '\\'
                && let Some(escaped) = self.peek()
            {
                self.skip(escaped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(u32, usize, &str)]) {
        let found: Vec<(u32, usize, String)> = lines(source)
            .into_iter()
            .map(|line| {
                let words: Vec<&str> = line.tokens.iter().map(|token| token.text).collect();
                (line.number, line.indent, words.join(" "))
            })
            .collect();
        let expected: Vec<(u32, usize, String)> = expected
            .iter()
            .map(|&(number, indent, words)| (number, indent, words.to_owned()))
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn logical_lines() {
        check("a += b.c()\n", &[(1, 0, "a += b . c ( )")]);
        check("f(a,\n  b)\nc", &[(1, 0, "f ( a , b )"), (3, 0, "c")]);
        check("a = 1 + \\\n  2\nb", &[(1, 0, "a = 1 + 2"), (3, 0, "b")]);
        check(
            "if x:\n\ty # z\n\n  # w\n",
            &[(1, 0, "if x :"), (2, 8, "y")],
        );
        check("  a; b", &[(1, 2, "a"), (1, 2, "b")]);
        check("s = '#'; t", &[(1, 0, "s = '#'"), (1, 0, "t")]);
        check(
            "\"\"\"a\nb\"\"\"\nc",
            &[(1, 0, "\"\"\"a\nb\"\"\""), (3, 0, "c")],
        );
        check("f'{a}' rb\"x\"", &[(1, 0, "f'{a}' rb\"x\"")]);
        check("'open\nb", &[(1, 0, "'open"), (2, 0, "b")]);
        check("f(\nx", &[(1, 0, "f ( x")]);
        check(r"'a\'b' c", &[(1, 0, r"'a\'b' c")]);
        check("größe = 1e-3", &[(1, 0, "größe = 1e - 3")]);
        check("", &[]);
    }
}
