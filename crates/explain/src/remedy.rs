//! Remedies: what would save how much here, at what price, and the code for it. A remedy names the causes it is for
//! and writes itself for one case; which ones are offered, and in which order, follows from the causes alone.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::case::Case;
use crate::cause::CauseId;
use crate::dialect;
use crate::judge::Candidate;
use crate::remedies::REMEDIES;

/// Candidates with fewer points are no reason to change anything.
const LEAST_SCORE: u8 = 25;
/// So many causes are remedied.
const MOST_CAUSES: usize = 4;
/// Most remedies that are offered.
const MOST: usize = 12;

/// Whether results change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numerics {
    /// Bit for bit the same.
    None,
    /// Only by rounding.
    Rounding,
    /// Training or results are different.
    Changes,
}

/// What a remedy costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// A setting or a line.
    Little,
    /// Some code, or time in each step.
    Some,
    /// Another model, other hardware, much code.
    Much,
}

/// What the figure of a saving means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SavesKind {
    /// It is known.
    Exact,
    /// It can save no more.
    UpTo,
    /// It has to save so much, and can.
    Needed,
    /// The text does not tell.
    Unknown,
}

/// How much a remedy saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saves {
    Exact(Bytes),
    UpTo(Bytes),
    Needed(Bytes),
    Unknown,
}

impl Saves {
    fn parts(self) -> (Option<Bytes>, SavesKind) {
        match self {
            Self::Exact(bytes) => (Some(bytes), SavesKind::Exact),
            Self::UpTo(bytes) => (Some(bytes), SavesKind::UpTo),
            Self::Needed(bytes) => (Some(bytes), SavesKind::Needed),
            Self::Unknown => (None, SavesKind::Unknown),
        }
    }
}

/// One remedy for one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Word by which programs tell remedies apart; `docs/explain.md` lists them.
    pub id: &'static str,
    /// What to do, in a few words.
    pub title: &'static str,
    /// The causes it is for, of those that are candidates.
    pub against: Vec<CauseId>,
    /// How many bytes it saves on the device; `None` when what is known does not tell.
    pub saves_bytes: Option<Bytes>,
    /// What that figure means.
    pub saves_kind: SavesKind,
    /// Whether results change.
    pub numerics: Numerics,
    /// What it costs.
    pub cost: Cost,
    /// Why it helps here and by how much.
    pub text: String,
    /// What to paste; empty when there is nothing to paste.
    pub code: String,
}

/// A remedy, written for one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub saves: Saves,
    pub text: String,
    pub code: String,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Kind {
    pub id: &'static str,
    pub title: &'static str,
    pub serves: &'static [CauseId],
    pub numerics: Numerics,
    pub cost: Cost,
    pub write: fn(&Case<'_>) -> Option<Advice>,
}

/// The remedies for these causes, the most promising first.
pub(crate) fn remedies(case: &Case<'_>, causes: &[Candidate]) -> Vec<Remedy> {
    let considered: Vec<CauseId> = match causes.first() {
        Some(first) if first.sure => vec![first.id],
        _ => causes
            .iter()
            .filter(|cause| cause.score >= LEAST_SCORE)
            .take(MOST_CAUSES)
            .map(|cause| cause.id)
            .collect(),
    };
    let mut found: Vec<(usize, Remedy)> = REMEDIES
        .iter()
        .filter_map(|kind| {
            let against: Vec<CauseId> = considered
                .iter()
                .copied()
                .filter(|cause| kind.serves.contains(cause))
                .collect();
            let rank = considered
                .iter()
                .position(|cause| kind.serves.contains(cause))?;
            let advice = (kind.write)(case)?;
            let code = dialect::translated(&advice.code, case.backend())?;
            let advice = Advice { code, ..advice };
            Some((rank, offered(kind, against, advice)))
        })
        .collect();
    // Of the same cause and price, the order of the table holds.
    found.sort_by_key(|(rank, remedy)| (*rank, remedy.cost));
    found.truncate(MOST);
    found.into_iter().map(|(_, remedy)| remedy).collect()
}

fn offered(kind: &Kind, against: Vec<CauseId>, advice: Advice) -> Remedy {
    let (saves_bytes, saves_kind) = advice.saves.parts();
    Remedy {
        id: kind.id,
        title: kind.title,
        against,
        saves_bytes,
        saves_kind,
        numerics: kind.numerics,
        cost: kind.cost,
        text: advice.text,
        code: advice.code,
    }
}
