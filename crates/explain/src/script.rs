//! The user's script, when it is named: lines that are known to keep memory alive, and what to write instead. It is
//! read as Python is, by statements and blocks, but never run, so a line is a suspect and never a proof.

use serde::Serialize;

mod blocks;
mod rules;
mod tokens;
mod values;

/// Longest script that is read, in bytes; generated code is longer and tells nothing.
const LONGEST: usize = 4 << 20;

/// What a line may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    /// Adds a loss with its graph to a sum or a list.
    KeepsGraph,
    /// Keeps the graph on purpose.
    RetainsGraph,
    /// Collects outputs on the device.
    CollectsOutputs,
    /// Evaluates without `no_grad`.
    GradInEvaluation,
    /// Puts a whole data set on the device.
    WholeDataOnDevice,
    /// Reads a checkpoint onto the device.
    LoadsOntoDevice,
    /// Makes the optimizer before the model is moved.
    OptimizerBeforeMove,
    /// Takes steps, and nothing ever clears the gradients.
    AddsGradients,
    /// Clears the cache in each step.
    EmptiesCacheInSteps,
}

impl Suspicion {
    /// What it does to memory, for a sentence of its own.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::KeepsGraph => "the graph of every step stays alive, and memory grows with each",
            Self::RetainsGraph => {
                "the graph survives its backward pass; a state that is carried on needs `.detach()` instead"
            }
            Self::CollectsOutputs => "the outputs of all batches stay on the card",
            Self::GradInEvaluation => {
                "without `torch.no_grad()` each batch keeps what a backward pass would need"
            }
            Self::WholeDataOnDevice => "all of the data is on the card, and a step needs one batch",
            Self::LoadsOntoDevice => {
                "what was saved on a GPU is read back onto it, beside the live model"
            }
            Self::OptimizerBeforeMove => {
                "the optimizer is made before its parameters are moved; make it after, or state that is loaded in between stays where it was"
            }
            Self::AddsGradients => {
                "gradients of all steps add up: results are wrong, and memory does not grow by it"
            }
            Self::EmptiesCacheInSteps => {
                "it frees nothing that is alive, and the next step asks the driver for the same memory again: slower, not smaller"
            }
        }
    }
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// The line, from 1.
    pub line: u32,
    /// Its text.
    pub code: String,
    /// What it may do.
    pub does: Suspicion,
    /// What that does to memory.
    pub why: &'static str,
    /// What to write instead, when that follows from the line.
    pub instead: Option<String>,
}

/// The suspects of a script, in its order.
pub fn suspects(script: &str) -> Vec<Suspect> {
    if script.len() > LONGEST {
        return Vec::new();
    }
    rules::suspects(script)
}

/// The first of these suspects, and code that replaces all of them.
pub(crate) fn edits<'s>(
    suspects: &'s [Suspect],
    wanted: &[Suspicion],
) -> Option<(&'s Suspect, String)> {
    let mut found = suspects
        .iter()
        .filter(|suspect| wanted.contains(&suspect.does));
    let first = found.next()?;
    let code: Vec<String> = std::iter::once(first)
        .chain(found)
        .filter_map(|suspect| {
            let instead = suspect.instead.as_deref()?;
            Some(format!("# line {}\n{instead}", suspect.line))
        })
        .collect();
    Some((first, code.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, expected: Option<Suspicion>) {
        let found = suspects(code);
        assert_eq!(
            found.first().map(|suspect| suspect.does),
            expected,
            "{code}"
        );
    }

    #[test]
    fn lines_that_keep_memory() {
        check("total_loss += loss", Some(Suspicion::KeepsGraph));
        check("running_loss += criterion(out, y).item()  # loss", None);
        check("total_loss += loss.item()", None);
        check("loss += 0.1 * penalty", None);
        check("losses.append(loss)", Some(Suspicion::KeepsGraph));
        check("losses.append(loss.detach())", None);
        check(
            "loss.backward(retain_graph=True)",
            Some(Suspicion::RetainsGraph),
        );
        check("model.eval()", Some(Suspicion::GradInEvaluation));
        check("with torch.no_grad():\n    pass\nmodel.eval()", None);
        check(
            "dataset = torch.stack(all_x).cuda()",
            Some(Suspicion::WholeDataOnDevice),
        );
        check(
            "state = torch.load('a.pt')",
            Some(Suspicion::LoadsOntoDevice),
        );
        check("state = torch.load('a.pt', map_location='cpu')", None);
        check("# total_loss += loss", None);
        check("", None);
    }

    /// One loop of training around `line`.
    fn in_training(line: &str) -> String {
        format!(
            "model = Net().to(device)\nkept = []\ntotal = 0\nfor x, y in loader:\n    out = model(x)\n    loss = criterion(out, y)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    {line}\n"
        )
    }

    fn check_step(line: &str, expected: Option<(Suspicion, &str)>) {
        let script = in_training(line);
        let found = suspects(&script);
        let first = found
            .first()
            .map(|suspect| (suspect.does, suspect.instead.as_deref().unwrap_or_default()));
        assert_eq!(first, expected, "{line}");
        assert!(found.iter().all(|suspect| suspect.line == 10), "{line}");
    }

    #[test]
    fn lines_of_a_training_step() {
        use Suspicion::{CollectsOutputs, EmptiesCacheInSteps, KeepsGraph};
        check_step("total += loss", Some((KeepsGraph, "total += loss.item()")));
        check_step(
            "total = total + loss * 2",
            Some((KeepsGraph, "total += (loss * 2).item()")),
        );
        check_step(
            "stats['sum'] += loss",
            Some((KeepsGraph, "stats['sum'] += loss.item()")),
        );
        check_step(
            "self.total += out.mean()",
            Some((KeepsGraph, "self.total += out.mean().item()")),
        );
        check_step(
            "total += loss.cpu()",
            Some((KeepsGraph, "total += loss.cpu().item()")),
        );
        check_step("total += loss.item() * x.size(0)", None);
        check_step("total += float(loss)", None);
        check_step("total += loss.detach()", None);
        check_step("total += (out.argmax(1) == y).sum().item()", None);
        check_step(
            "kept.append(loss)",
            Some((KeepsGraph, "kept.append(loss.item())")),
        );
        check_step(
            "kept.append(out)",
            Some((CollectsOutputs, "kept.append(out.detach().cpu())")),
        );
        check_step(
            "kept.append(out.detach())",
            Some((CollectsOutputs, "kept.append(out.detach().cpu())")),
        );
        check_step("kept.append(out.detach().cpu())", None);
        check_step("kept.append(out.argmax(-1).tolist())", None);
        check_step("kept.append(f'{loss}')", None);
        check_step("print(loss)", None);
        check_step("torch.cuda.empty_cache()", Some((EmptiesCacheInSteps, "")));
        check_step("step = []; step.append(out)", None);
    }

    #[test]
    fn one_step_s_own_sums_are_its_own() {
        check(
            "for x in loader:\n    loss = 0\n    for head in heads:\n        loss += head(model(x))\n    optimizer.zero_grad()\n    loss.backward()\n",
            None,
        );
        check(
            "class Net(nn.Module):\n    def forward(self, x):\n        all = []\n        for block in self.blocks:\n            x = x + block(x)\n            all.append(x)\n        return all\n",
            None,
        );
        check(
            "def step(x):\n    loss = criterion(model(x), x)\n    loss.backward()\n    return loss.item()\nfor x in loader:\n    opt.zero_grad()\n    loss = step(x)\n    total += loss\n",
            None,
        );
    }

    #[test]
    fn evaluation() {
        let script = |header: &str, body: &str| {
            format!(
                "{header}\ndef validate(model, loader):\n    model.eval()\n    outs = []\n    {body}\n"
            )
        };
        let bare = "for x in loader:\n        out = model(x)";
        let found = suspects(&script("", bare));
        assert_eq!(found[0].does, Suspicion::GradInEvaluation);
        assert_eq!(found[0].line, 5);
        assert!(
            found[0]
                .instead
                .as_deref()
                .unwrap()
                .starts_with("with torch.no_grad():\n    for x in loader:")
        );
        check(&script("@torch.no_grad()", bare), None);
        check(
            &script(
                "",
                "with torch.inference_mode():\n        for x in loader:\n            out = model(x)",
            ),
            None,
        );
        check(
            &(script("", bare) + "with torch.no_grad():\n    validate(model, loader)\n"),
            None,
        );
        check(
            &script(
                "@torch.no_grad()",
                "for x in loader:\n        outs.append(model(x))",
            ),
            Some(Suspicion::CollectsOutputs),
        );
        check(
            &script(
                "@torch.no_grad()",
                "for x in loader:\n        outs.append(model(x).cpu())",
            ),
            None,
        );
    }

    #[test]
    fn data_checkpoints_and_optimizers() {
        check(
            "x = torch.randn(9, 9).to(device)\nfor i in range(9):\n    y = x[i]\n",
            Some(Suspicion::WholeDataOnDevice),
        );
        check(
            "def step(data):\n    data = data.to(device)\n    return data\n",
            None,
        );
        check(
            "def step(inputs):\n    ids = inputs['ids'].to(device)\n    for i in range(9):\n        y = ids[i]\n",
            None,
        );
        check("for x in loader:\n    data = x.to(device)\n", None);
        check("model = Net().to(device)", None);
        check("x = torch.load(p, 'cpu')", None);
        let found = suspects("m.load_state_dict(torch.load(path, weights_only=True)['model'])");
        assert_eq!(
            found[0].instead.as_deref(),
            Some(
                "m.load_state_dict(torch.load(path, weights_only=True, map_location=\"cpu\")['model'])"
            )
        );
        check(
            "opt = torch.optim.Adam(model.parameters())\nmodel.to(device)\n",
            Some(Suspicion::OptimizerBeforeMove),
        );
        check(
            "model.to(device)\nopt = torch.optim.Adam(model.parameters())\n",
            None,
        );
        let found = suspects("for x in d:\n    model(x).sum().backward()\n    opt.step()\n");
        assert_eq!(found[0].does, Suspicion::AddsGradients);
        assert_eq!(
            found[0].instead.as_deref(),
            Some("opt.step()\nopt.zero_grad(set_to_none=True)")
        );
        let found = suspects("loss.backward(gradient, retain_graph=True)");
        assert_eq!(found[0].instead.as_deref(), Some("loss.backward(gradient)"));
        check(
            "for epoch in e:\n    for x in d:\n        model(x)\n    torch.cuda.empty_cache()\n",
            None,
        );
    }
}
