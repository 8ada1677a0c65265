//! The user's script, when it is named: lines that are known to keep memory alive. Reading is by line, without a
//! parser of Python, so a line is a suspect and never a proof.

use serde::Serialize;

/// Most suspects that are kept.
const MOST: usize = 32;

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
}

/// The suspects of a script, in its order.
pub fn suspects(script: &str) -> Vec<Suspect> {
    let evaluates_safely = ["no_grad", "inference_mode"]
        .iter()
        .any(|word| script.contains(word));
    let mut found = Vec::new();
    for (index, line) in script.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default().trim();
        if let Some(does) = suspicion(code, evaluates_safely) {
            found.push(Suspect {
                line: index as u32 + 1,
                code: code.to_owned(),
                does,
            });
            if found.len() == MOST {
                break;
            }
        }
    }
    found
}

fn suspicion(code: &str, evaluates_safely: bool) -> Option<Suspicion> {
    let has = |word: &str| code.contains(word);
    let detached = [
        ".item()",
        ".detach()",
        "float(",
        ".cpu()",
        ".tolist()",
        "no_grad",
    ]
    .iter()
    .any(|word| has(word));
    let squeezed: String = code.split_whitespace().collect();
    if squeezed.contains("retain_graph=True") {
        return Some(Suspicion::RetainsGraph);
    }
    let about_loss = code.to_lowercase().contains("loss");
    let adds = squeezed.contains("+=");
    if !detached && about_loss && adds && is_running_sum(&squeezed) {
        return Some(Suspicion::KeepsGraph);
    }
    if !detached && has(".append(") {
        let inside = code
            .split(".append(")
            .nth(1)
            .unwrap_or_default()
            .to_lowercase();
        if inside.contains("loss") {
            return Some(Suspicion::KeepsGraph);
        }
        if ["output", "logits", "pred", "hidden", "feature", "embedding"]
            .iter()
            .any(|word| inside.contains(word))
        {
            return Some(Suspicion::CollectsOutputs);
        }
    }
    if !evaluates_safely && has(".eval()") {
        return Some(Suspicion::GradInEvaluation);
    }
    if squeezed.contains("torch.load(") && !squeezed.contains("map_location") {
        return Some(Suspicion::LoadsOntoDevice);
    }
    let moves = has(".cuda()") || has(".to(device") || has(".to('cuda") || has(".to(\"cuda");
    let of_data = ["dataset", "train_data", "x_train", "data ="]
        .iter()
        .any(|word| code.to_lowercase().contains(word));
    (moves && of_data).then_some(Suspicion::WholeDataOnDevice)
}

/// `total_loss += loss`, and not `loss += penalty`, which is one step's own loss.
fn is_running_sum(squeezed: &str) -> bool {
    let Some((left, right)) = squeezed.split_once("+=") else {
        return false;
    };
    let left = left.to_lowercase();
    let total = [
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
    .any(|word| left.contains(word));
    total && right.to_lowercase().contains("loss")
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
        check("preds.append(output)", Some(Suspicion::CollectsOutputs));
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
}
