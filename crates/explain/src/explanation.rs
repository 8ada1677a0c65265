//! The answer, whose fields are exactly the JSON of `oomproof explain --json` in their order.

use std::borrow::Cow;

use serde::Serialize;

use crate::agreement::Agreement;
use crate::balance::Balance;
use crate::case::Case;
use crate::cause::CauseId;
use crate::cues::Cues;
use crate::failure::{Failure, Failures};
use crate::figures::Figures;
use crate::filled::Known;
use crate::format::Backend;
use crate::held::Held;
use crate::judge::{self, Candidate};
use crate::lines;
use crate::moment::Moment;
use crate::release::{Release, Releases};
use crate::remedy::{self, Remedy};
use crate::script::{self, Suspect};
use crate::smi::{self, Smi};
use crate::squeezed::Squeezed;
use crate::story;
use crate::summary::{self, MemorySummary};
use crate::useless::{self, Useless};

/// Version of the form of [`Explanation`].
pub const SCHEMA: u32 = 1;

/// What is to be explained.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a> {
    /// A message, a log, the output of `nvidia-smi`, or all of them in one text.
    pub text: &'a str,
    /// The user's script.
    pub script: Option<&'a str>,
    /// Where that script lies, for commands that run it.
    pub script_path: Option<&'a str>,
    /// The release of PyTorch, when the user says it.
    pub torch: Option<Release>,
    /// Whose the live bytes were, from a recorded run or a snapshot.
    pub held: Option<&'a Held>,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Version of this form: 1.
    pub schema: u32,
    /// What happened, in sentences.
    pub story: Vec<String>,
    /// All failures of the text, in its order.
    pub failures: Vec<Failure>,
    /// Index of the one that is explained; `None` when there is none.
    pub explained: Option<usize>,
    /// Its figures.
    pub figures: Figures,
    /// Who held which part of the device.
    pub card: Option<Balance>,
    /// What the program was doing.
    pub phase: Option<Moment>,
    /// The releases of PyTorch that may have written the text.
    pub torch: Option<Releases>,
    /// What `nvidia-smi` showed, when that is in the text.
    pub nvidia_smi: Option<Smi>,
    /// The tables of `torch.cuda.memory_summary()` in the text.
    pub memory_summaries: Vec<MemorySummary>,
    /// How the text's figures agree with the snapshot or the profile that came with it.
    pub agreement: Option<Agreement>,
    /// Lines of the script that may hold memory.
    pub suspects: Vec<Suspect>,
    /// The causes, the likeliest first.
    pub causes: Vec<Candidate>,
    /// The command whose output would decide; `None` when a cause is sure, or a recorded run or snapshot has told what
    /// another run would.
    pub decide_with: Option<String>,
    /// What will help, the most promising first.
    pub remedies: Vec<Remedy>,
    /// What people do and what cannot help here.
    pub useless: Vec<Useless>,
}

/// Explains a text.
pub fn explain(input: &Input<'_>) -> Explanation {
    Explanation::of(Facts::read(input).reckoned())
}

impl<'a> Facts<'a> {
    /// What the text and the script say; the arithmetic is left for when all figures are there.
    pub(crate) fn read(input: &Input<'a>) -> Self {
        // The table's count of failures reads like one.
        let told = without_counts(input.text);
        let lines = lines::of(&told);
        let squeezed = Squeezed::of(lines.iter().map(|line| line.text.as_str()));
        let cues = Cues::of(squeezed.text());
        let Failures {
            mut found,
            explained,
        } = Failures::in_text(&told);
        if let Some(release) = input.torch {
            for failure in &mut found {
                failure.torch = Releases::exactly(release);
            }
        }
        let facts = Self {
            failures: found,
            explained,
            balance: None,
            cues,
            nvidia_smi: smi::read(input.text),
            memory_summaries: summary::read(input.text),
            agreement: None,
            suspects: input.script.map(script::suspects).unwrap_or_default(),
            script_path: input.script_path.map(str::to_owned),
            held: None,
        };
        match input.held {
            Some(held) => facts.with(held),
            None => facts,
        }
    }

    /// Adds what a record knows of the moment.
    pub(crate) fn with(mut self, held: &'a Held) -> Self {
        if let Some(failure) = self.failures.get_mut(self.explained) {
            failure.phase = held.phase.or(failure.phase);
            failure.r#where = held.place.clone().or(failure.r#where.take());
        }
        self.held = Some(held);
        self
    }

    /// Does the arithmetic of the card, unless a record has done it.
    pub(crate) fn reckoned(mut self) -> Self {
        if self.balance.is_none() {
            self.balance = self
                .failures
                .get(self.explained)
                .and_then(|failure| Balance::of(&failure.figures));
        }
        self
    }
}

/// What is known before anything is concluded.
pub(crate) struct Facts<'a> {
    pub failures: Vec<Failure>,
    /// Index of the one to explain; beyond the end when there is none.
    pub explained: usize,
    pub balance: Option<Balance>,
    pub cues: Cues,
    pub nvidia_smi: Option<Smi>,
    pub memory_summaries: Vec<MemorySummary>,
    pub agreement: Option<Agreement>,
    pub suspects: Vec<Suspect>,
    /// Where the script lies.
    pub script_path: Option<String>,
    pub held: Option<&'a Held>,
}

impl Explanation {
    /// Concludes.
    pub(crate) fn of(facts: Facts<'_>) -> Self {
        let known = Known::of(
            facts.script_path.as_deref(),
            facts.failures.get(facts.explained),
            facts.nvidia_smi.as_ref(),
            facts.balance.as_ref().map(|balance| balance.total_bytes),
        );
        let nothing = Self {
            schema: SCHEMA,
            story: story::without_failure(facts.nvidia_smi.as_ref()),
            failures: Vec::new(),
            explained: None,
            figures: Figures::default(),
            card: None,
            phase: None,
            torch: None,
            nvidia_smi: facts.nvidia_smi,
            memory_summaries: facts.memory_summaries,
            agreement: facts.agreement,
            suspects: facts.suspects,
            causes: Vec::new(),
            // What a run would tell a record has told.
            decide_with: facts
                .held
                .is_none()
                .then(|| known.fill("oomproof run --gpu GPU SCRIPT")),
            remedies: Vec::new(),
            useless: Vec::new(),
        };
        let Some(failure) = facts.failures.get(facts.explained) else {
            return nothing;
        };
        let case = Case {
            failure,
            failures: &facts.failures,
            balance: facts.balance,
            cues: &facts.cues,
            suspects: &nothing.suspects,
            smi: nothing.nvidia_smi.as_ref(),
            agreement: nothing.agreement.as_ref(),
            held: facts.held,
        };
        let causes = judge::causes(&case);
        let mut remedies = remedy::remedies(&case, &causes);
        for remedy in &mut remedies {
            remedy.code = known.fill(&remedy.code);
        }
        let undecided = causes.first().filter(|first| !first.sure);
        let concluded = Self {
            story: story::story(&case, &causes),
            explained: Some(facts.explained),
            figures: failure.figures.clone(),
            phase: failure.phase,
            torch: Some(failure.torch),
            decide_with: undecided
                .map(|first| known.fill(check(first.id, case.backend())))
                // What a run would tell a recorded one has told.
                .filter(|command| case.held.is_none() || !command.starts_with("oomproof run")),
            useless: useless::useless(&case, causes.first(), &remedies),
            remedies,
            card: case.balance.clone(),
            suspects: nothing.suspects.clone(),
            nvidia_smi: nothing.nvidia_smi.clone(),
            memory_summaries: nothing.memory_summaries.clone(),
            agreement: nothing.agreement.clone(),
            schema: SCHEMA,
            causes,
            failures: Vec::new(),
        };
        Self {
            failures: facts.failures,
            ..concluded
        }
    }
}

/// The text without the lines of a memory summary that count failures; the numbers of the other lines stay.
fn without_counts(text: &str) -> Cow<'_, str> {
    if !text.lines().any(summary::counts_failures) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| {
        if summary::counts_failures(line) {
            ""
        } else {
            line
        }
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// The command that tells on a device which neither a virtual NVIDIA card nor NVIDIA's programs can stand for.
fn check_elsewhere(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Mps => Some(
            "print(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())  # in each step: does it grow?",
        ),
        Backend::Xpu => Some(
            "print(torch.xpu.memory_allocated(), torch.xpu.memory_reserved())  # in each step: does it grow?",
        ),
        Backend::Npu => Some(
            "print(torch.npu.memory_allocated(), torch.npu.memory_reserved())  # in each step: does it grow?",
        ),
        Backend::Cuda | Backend::Hip | Backend::Other | Backend::Host => None,
    }
}

/// The command of a cause, for this device.
fn check(id: CauseId, backend: Backend) -> &'static str {
    let of_cause = judge::described(id).check;
    let of_nvidia = ["oomproof", "nvidia-smi", "torch.cuda"]
        .iter()
        .any(|word| of_cause.contains(word));
    check_elsewhere(backend)
        .filter(|_| of_nvidia)
        .unwrap_or(of_cause)
}
