//! What the program was doing when memory ran out. The moment separates causes better than the figures do, and the
//! names in a traceback tell it; where there is none, what the log said last.

use serde::Serialize;

use crate::trace::Frame;

/// A part of a program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Building a model, moving it to the device, reading a checkpoint.
    Load,
    /// The model's computation.
    Forward,
    /// Gradients.
    Backward,
    /// `optimizer.step`.
    Optimizer,
    /// Validation or test.
    Evaluation,
    /// Writing a checkpoint.
    Save,
    /// Producing tokens or images.
    Generate,
    /// Capturing a graph or compiling.
    Compile,
}

impl Moment {
    /// The word in the JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Evaluation => "evaluation",
            Self::Save => "save",
            Self::Generate => "generate",
            Self::Compile => "compile",
        }
    }

    /// For the middle of a sentence.
    pub(crate) const fn clause(self) -> &'static str {
        match self {
            Self::Load => "while the model or a checkpoint was loaded",
            Self::Forward => "in the forward pass",
            Self::Backward => "in the backward pass",
            Self::Optimizer => "in the optimizer's step",
            Self::Evaluation => "in evaluation",
            Self::Save => "while a checkpoint was saved",
            Self::Generate => "while generating",
            Self::Compile => "while a graph was captured or compiled",
        }
    }
}

/// Names that give a moment away, in a frame's function or source line or in its file. The first row that fits any
/// frame counts: what is rare and telling stands before what surrounds it.
const NAMES: &[(Moment, &[&str])] = &[
    (
        Moment::Compile,
        &[
            "capture_begin",
            "torch.cuda.graph(",
            "cuda/graphs.py",
            "capture_model",
            "cudagraph_trees.py",
            "_capture_",
        ],
    ),
    (
        Moment::Save,
        &[
            "torch.save(",
            "save_pretrained",
            "save_checkpoint",
            "_save_checkpoint",
            "save_model",
            "_gather_state",
            "full_state_dict",
            "_full_post_state_dict",
            "state_dict_utils.py",
        ],
    ),
    (
        Moment::Optimizer,
        &[
            "optimizer.step(",
            "optim.step(",
            "torch/optim/",
            "torch\\optim\\",
            "_multi_tensor_",
            "_init_group",
            "init_state",
            "step_optimizer",
            "optimizer_step",
        ],
    ),
    (
        Moment::Load,
        &[
            "torch.load(",
            "load_state_dict",
            "from_pretrained",
            "load_checkpoint",
            "resume_from",
            "_load_",
            "serialization.py",
            "modeling_utils.py",
            "set_module_tensor_to_device",
            "dispatch_model",
            "model.to(",
            "model.cuda(",
            ".to(device)",
            "load_model",
            "load_weights",
        ],
    ),
    (
        Moment::Generate,
        &[
            "generate(",
            "generation/utils.py",
            "_sample(",
            "beam_search",
            "pipeline_",
            ".sample(",
        ],
    ),
    (
        Moment::Backward,
        &["backward(", "autograd/", "autograd\\", ".backward"],
    ),
    (
        Moment::Evaluation,
        &[
            "validat",
            "evaluat",
            "eval_step",
            "evaluation_loop",
            "prediction_step",
            "prediction_loop",
            "test_step",
            "run_test",
            "do_eval",
            "predict(",
        ],
    ),
    (
        Moment::Forward,
        &[
            "forward",
            "_call_impl",
            "functional.py",
            "training_step",
            "compute_loss",
        ],
    ),
];

/// What logs say before a failure, squeezed; the last one said counts.
const TALK: &[(Moment, &[&str])] = &[
    (
        Moment::Evaluation,
        &[
            "validationdataloader",
            "validating:",
            "evaluating",
            "sanitychecking",
            "*****runningevaluation*****",
            "validation:",
        ],
    ),
    (
        Moment::Save,
        &[
            "savingcheckpoint",
            "savingmodelcheckpoint",
            "savingmodel",
            "savingstate",
        ],
    ),
    (
        Moment::Load,
        &[
            "loadingcheckpointshards",
            "loadingcheckpoint",
            "resumingfrom",
            "loadingweights",
            "loadingmodel",
            "loadingpipeline",
        ],
    ),
    (
        Moment::Compile,
        &[
            "capturingcudagraph",
            "capturingthemodelforcudagraphs",
            "capturinggraphs",
        ],
    ),
];

/// The moment that frames give away, outermost first.
pub(crate) fn of_frames(frames: &[Frame]) -> Option<Moment> {
    let texts: Vec<String> = frames
        .iter()
        .map(|frame| {
            let code = frame.code.as_deref().unwrap_or_default();
            format!("{}\n{}\n{code}", frame.file, frame.function).to_lowercase()
        })
        .collect();
    let fits = |names: &[&str]| {
        texts
            .iter()
            .any(|text| names.iter().any(|name| text.contains(name)))
    };
    NAMES
        .iter()
        .find(|(_, names)| fits(names))
        .map(|&(moment, _)| moment)
}

/// The moment that the squeezed text before a failure gives away.
pub(crate) fn of_talk(before: &str) -> Option<Moment> {
    let last = |words: &[&str]| words.iter().filter_map(|word| before.rfind(word)).max();
    TALK.iter()
        .filter_map(|&(moment, words)| last(words).map(|at| (at, moment)))
        .max()
        .map(|(_, moment)| moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frames: &[(&str, &str, &str)], expected: Option<Moment>) {
        let frames: Vec<Frame> = frames
            .iter()
            .map(|&(file, function, code)| Frame {
                file: file.to_owned(),
                line: 1,
                function: function.to_owned(),
                code: Some(code.to_owned()),
            })
            .collect();
        assert_eq!(of_frames(&frames), expected, "{frames:?}");
    }

    #[test]
    fn names_give_the_moment_away() {
        check(
            &[("train.py", "main", "loss.backward()")],
            Some(Moment::Backward),
        );
        check(
            &[("train.py", "main", "optimizer.step()")],
            Some(Moment::Optimizer),
        );
        check(
            &[(
                "torch/optim/adamw.py",
                "_init_group",
                "state['exp_avg'] = torch.zeros_like(p)",
            )],
            Some(Moment::Optimizer),
        );
        check(
            &[
                ("train.py", "validate", "out = model(x)"),
                ("m.py", "forward", "x = self.a(x)"),
            ],
            Some(Moment::Evaluation),
        );
        check(
            &[
                ("train.py", "main", "out = model(x)"),
                ("m.py", "forward", ""),
            ],
            Some(Moment::Forward),
        );
        check(
            &[("train.py", "main", "model.to(device)")],
            Some(Moment::Load),
        );
        check(
            &[("train.py", "main", "torch.save(model.state_dict(), p)")],
            Some(Moment::Save),
        );
        check(
            &[
                ("t.py", "main", "out = model.generate(ids)"),
                ("m.py", "forward", ""),
            ],
            Some(Moment::Generate),
        );
        check(&[("train.py", "main", "x = y")], None);
        check(&[], None);
    }

    #[test]
    fn the_last_word_of_a_log_counts() {
        assert_eq!(
            of_talk("savingcheckpoint..resumingfromx"),
            Some(Moment::Load)
        );
        assert_eq!(of_talk("epoch1"), None);
    }
}
