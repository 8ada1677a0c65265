//! What names stand for: a number, a tensor on the device, or a tensor with its graph. Python tells no types, so this
//! follows what comes out of a model and what is done to it, and guesses only at names with "loss" in them.

use std::collections::{HashMap, HashSet};

use super::blocks::{Opens, Program};
use super::tokens::{Kind, Token};

/// How much memory a value keeps alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeps {
    /// Nothing on the device.
    #[default]
    Nothing,
    /// A tensor.
    Tensor,
    /// A tensor and all that its backward pass needs.
    Graph,
}

/// Brackets deeper than this are not looked into.
const DEEPEST: usize = 40;

/// Names that people give to models and to what computes a loss.
const MODELS: &[&str] = &[
    "model",
    "net",
    "network",
    "criterion",
    "loss_fn",
    "loss_function",
    "loss_func",
    "generator",
    "discriminator",
    "encoder",
    "decoder",
    "backbone",
    "policy_net",
    "actor",
    "critic",
    "ddp_model",
    "fsdp_model",
    "unet",
    "vae",
    "llm",
];

/// Functions of `torch.nn.functional` that give a loss.
const LOSSES: &[&str] = &[
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "ctc_loss",
    "triplet_margin_loss",
    "cosine_embedding_loss",
];

/// Calls whose result is no tensor.
const PLAIN_CALLS: &[&str] = &[
    "float",
    "int",
    "bool",
    "len",
    "str",
    "print",
    "range",
    "isinstance",
    "type",
    "id",
    "format",
];

/// Attributes and methods that give no tensor on the device.
const PLAIN_ATTRIBUTES: &[&str] = &[
    "item", "tolist", "numpy", "shape", "size", "dtype", "device", "dim", "numel", "ndim",
];

/// Attributes and methods that leave the graph behind.
const DETACHING: &[&str] = &["detach", "detach_", "data", "argmax", "argmin", "argsort"];

/// How an expression is looked at.
#[derive(Clone, Copy)]
struct Look {
    /// In how many brackets it stands.
    depth: usize,
    /// The most that anything computed here keeps: nothing records a graph below `no_grad`.
    most: Keeps,
}

impl Look {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

/// What is known of names, statement by statement.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    models: HashSet<&'a str>,
    /// Names on which a backward pass begins.
    backward: HashSet<(Option<usize>, &'a str)>,
    /// What functions of the script return.
    returns: HashMap<&'a str, Keeps>,
    names: HashMap<(Option<usize>, String), Keeps>,
    scope: Option<usize>,
}

impl<'a> Values<'a> {
    /// What is known before the first statement.
    pub(super) fn of(program: &Program<'a>) -> Self {
        let mut values = Self {
            models: MODELS.iter().copied().collect(),
            ..Self::default()
        };
        let mut classes: HashSet<&str> = HashSet::new();
        for at in 0..program.statements.len() {
            let tokens = program.tokens(at);
            if program.statements[at].opens == Opens::Class
                && tokens.iter().any(|token| {
                    token.kind == Kind::Word
                        && (token.text.ends_with("Module") || classes.contains(token.text))
                })
            {
                classes.insert(program.name(at));
            }
            if let Some((targets, value)) = assignment(tokens) {
                let made = calls(value).any(|call| {
                    let word = value[call].text;
                    let of_nn = call >= 2
                        && value[call - 2].is_word("nn")
                        && word.starts_with(char::is_uppercase)
                        && word != "Parameter";
                    classes.contains(word) || of_nn || word == "from_pretrained"
                });
                if made && let [target] = targets.as_slice() {
                    values.models.extend(target.last().map(|token| token.text));
                }
            }
            if calls(tokens).any(|call| tokens[call].is_word("backward")) {
                let words = tokens.iter().filter(|token| token.kind == Kind::Word);
                let scope = program.function(at);
                values
                    .backward
                    .extend(words.map(|token| (scope, token.text)));
            }
        }
        values
    }

    /// Takes in what a statement does to names.
    pub(super) fn see(&mut self, program: &Program<'a>, at: usize) {
        self.scope = program.function(at);
        let tokens = program.tokens(at);
        if tokens.first().is_some_and(|token| token.is_word("return")) {
            let keeps = self.at(program, at, &tokens[1..]);
            if let Some(function) = self.scope {
                let known = self.returns.entry(program.name(function)).or_default();
                *known = keeps.max(*known);
            }
            return;
        }
        if let Some((targets, value)) = assignment(tokens) {
            let mut keeps = self.at(program, at, value);
            for target in targets {
                let name = name_of(target);
                let begins = target
                    .last()
                    .is_some_and(|token| self.begins_backward(self.scope, token.text));
                if begins
                    && !self.is_known_call(value)
                    && keeps == Keeps::Nothing
                    && !is_plain(value)
                    && !program.is_without_grad(at)
                {
                    keeps = Keeps::Graph;
                }
                if keeps == Keeps::Nothing && self.may_return_a_loss(value) {
                    // What a function of another file returns is not known.
                    self.names.remove(&(self.scope, name));
                    continue;
                }
                self.names.insert((self.scope, name), keeps);
            }
        } else if let Some((target, value)) = added(tokens) {
            let keeps = self.at(program, at, value);
            let known = self.names.entry((self.scope, name_of(target))).or_default();
            *known = keeps.max(*known);
        }
    }

    /// Whether a function of the script is called, whose results are known.
    fn is_known_call(&self, value: &[Token<'_>]) -> bool {
        calls(value).any(|call| self.returns.contains_key(value[call].text))
    }

    fn may_return_a_loss(&self, value: &[Token<'_>]) -> bool {
        let named = |word: &str| word.contains("step") || word.contains("loss");
        !self.is_known_call(value)
            && !is_plain(value)
            && calls(value).any(|call| named(value[call].text))
    }

    /// What an expression of a statement keeps alive.
    pub(super) fn at(&self, program: &Program<'a>, at: usize, expression: &[Token<'a>]) -> Keeps {
        let most = if program.is_without_grad(at) {
            Keeps::Tensor
        } else {
            Keeps::Graph
        };
        self.of_expression(expression, Look { depth: 0, most })
    }

    /// Whether a backward pass begins at this name in this function.
    pub(super) fn begins_backward(&self, scope: Option<usize>, name: &str) -> bool {
        self.backward.contains(&(scope, name))
    }

    /// Whether a model is run in an expression.
    pub(super) fn runs_model(&self, tokens: &[Token<'_>]) -> bool {
        calls(tokens).any(|call| self.models.contains(tokens[call].text))
    }

    /// Whether a name is a model's.
    pub(super) fn is_model(&self, name: &str) -> bool {
        self.models.contains(name)
    }

    fn of_expression(&self, tokens: &[Token<'a>], look: Look) -> Keeps {
        if look.depth > DEEPEST {
            return Keeps::Nothing;
        }
        let mut keeps = Keeps::Nothing;
        let mut at = 0;
        while at < tokens.len() {
            let is_primary = tokens[at].kind == Kind::Word || opens(&tokens[at]);
            if is_primary {
                let (of_primary, end) = self.of_primary(tokens, at, look);
                keeps = keeps.max(of_primary);
                at = end;
            } else {
                at += 1;
            }
        }
        keeps
    }

    /// A name or a bracket with all that is called on it, and where it ends.
    fn of_primary(&self, tokens: &[Token<'a>], begin: usize, look: Look) -> (Keeps, usize) {
        let mut at = begin;
        let mut keeps = Keeps::Nothing;
        let mut last_word = None;
        if tokens[begin].kind == Kind::Word {
            last_word = Some(tokens[begin].text);
            at += 1;
            let of_self = tokens[begin].is_word("self")
                && tokens.get(at).is_some_and(|token| token.is("."))
                && tokens
                    .get(at + 1)
                    .is_some_and(|token| token.kind == Kind::Word);
            let name = if of_self {
                last_word = Some(tokens[at + 1].text);
                at += 2;
                format!("self.{}", tokens[at - 1].text)
            } else {
                tokens[begin].text.to_owned()
            };
            if !tokens.get(at).is_some_and(|token| token.is("(")) {
                keeps = self.of_name(&name);
            }
        }
        while let Some(token) = tokens.get(at) {
            if token.is(".") {
                let Some(word) = tokens.get(at + 1).filter(|word| word.kind == Kind::Word) else {
                    break;
                };
                last_word = Some(word.text);
                at += 2;
                if PLAIN_ATTRIBUTES.contains(&word.text) {
                    keeps = Keeps::Nothing;
                } else if DETACHING.contains(&word.text) {
                    keeps = keeps.min(Keeps::Tensor);
                } else if word.is_word("cpu") && keeps == Keeps::Tensor {
                    keeps = Keeps::Nothing;
                }
            } else if token.is("(") || token.is("[") || (at == begin && token.is("{")) {
                let end = closing(tokens, at);
                let inner = &tokens[at + 1..end.max(at + 1).min(tokens.len())];
                match last_word {
                    Some(word) if token.is("(") && PLAIN_CALLS.contains(&word) => {
                        keeps = Keeps::Nothing;
                    }
                    Some(word) if token.is("(") && is_plain_or_detaching(word) => {}
                    Some("to")
                        if inner
                            .iter()
                            .any(|token| token.text.trim_matches(['"', '\'']) == "cpu") =>
                    {
                        if keeps == Keeps::Tensor {
                            keeps = Keeps::Nothing;
                        }
                    }
                    Some(word) if token.is("(") => {
                        if self.models.contains(word) || LOSSES.contains(&word) {
                            keeps = look.most;
                        }
                        let returned = self.returns.get(word).copied().unwrap_or_default();
                        keeps = keeps.max(returned.min(look.most));
                        keeps = keeps.max(self.of_expression(inner, look.deeper()));
                    }
                    // An index picks; a bracket by itself holds.
                    Some(_) => {}
                    None => keeps = keeps.max(self.of_expression(inner, look.deeper())),
                }
                at = (end + 1).min(tokens.len());
                last_word = last_word.or(Some(""));
            } else {
                break;
            }
        }
        (keeps, at.max(begin + 1))
    }

    fn of_name(&self, name: &str) -> Keeps {
        let known = self
            .names
            .get(&(self.scope, name.to_owned()))
            .or_else(|| self.names.get(&(None, name.to_owned())));
        let guess = if name.to_lowercase().contains("loss") {
            Keeps::Graph
        } else {
            Keeps::Nothing
        };
        known.copied().unwrap_or(guess)
    }
}

fn is_plain_or_detaching(word: &str) -> bool {
    PLAIN_ATTRIBUTES.contains(&word) || DETACHING.contains(&word) || word == "cpu"
}

/// Whether a value is a number, a text or an empty bracket.
fn is_plain(value: &[Token<'_>]) -> bool {
    !value
        .iter()
        .any(|token| token.kind == Kind::Word && !matches!(token.text, "None" | "True" | "False"))
        || value
            .iter()
            .any(|token| PLAIN_ATTRIBUTES.contains(&token.text))
        || value
            .first()
            .is_some_and(|token| PLAIN_CALLS.contains(&token.text))
}

fn opens(token: &Token<'_>) -> bool {
    token.is("(") || token.is("[") || token.is("{")
}

/// The bracket that closes the one at `open`; the number of tokens when there is none.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if opens(token) {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len()
}

/// The words that are called.
pub(super) fn calls<'t>(tokens: &'t [Token<'_>]) -> impl Iterator<Item = usize> + 't {
    (0..tokens.len()).filter(|&at| {
        tokens[at].kind == Kind::Word && tokens.get(at + 1).is_some_and(|next| next.is("("))
    })
}

/// The arguments of the call of the word at `call`.
pub(super) fn arguments<'t, 'a>(tokens: &'t [Token<'a>], call: usize) -> Vec<&'t [Token<'a>]> {
    let end = closing(tokens, call + 1);
    tokens
        .get(call + 2..end)
        .map(split_at_commas)
        .unwrap_or_default()
}

/// Parts between commas outside brackets; empty ones are left out.
fn split_at_commas<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        if opens(token) {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && token.is(",")
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Whether one of these arguments has this name.
pub(super) fn named<'t, 'a>(arguments: &[&'t [Token<'a>]], name: &str) -> Option<&'t [Token<'a>]> {
    arguments
        .iter()
        .find(|part| part[0].is_word(name) && part.get(1).is_some_and(|token| token.is("=")))
        .map(|part| &part[2..])
}

/// The targets and the value of `a, b = value`.
pub(super) fn assignment<'t, 'a>(
    tokens: &'t [Token<'a>],
) -> Option<(Vec<&'t [Token<'a>]>, &'t [Token<'a>])> {
    let mut depth = 0_usize;
    let mut equals = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if opens(token) {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is("=") {
            equals.push(at);
        }
    }
    let last = *equals.last()?;
    let mut begin = 0;
    let mut targets = Vec::new();
    for at in equals {
        let target = &tokens[begin..at];
        let unannotated = target
            .split(|token| token.is(":"))
            .next()
            .unwrap_or_default();
        targets.extend(split_at_commas(unannotated));
        begin = at + 1;
    }
    Some((targets, &tokens[last + 1..]))
}

/// The target and the value of `a += value`, and of `a = a + value`.
pub(super) fn added<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(&'t [Token<'a>], &'t [Token<'a>])> {
    if let Some(at) = tokens.iter().position(|token| token.is("+=")) {
        return Some((&tokens[..at], &tokens[at + 1..]));
    }
    let at = tokens.iter().position(|token| token.is("="))?;
    let (target, value) = (&tokens[..at], &tokens[at + 1..]);
    let repeated = value.len() > target.len() + 1
        && target
            .iter()
            .zip(value)
            .all(|(one, other)| one.text == other.text)
        && value[target.len()].is("+");
    repeated.then(|| (target, &value[target.len() + 1..]))
}

/// A target as a name: `total`, `self.total`, `stats["loss"]`.
pub(super) fn name_of(target: &[Token<'_>]) -> String {
    target.iter().map(|token| token.text).collect()
}
