//! Which statement stands in which loop, function and `with`. What a line does to memory depends on that more than on
//! its own words: a sum of losses is harmless in the forward pass of one step.

use super::tokens::{self, Kind, Line, Token};

/// What opens a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    Loop,
    With,
    Function,
    Class,
    /// `if`, `try` and so on.
    Other,
    Nothing,
}

/// One statement.
#[derive(Clone, Debug)]
pub(super) struct Statement<'a> {
    pub(super) line: Line<'a>,
    /// The statement in whose block it stands.
    pub(super) parent: Option<usize>,
    pub(super) opens: Opens,
    /// Decorators of a function or class.
    pub(super) decorators: Vec<usize>,
}

/// A whole script.
#[derive(Clone, Debug)]
pub(super) struct Program<'a> {
    source: &'a str,
    pub(super) statements: Vec<Statement<'a>>,
}

/// Most statements that are read: rules look from one statement at all others, so time grows with their square.
const MOST_STATEMENTS: usize = 1000;

/// Words that switch off the recording of graphs.
const WITHOUT_GRAD: &[&str] = &["no_grad", "inference_mode"];

impl<'a> Program<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let mut program = Self {
            source,
            statements: Vec::new(),
        };
        // Blocks that are open, with their indentation.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut decorators: Vec<usize> = Vec::new();
        let newlines: Vec<usize> = source.match_indices('\n').map(|(at, _)| at).collect();
        for line in tokens::lines(source) {
            if program.statements.len() >= MOST_STATEMENTS {
                break;
            }
            while open
                .last()
                .is_some_and(|&(indent, _)| indent >= line.indent)
            {
                open.pop();
            }
            let parent = open.last().map(|&(_, at)| at);
            let at = program.statements.len();
            let is_decorator = line.tokens.first().is_some_and(|token| token.is("@"));
            let (opens, colon) = opening(&line.tokens);
            let indent = line.indent;
            let number = line.number;
            let mut tokens = line.tokens;
            let behind = colon.map(|colon| tokens.split_off(colon + 1));
            program.statements.push(Statement {
                line: Line {
                    indent,
                    number,
                    tokens,
                },
                parent,
                opens,
                decorators: Vec::new(),
            });
            if is_decorator {
                decorators.push(at);
                continue;
            }
            program.statements[at].decorators = std::mem::take(&mut decorators);
            match behind {
                None => {}
                Some(rest) if rest.is_empty() => open.push((indent, at)),
                // `for x in y: f(x)`
                Some(rest) => {
                    let at_newline = newlines.partition_point(|&newline| newline < rest[0].at);
                    program.statements.push(Statement {
                        line: Line {
                            indent,
                            number: at_newline as u32 + 1,
                            tokens: rest,
                        },
                        parent: Some(at),
                        opens: Opens::Nothing,
                        decorators: Vec::new(),
                    });
                }
            }
        }
        program
    }

    pub(super) fn tokens(&self, at: usize) -> &[Token<'a>] {
        &self.statements[at].line.tokens
    }

    /// The text of a statement.
    pub(super) fn code(&self, at: usize) -> &'a str {
        self.text(self.tokens(at))
    }

    /// The source from the first of these tokens to the last.
    pub(super) fn text(&self, tokens: &[Token<'_>]) -> &'a str {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => &self.source[first.at..last.end()],
            _ => "",
        }
    }

    /// The blocks around a statement, the innermost first.
    pub(super) fn around(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.statements[at].parent, |&at| self.statements[at].parent)
    }

    /// The loops around a statement, within its own function, the innermost first.
    pub(super) fn loops(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.around(at)
            .take_while(|&block| self.statements[block].opens != Opens::Function)
            .filter(|&block| self.statements[block].opens == Opens::Loop)
    }

    /// The function around a statement.
    pub(super) fn function(&self, at: usize) -> Option<usize> {
        self.around(at)
            .find(|&block| self.statements[block].opens == Opens::Function)
    }

    /// The name of a function or class.
    pub(super) fn name(&self, at: usize) -> &'a str {
        let tokens = self.tokens(at);
        let word = tokens
            .iter()
            .position(|token| token.is_word("def") || token.is_word("class"));
        word.and_then(|word| tokens.get(word + 1))
            .map_or("", |token| token.text)
    }

    /// The statements in a block, at any depth.
    pub(super) fn inside(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        // A block is closed by the first later statement that is not in it.
        (block + 1..self.statements.len())
            .take_while(move |&at| self.around(at).any(|around| around == block))
    }

    /// Whether the block or the function around a statement switches graphs off.
    pub(super) fn is_without_grad(&self, at: usize) -> bool {
        self.around(at).any(|block| {
            let statement = &self.statements[block];
            match statement.opens {
                Opens::With => switches_off(self.tokens(block)),
                Opens::Function | Opens::Class => statement
                    .decorators
                    .iter()
                    .any(|&decorator| switches_off(self.tokens(decorator))),
                _ => false,
            }
        })
    }
}

/// `torch.no_grad()`, `inference_mode()`, `set_grad_enabled(False)`.
pub(super) fn switches_off(tokens: &[Token<'_>]) -> bool {
    let named = tokens
        .iter()
        .any(|token| token.kind == Kind::Word && WITHOUT_GRAD.contains(&token.text));
    let set = tokens
        .windows(3)
        .any(|three| three[0].is_word("set_grad_enabled") && three[2].is_word("False"));
    named || set
}

/// What a line opens, and the colon behind which its block begins.
fn opening(tokens: &[Token<'_>]) -> (Opens, Option<usize>) {
    let words: Vec<&str> = tokens
        .iter()
        .take(2)
        .filter(|token| token.kind == Kind::Word)
        .map(|token| token.text)
        .collect();
    let first = match words.as_slice() {
        ["async", second, ..] => second,
        [first, ..] if tokens[0].kind == Kind::Word => first,
        _ => return (Opens::Nothing, None),
    };
    let opens = match *first {
        "for" | "while" => Opens::Loop,
        "with" => Opens::With,
        "def" => Opens::Function,
        "class" => Opens::Class,
        "if" | "elif" | "else" | "try" | "except" | "finally" => Opens::Other,
        "match" | "case" if tokens.last().is_some_and(|token| token.is(":")) => Opens::Other,
        _ => return (Opens::Nothing, None),
    };
    let mut depth = 0_usize;
    let mut lambdas = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "lambda" if depth == 0 => lambdas += 1,
            ":" if depth == 0 && lambdas > 0 => lambdas -= 1,
            ":" if depth == 0 => return (opens, Some(at)),
            _ => {}
        }
    }
    (opens, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
@torch.no_grad()
def evaluate(model):
    for x in loader:
        if x: model(x)
for a in b:
    with torch.inference_mode(), amp():
        c(a)
    d(lambda: 1)
e()
";

    fn find(program: &Program<'_>, code: &str) -> usize {
        (0..program.statements.len())
            .find(|&at| program.code(at) == code)
            .unwrap_or_else(|| panic!("{code}"))
    }

    fn check(code: &str, n_loops: usize, without_grad: bool, function: Option<&str>) {
        let program = Program::of(SCRIPT);
        let at = find(&program, code);
        assert_eq!(program.loops(at).count(), n_loops, "{code}");
        assert_eq!(program.is_without_grad(at), without_grad, "{code}");
        let name = program.function(at).map(|at| program.name(at));
        assert_eq!(name, function, "{code}");
    }

    #[test]
    fn statements_know_their_blocks() {
        check("model(x)", 1, true, Some("evaluate"));
        check("c(a)", 1, true, None);
        check("d(lambda: 1)", 1, false, None);
        check("e()", 0, false, None);
    }

    #[test]
    fn blocks_end() {
        let program = Program::of(SCRIPT);
        let outer = find(&program, "for a in b:");
        let inside: Vec<&str> = program.inside(outer).map(|at| program.code(at)).collect();
        assert_eq!(
            inside,
            [
                "with torch.inference_mode(), amp():",
                "c(a)",
                "d(lambda: 1)"
            ]
        );
    }
}
