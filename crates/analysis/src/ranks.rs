//! Several ranks, one verdict: that of the worst rank, with a line for each of the others.
//!
//! Every rank has a profile and so a verdict of its own. How a rank's process ended is not seen from outside, where only
//! what started the ranks is known; the rank's own last words tell. When one rank fails the others are ended because of
//! it, so that they ended counts for less than why the first one did.

use oomproof_profile::{Phase, Profile, Record};
use oomproof_units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::circumstances::Circumstances;
use crate::conclude::AnalysisError;
use crate::verdict::{Answer, Assumption, Estimate, Reason, ReasonKind, Verdict};

/// What a run found out about one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Index of its device.
    pub device: u8,
    /// Its answer.
    pub verdict: Answer,
    /// Why that is not a plain `fits`.
    pub reasons: Vec<Reason>,
    /// PyTorch's `max_memory_allocated`.
    pub allocated_bytes: Bytes,
    /// PyTorch's `max_memory_reserved`.
    pub reserved_bytes: Bytes,
    /// Reserved + context + libraries.
    pub process_bytes: Estimate,
    /// What is left of the device; negative when it does not suffice.
    pub headroom_bytes: i64,
    /// The phase in which allocated memory was highest.
    pub phase: Phase,
    /// The training step in which it was.
    pub step: u32,
    /// Number of training steps that ended.
    pub steps_measured: u32,
    /// Path of its profile.
    pub profile: String,
}

/// The rank that a profile is of, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOf {
    /// Its number.
    pub rank: u32,
    /// How many ranks there are.
    pub world: u32,
}

/// Which rank wrote a profile, if any: what it said last counts.
pub fn rank_of(profile: &Profile) -> Option<RankOf> {
    notes(profile).rev().find_map(|note| {
        let number = |field: &str| u32::try_from(note.get(field)?.as_u64()?).ok();
        (note.get("kind")?.as_str()? == "rank").then_some(())?;
        let (rank, world) = (number("rank")?, number("world_size")?);
        (rank < world).then_some(RankOf { rank, world })
    })
}

fn notes(profile: &Profile) -> impl DoubleEndedIterator<Item = Value> {
    profile.records.iter().filter_map(|record| match record {
        Record::Note { json, .. } => serde_json::from_str(json).ok(),
        _ => None,
    })
}

/// The end of a rank's process.
struct End {
    circumstances: Circumstances,
    /// Whether the rank told it itself.
    is_told: bool,
}

/// How the process of a rank ended, as its own last note tells; what is not told is as for the whole run.
fn own_end(profile: &Profile, whole: &Circumstances) -> End {
    let last = notes(profile).rev().find_map(|note| {
        let kind = note.get("kind")?.as_str()?.to_owned();
        matches!(kind.as_str(), "exit" | "stop").then_some((kind, note))
    });
    let (exit_code, signal) = match &last {
        Some((kind, _)) if kind == "stop" => (Some(0), None),
        Some((_, note)) => {
            let number = |field: &str| i32::try_from(note.get(field)?.as_i64()?).ok();
            match note.get("how").and_then(Value::as_str) {
                Some("signal") => (None, number("signal")),
                Some("exception") => (Some(1), None),
                _ => (Some(number("code").unwrap_or(0)), None),
            }
        }
        None => (whole.exit_code, whole.signal),
    };
    End {
        circumstances: Circumstances {
            exit_code,
            signal,
            ..whole.clone()
        },
        is_told: last.is_some(),
    }
}

/// How much an answer weighs against that of another rank.
fn weight(verdict: &Verdict) -> u32 {
    let has = |kind| verdict.reasons.iter().any(|reason| reason.kind == kind);
    match verdict.verdict {
        Answer::DoesNotFit if has(ReasonKind::OutOfMemory) => 6,
        Answer::DoesNotFit => 5,
        Answer::Unknown if has(ReasonKind::ScriptFailed) && !is_consequence(verdict) => 4,
        Answer::Unknown if has(ReasonKind::ScriptFailed) => 2,
        Answer::Unknown if has(ReasonKind::Signal) => 2,
        Answer::Unknown => 3,
        Answer::Tight => 1,
        Answer::Fits => 0,
    }
}

/// Whether the script of a rank failed because another rank had ended.
fn is_consequence(verdict: &Verdict) -> bool {
    let mut texts = verdict.reasons.iter().map(|reason| &reason.text);
    texts.any(|text| text.contains("remote process exited"))
}

impl Verdict {
    /// Judges the profile of one rank of a run that ended as `whole` says.
    pub fn from_rank(profile: &Profile, whole: &Circumstances) -> Result<Self, AnalysisError> {
        let own = own_end(profile, whole);
        let mut verdict = Self::from_profile(profile, &own.circumstances)?;
        if !own.is_told {
            for reason in &mut verdict.reasons {
                if reason.kind == ReasonKind::ScriptFailed {
                    reason.kind = ReasonKind::Signal;
                    "its process ended without a word, as one that is killed does"
                        .clone_into(&mut reason.text);
                }
            }
        }
        Ok(verdict)
    }

    /// The verdict of the worst of `world` ranks, with what is known of all of them; `None` without any.
    pub fn of_ranks(mut verdicts: Vec<(u32, Self)>, world: u32) -> Option<Self> {
        verdicts.sort_by_key(|(rank, _)| *rank);
        note_neighbors(&mut verdicts);
        let ranks = verdicts.iter().map(|(rank, verdict)| line(*rank, verdict));
        let ranks = ranks.collect::<Vec<_>>();
        let badness = |(rank, verdict): &(u32, Self)| {
            let size = verdict.peak.process_bytes.likely;
            (weight(verdict), size, std::cmp::Reverse(*rank))
        };
        let (rank, mut worst) = verdicts.into_iter().max_by_key(badness)?;
        let missing: Vec<String> = (0..world)
            .filter(|number| ranks.iter().all(|line| line.rank != *number))
            .map(|number| number.to_string())
            .collect();
        if !missing.is_empty() {
            worst.assumptions.push(Assumption {
                kind: "rank_missing".to_owned(),
                text: format!(
                    "of {world} ranks nothing was seen of {}, which used no GPU or ended before",
                    missing.join(", ")
                ),
                r#where: None,
            });
        }
        worst.rank = Some(rank);
        worst.ranks = Some(ranks);
        Some(worst)
    }
}

fn line(rank: u32, verdict: &Verdict) -> Rank {
    let peak = &verdict.peak;
    Rank {
        rank,
        device: verdict.device.index,
        verdict: verdict.verdict,
        reasons: verdict.reasons.clone(),
        allocated_bytes: peak.allocated_bytes,
        reserved_bytes: peak.reserved_bytes,
        process_bytes: peak.process_bytes,
        headroom_bytes: peak.headroom_bytes,
        phase: peak.phase,
        step: peak.step,
        steps_measured: verdict.steps_measured,
        profile: verdict.profile.clone(),
    }
}

/// Ranks on one device were only seen to fit beside each other as they happened to meet; their peaks may coincide.
fn note_neighbors(verdicts: &mut [(u32, Verdict)]) {
    let on_device: Vec<(u8, Bytes)> = verdicts
        .iter()
        .map(|(_, verdict)| (verdict.device.index, verdict.peak.process_bytes.likely))
        .collect();
    for (_, verdict) in verdicts {
        let device = &verdict.device;
        let sizes = on_device
            .iter()
            .filter(|(index, _)| *index == device.index)
            .map(|(_, size)| *size);
        let (count, sum) = (sizes.clone().count(), sizes.sum::<Bytes>());
        let room = device
            .total_bytes
            .saturating_sub(device.reserved_by_others_bytes);
        if count > 1 && sum > room && verdict.fits() {
            verdict.verdict = Answer::Tight;
            verdict.reasons.push(Reason {
                kind: ReasonKind::UpperEndAboveCard,
                text: format!(
                    "the {count} ranks on device {} may take up to {sum} together, and the card has {room}",
                    device.index
                ),
            });
        }
    }
}
