//! `inference-evaluation`: an evaluation that autograd watches keeps activations for a backward pass that never comes.

use crate::lever::{Lever, Offered};
use crate::lever_name::LeverName;
use crate::lever_use::Parameters;
use crate::numerics::{Numerics, Redraws};

pub(super) static LEVER: Lever = Lever {
    name: LeverName::InferenceEvaluation,
    numerics: Numerics::None,
    redraws: Redraws::Nothing,
    parameters: &[],
    conflicts: &[],
    offered: Offered::Freely,
    check: |script| match script.facts.evaluation.as_ref().map(|it| it.grad_enabled) {
        None => Err("no evaluation was seen".to_owned()),
        Some(Some(true)) => Ok(()),
        Some(_) => Err("evaluation keeps nothing for a backward pass".to_owned()),
    },
    options: |_| vec![Parameters::new()],
    shape: |_, workload| workload.evaluation *= LEFT,
    describe: |_| "evaluation under `torch.inference_mode`".to_owned(),
    code: |_, _| Some("with torch.inference_mode():\n    evaluate(model)\n".to_owned()),
};

/// The largest pair of outputs, of all that was kept.
const LEFT: f64 = 0.1;
