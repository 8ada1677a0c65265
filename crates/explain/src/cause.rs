//! Causes, and what a detector says of one. A detector is a function of one case; it knows no other detector, so that
//! a cause is added with one file and one row.

use serde::Serialize;

use crate::case::Case;

/// The causes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each cause describes itself in its own file below `causes`"
)]
pub enum CauseId {
    TooBig,
    SingleHuge,
    Fragmentation,
    OtherProcess,
    OptimizerFirstStep,
    EvalPhase,
    AutogradRetention,
    FrameworkRetention,
    LoadSaveResume,
    DataDependent,
    Device0,
    OutsideAllocator,
    HostMemory,
    Cudnn,
    CompileGraphs,
    Limit,
    Sharded,
    SaversDontSave,
    Mig,
    WindowsWsl,
    FreeButFails,
    NotMemory,
}

impl CauseId {
    /// The word in the JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::TooBig => "too_big",
            Self::SingleHuge => "single_huge",
            Self::Fragmentation => "fragmentation",
            Self::OtherProcess => "other_process",
            Self::OptimizerFirstStep => "optimizer_first_step",
            Self::EvalPhase => "eval_phase",
            Self::AutogradRetention => "autograd_retention",
            Self::FrameworkRetention => "framework_retention",
            Self::LoadSaveResume => "load_save_resume",
            Self::DataDependent => "data_dependent",
            Self::Device0 => "device0",
            Self::OutsideAllocator => "outside_allocator",
            Self::HostMemory => "host_memory",
            Self::Cudnn => "cudnn",
            Self::CompileGraphs => "compile_graphs",
            Self::Limit => "limit",
            Self::Sharded => "sharded",
            Self::SaversDontSave => "savers_dont_save",
            Self::Mig => "mig",
            Self::WindowsWsl => "windows_wsl",
            Self::FreeButFails => "free_but_fails",
            Self::NotMemory => "not_memory",
        }
    }
}

/// One cause: its description, and how it is recognized.
#[derive(Debug)]
pub struct Cause {
    /// Which it is.
    pub id: CauseId,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What happens, in one or two sentences.
    pub meaning: &'static str,
    /// What tells it from causes that look like it.
    pub apart: &'static str,
    /// The command whose output would decide it; `SCRIPT` and `MEMORY` stand for the user's.
    pub check: &'static str,
    pub(crate) detect: fn(&Case<'_>) -> Option<Finding>,
}

/// Whether the evidence decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A candidate, with this much for it, up to 99.
    Candidate(u8),
    /// Nothing else explains the evidence.
    Decided,
}

/// What a detector found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub weight: Weight,
    pub evidence: Vec<String>,
}

impl Finding {
    /// A candidate with this score and its first piece of evidence.
    pub(crate) fn candidate(score: u8, evidence: impl Into<String>) -> Self {
        Self {
            weight: Weight::Candidate(score.min(99)),
            evidence: vec![evidence.into()],
        }
    }

    /// A certainty.
    pub(crate) fn decided(evidence: impl Into<String>) -> Self {
        Self {
            weight: Weight::Decided,
            evidence: vec![evidence.into()],
        }
    }

    /// Adds a piece of evidence.
    pub(crate) fn and(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// The stronger of two findings on the same cause, with the evidence of both.
    pub(crate) fn or_stronger(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        let (mut strong, weak) = if other.score() > self.score() {
            (other, self)
        } else {
            (self, other)
        };
        strong.evidence.extend(weak.evidence);
        strong
    }

    /// 0 to 100.
    pub(crate) fn score(&self) -> u8 {
        match self.weight {
            Weight::Candidate(score) => score,
            Weight::Decided => 100,
        }
    }
}
