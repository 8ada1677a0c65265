//! Patterns that hold memory, each with the line that would do without. What a pattern means depends on where it
//! stands: layers that are collected in a forward pass are one step's own, losses that are collected in training are not.

use super::blocks::{Opens, Program, switches_off};
use super::tokens::{Kind, Token};
use super::values::{Keeps, Values, added, arguments, assignment, calls, closing, name_of, named};
use super::{Suspect, Suspicion};

/// Most suspects that are kept.
const MOST: usize = 32;
/// Longest code that is shown.
const SHOWN: usize = 300;

/// Names that a whole set of data has.
const WHOLE_SETS: &[&str] = &[
    "dataset",
    "data_set",
    "train_data",
    "test_data",
    "x_train",
    "y_train",
    "x_test",
    "all_data",
    "train_x",
    "train_y",
    "images_all",
    "features_all",
];

/// Steps of trainers, which call them once for each batch.
const STEP_HOOKS: &[&str] = &[
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
];

/// The statements that move a value to a device, and the name before the call.
fn moves<'a>(program: &Program<'a>) -> Vec<(usize, Token<'a>)> {
    (0..program.statements.len())
        .filter_map(|at| {
            let tokens = program.tokens(at);
            let call = moving(tokens)?;
            Some((at, tokens[call - 2]))
        })
        .collect()
}

/// The suspects of a script, in its order.
pub(super) fn suspects(source: &str) -> Vec<Suspect> {
    let program = Program::of(source);
    let values = Values::of(&program);
    let mut rules = Rules {
        clears: program
            .statements
            .iter()
            .flat_map(|statement| &statement.line.tokens)
            .any(|token| token.is_word("zero_grad")),
        evaluates_safely: program
            .statements
            .iter()
            .any(|statement| switches_off(&statement.line.tokens)),
        moves: moves(&program),
        program: &program,
        values,
        found: Vec::new(),
    };
    for at in 0..program.statements.len() {
        rules.look(at);
        rules.values.see(&program, at);
        if rules.found.len() >= MOST {
            break;
        }
    }
    rules.found.sort_by_key(|suspect| suspect.line);
    rules.found
}

struct Rules<'p, 'a> {
    program: &'p Program<'a>,
    values: Values<'a>,
    found: Vec<Suspect>,
    /// Gradients are cleared somewhere.
    clears: bool,
    /// Statements that move a named value to a device, with the name; a script may make an optimizer in every line.
    moves: Vec<(usize, Token<'a>)>,
    /// Graphs are switched off somewhere.
    evaluates_safely: bool,
}

impl Rules<'_, '_> {
    fn look(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        if tokens.is_empty() {
            return;
        }
        self.sums(at);
        self.lists(at);
        self.retained(at);
        self.evaluation(at);
        self.whole_set(at);
        self.loads(at);
        self.early_optimizer(at);
        self.no_zero_grad(at);
        self.empties(at);
    }

    fn add(&mut self, at: usize, does: Suspicion, instead: Option<String>) {
        let line = self.program.statements[at].line.number;
        let known = self
            .found
            .iter()
            .any(|suspect| suspect.line == line && suspect.does == does);
        if known {
            return;
        }
        let code = self.program.code(at);
        self.found.push(Suspect {
            line,
            code: code.chars().take(SHOWN).collect(),
            does,
            why: does.why(),
            instead: instead.filter(|instead| instead.len() <= SHOWN * 2),
        });
    }

    /// Whether gradients are computed in a loop around a statement.
    fn trains(&self, at: usize) -> bool {
        self.program
            .loops(at)
            .any(|block| self.calls_inside(block, &["backward"]))
    }

    fn calls_inside(&self, block: usize, words: &[&str]) -> bool {
        self.program.inside(block).any(|at| {
            let tokens = self.program.tokens(at);
            calls(tokens).any(|call| words.contains(&tokens[call].text))
        })
    }

    /// Whether a name is set anew in a loop.
    fn is_set_in(&self, block: usize, name: &str) -> bool {
        self.program.inside(block).any(|at| {
            let tokens = self.program.tokens(at);
            let set = assignment(tokens)
                .is_some_and(|(targets, _)| targets.iter().any(|target| name_of(target) == name));
            set && added(tokens).is_none()
        })
    }

    /// Whether a statement is part of a module's own computation.
    fn is_in_forward(&self, at: usize) -> bool {
        let function = self.program.function(at).map(|at| self.program.name(at));
        function.is_some_and(|name| name == "forward" || name.starts_with("compute_loss"))
    }

    fn is_in_step_hook(&self, at: usize) -> bool {
        let function = self.program.function(at).map(|at| self.program.name(at));
        function.is_some_and(|name| STEP_HOOKS.contains(&name))
    }

    /// Whether what is kept under this name outlives a step: nothing sets it anew in the innermost loop.
    fn outlives_a_step(&self, at: usize, name: &str) -> bool {
        if self.is_in_forward(at) {
            return false;
        }
        if self.is_in_step_hook(at) {
            return name.starts_with("self.");
        }
        match self.program.loops(at).next() {
            Some(block) => !self.is_set_in(block, name),
            // A line by itself, as people paste it.
            None => self.program.function(at).is_none() && name.to_lowercase().contains("loss"),
        }
    }

    /// `total += loss`
    fn sums(&mut self, at: usize) {
        let Some((target, value)) = added(self.program.tokens(at)) else {
            return;
        };
        let name = name_of(target);
        let last = target.last().map_or("", |token| token.text);
        let one_step_s_own = self.values.begins_backward(self.program.function(at), last)
            && (self.program.loops(at).next().is_none()
                || self
                    .program
                    .loops(at)
                    .any(|block| self.is_set_in(block, &name)));
        if one_step_s_own || self.values.at(self.program, at, value) != Keeps::Graph {
            return;
        }
        let of_loss = value
            .iter()
            .chain(target)
            .any(|token| token.text.to_lowercase().contains("loss"));
        if !(of_loss || self.trains(at)) || !self.outlives_a_step(at, &name) {
            return;
        }
        // Without a loop only a name that says "running sum" tells one from a step's own loss.
        if self.program.loops(at).next().is_none() && !is_running(&name) {
            return;
        }
        let instead = format!(
            "{} += {}",
            self.program.text(target),
            plain(self.program.text(value), value, "item()")
        );
        self.add(at, Suspicion::KeepsGraph, Some(instead));
    }

    /// `losses.append(loss)`
    fn lists(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let call = calls(tokens).find(|&call| tokens[call].is_word("append") && call >= 2);
        let (name, value, call) = match call {
            Some(call) if tokens[call - 1].is(".") => {
                let end = closing(tokens, call + 1);
                let Some(value) = tokens.get(call + 2..end) else {
                    return;
                };
                (name_of(&tokens[..call - 1]), value, call)
            }
            _ => return,
        };
        let keeps = self.values.at(self.program, at, value);
        if keeps == Keeps::Nothing || !self.outlives_a_step(at, &name) {
            return;
        }
        let says = |word: &str| {
            let in_value = value
                .iter()
                .any(|token| token.text.to_lowercase().contains(word));
            in_value || name.to_lowercase().contains(word)
        };
        let of_loss = says("loss");
        let scalar = of_loss || ["acc", "metric", "score"].iter().any(|word| says(word));
        let head = self.program.text(&tokens[..=call]);
        let text = self.program.text(value);
        match keeps {
            Keeps::Graph if of_loss => {
                let instead = format!("{head}({})", plain(text, value, "item()"));
                self.add(at, Suspicion::KeepsGraph, Some(instead));
            }
            Keeps::Graph => {
                let instead = format!("{head}({})", plain(text, value, "detach().cpu()"));
                self.add(at, Suspicion::CollectsOutputs, Some(instead));
            }
            // A number on the device is small.
            Keeps::Tensor if scalar => {}
            Keeps::Tensor => {
                let instead = format!("{head}({})", plain(text, value, "cpu()"));
                self.add(at, Suspicion::CollectsOutputs, Some(instead));
            }
            Keeps::Nothing => {}
        }
    }

    /// `loss.backward(retain_graph=True)`
    fn retained(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let found = calls(tokens).find_map(|call| {
            let all = arguments(tokens, call);
            let value = named(&all, "retain_graph")?;
            value
                .first()
                .is_some_and(|token| token.is_word("True"))
                .then(|| {
                    let others: Vec<&str> = all
                        .iter()
                        .filter(|part| !part[0].is_word("retain_graph"))
                        .map(|part| self.program.text(part))
                        .collect();
                    let end = closing(tokens, call + 1);
                    let behind = tokens.get(end + 1..).unwrap_or_default();
                    format!(
                        "{}({}){}",
                        self.program.text(&tokens[..=call]),
                        others.join(", "),
                        self.program.text(behind)
                    )
                })
        });
        if let Some(instead) = found {
            self.add(at, Suspicion::RetainsGraph, Some(instead));
        }
    }

    /// `model.eval()`, and then the model without `no_grad`.
    fn evaluation(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        if is_eval(tokens) && !self.evaluates_safely {
            let runs_here = (at + 1..self.program.statements.len()).any(|later| {
                self.program.function(later) == self.program.function(at)
                    && self.values.runs_model(self.program.tokens(later))
                    && self.program.loops(later).next().is_some()
            });
            if !runs_here {
                self.add(at, Suspicion::GradInEvaluation, None);
            }
        }
        let runs = self.program.statements[at].opens == Opens::Nothing
            && self.values.runs_model(tokens)
            && !self.program.is_without_grad(at);
        let Some(block) = self.program.loops(at).next().filter(|_| runs) else {
            return;
        };
        if self.calls_inside(block, &["backward", "step"]) || self.is_in_forward(at) {
            return;
        }
        let function = self.program.function(at);
        let named_so = function.is_some_and(|function| is_evaluation(self.program.name(function)));
        let switched = (0..block).rev().find_map(|before| {
            let same = self.program.function(before) == function;
            let tokens = self.program.tokens(before);
            let trains = calls(tokens).any(|call| tokens[call].is_word("train"));
            match () {
                () if !same => None,
                () if is_eval(tokens) => Some(true),
                () if trains => Some(false),
                () => None,
            }
        });
        if !(named_so || switched == Some(true)) || self.is_called_without_grad(function) {
            return;
        }
        let code = self.program.code(block);
        let instead = format!("with torch.no_grad():\n    {code}  # and its block, indented");
        self.add(block, Suspicion::GradInEvaluation, Some(instead));
    }

    /// Whether each call of a function stands where graphs are switched off.
    fn is_called_without_grad(&self, function: Option<usize>) -> bool {
        let Some(function) = function else {
            return false;
        };
        let name = self.program.name(function);
        let mut places = (0..self.program.statements.len()).filter(|&at| {
            let tokens = self.program.tokens(at);
            at != function && calls(tokens).any(|call| tokens[call].is_word(name))
        });
        let first = places.next();
        first.is_some_and(|first| {
            self.program.is_without_grad(first) && places.all(|at| self.program.is_without_grad(at))
        })
    }

    /// `x_train = x_train.to(device)`
    fn whole_set(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let Some((targets, value)) = assignment(tokens) else {
            return;
        };
        let in_loop = self.program.loops(at).next().is_some();
        let [target] = targets.as_slice() else {
            return;
        };
        let Some(call) = moving(value).filter(|_| !in_loop) else {
            return;
        };
        let name = name_of(target);
        let plain_name = target.last().map_or("", |token| token.text);
        if self.values.is_model(plain_name) || self.is_in_forward(at) {
            return;
        }
        let lower = name.to_lowercase();
        let says_so = WHOLE_SETS.iter().any(|word| lower.contains(word));
        let of_argument = self.program.function(at).is_some_and(|function| {
            let header = self.program.tokens(function);
            let has = |word: &str| header.iter().skip(2).any(|token| token.is_word(word));
            has(plain_name) || has(value[0].text)
        });
        let sliced = self.is_sliced_in_a_loop(at, plain_name);
        if !(says_so || (sliced && !of_argument)) {
            return;
        }
        let end = closing(value, call + 1);
        let instead = format!(
            "{} = {}{}  # and move each batch where it is used",
            self.program.text(target),
            self.program.text(&value[..call - 1]),
            self.program.text(value.get(end + 1..).unwrap_or_default())
        );
        self.add(at, Suspicion::WholeDataOnDevice, Some(instead));
    }

    /// Whether a later loop takes parts of it.
    fn is_sliced_in_a_loop(&self, at: usize, name: &str) -> bool {
        (at + 1..self.program.statements.len()).any(|later| {
            let tokens = self.program.tokens(later);
            let sliced = tokens.windows(3).any(|three| {
                three[0].is_word(name) && three[1].is("[") && three[2].kind == Kind::Word
            });
            let loops = self.program.loops(later).next().is_some();
            let in_set = calls(tokens).any(|call| {
                tokens[call].is_word("TensorDataset")
                    && arguments(tokens, call)
                        .iter()
                        .any(|part| part[0].is_word(name))
            });
            (sliced && loops) || in_set
        })
    }

    /// `torch.load(path)`
    fn loads(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let found = calls(tokens).find(|&call| {
            call >= 2 && tokens[call].is_word("load") && tokens[call - 2].is_word("torch")
        });
        let Some(call) = found else { return };
        let all = arguments(tokens, call);
        let positional = all
            .iter()
            .filter(|part| !part.get(1).is_some_and(|token| token.is("=")))
            .count();
        if named(&all, "map_location").is_some() || positional > 1 || all.is_empty() {
            return;
        }
        let end = closing(tokens, call + 1);
        let inner: Vec<&str> = all.iter().map(|part| self.program.text(part)).collect();
        let behind = tokens.get(end + 1..).unwrap_or_default();
        let instead = format!(
            "{}({}, map_location=\"cpu\"){}",
            self.program.text(&tokens[..=call]),
            inner.join(", "),
            self.program.text(behind)
        );
        self.add(at, Suspicion::LoadsOntoDevice, Some(instead));
    }

    /// An optimizer made of parameters that are moved later.
    fn early_optimizer(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let of_optimizer = tokens
            .iter()
            .any(|token| token.text.to_lowercase().contains("optim"));
        let owner = tokens.windows(4).find_map(|four| {
            let is = four[1].is(".") && four[2].is_word("parameters") && four[3].is("(");
            is.then_some(four[0].text)
        });
        let Some(owner) = owner.filter(|_| of_optimizer && assignment(tokens).is_some()) else {
            return;
        };
        let moved = self.moves.iter().any(|(later, name)| {
            *later > at
                && name.is_word(owner)
                && self.program.function(*later) == self.program.function(at)
        });
        if moved {
            self.add(at, Suspicion::OptimizerBeforeMove, None);
        }
    }

    /// Steps of an optimizer in a script that never clears gradients.
    fn no_zero_grad(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let steps = calls(tokens).find(|&call| {
            call >= 2
                && tokens[call].is_word("step")
                && tokens[call - 2].text.to_lowercase().contains("opt")
        });
        let Some(call) = steps.filter(|_| !self.clears && self.trains(at)) else {
            return;
        };
        let optimizer = self.program.text(&tokens[..call - 1]);
        let code = self.program.code(at);
        self.add(
            at,
            Suspicion::AddsGradients,
            Some(format!("{code}\n{optimizer}.zero_grad(set_to_none=True)")),
        );
    }

    /// `torch.cuda.empty_cache()` in every step.
    fn empties(&mut self, at: usize) {
        let tokens = self.program.tokens(at);
        let empties = calls(tokens).any(|call| tokens[call].is_word("empty_cache"));
        let Some(block) = self.program.loops(at).next().filter(|_| empties) else {
            return;
        };
        // Between the epochs of an outer loop it is in its place.
        let works_here = self.program.inside(block).any(|other| {
            let tokens = self.program.tokens(other);
            let works = self.values.runs_model(tokens)
                || calls(tokens).any(|call| tokens[call].is_word("backward"));
            works && self.program.loops(other).next() == Some(block)
        });
        if works_here {
            self.add(at, Suspicion::EmptiesCacheInSteps, None);
        }
    }
}

/// `loss` becomes `loss.item()`, `loss * n` becomes `(loss * n).item()`.
fn plain(text: &str, tokens: &[Token<'_>], method: &str) -> String {
    let mut depth = 0_usize;
    let joined = tokens.iter().any(|token| {
        if token.is("(") || token.is("[") || token.is("{") {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && token.kind == Kind::Sign && !matches!(token.text, "." | ")" | "]" | "}")
    });
    let bracketed = tokens.first().is_some_and(|token| token.is("["));
    match tokens.iter().any(|token| token.is(",")) && joined {
        // A tuple takes the method on each of its parts.
        true => text
            .split(',')
            .map(|part| format!("{}.{method}", part.trim()))
            .collect::<Vec<_>>()
            .join(", "),
        false if joined || bracketed => format!("({text}).{method}"),
        false => format!("{text}.{method}"),
    }
}

fn is_running(name: &str) -> bool {
    let name = name.to_lowercase();
    [
        "total",
        "running",
        "epoch",
        "sum",
        "avg",
        "mean",
        "train_loss",
        "val_loss",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// `model.eval()`
fn is_eval(tokens: &[Token<'_>]) -> bool {
    calls(tokens).any(|call| {
        call >= 2
            && tokens[call].is_word("eval")
            && tokens[call - 1].is(".")
            && closing(tokens, call + 1) == call + 2
    })
}

/// Names of functions that evaluate.
fn is_evaluation(name: &str) -> bool {
    name.to_lowercase().split('_').any(|word| {
        [
            "eval",
            "evaluate",
            "evaluation",
            "valid",
            "validate",
            "validation",
            "val",
            "test",
            "predict",
            "infer",
            "inference",
        ]
        .contains(&word)
    })
}

/// The call that moves a value to the device: `.cuda(`, `.to(device)`.
fn moving(tokens: &[Token<'_>]) -> Option<usize> {
    calls(tokens).find(|&call| {
        if call < 2 || !tokens[call - 1].is(".") {
            return false;
        }
        let to_device = arguments(tokens, call).first().is_some_and(|first| {
            let text = first[first.len() - 1].text.to_lowercase();
            let quoted = text.trim_matches(['"', '\'']);
            let kind = quoted.split(':').next().unwrap_or_default();
            text.contains("cuda")
                || text.contains("device")
                || text == "gpu"
                || ["mps", "xpu", "npu"].contains(&kind)
        });
        tokens[call].is_word("cuda") || (tokens[call].is_word("to") && to_device)
    })
}
