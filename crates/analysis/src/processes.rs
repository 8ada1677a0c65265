//! Several processes of one script on one card: each leaves a profile, and only together they say whether the card is
//! large enough. One of them lends the verdict its figures; what the others held counts beside it.

use std::collections::BTreeMap;

use oomproof_profile::{Phase, Profile, Record};
use oomproof_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::circumstances::Circumstances;
use crate::conclude::AnalysisError;
use crate::notes::Note;
use crate::verdict::{Estimate, Verdict};

/// Another process of the script that used the same card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Its id while it ran.
    pub pid: u64,
    /// PyTorch's `max_memory_reserved` in it.
    pub reserved_bytes: Bytes,
    /// What it took at its own peak, with its context.
    pub process_bytes: Estimate,
}

/// What one process held of a card at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its id while it ran.
    pub pid: u64,
    /// With its context.
    pub bytes: Bytes,
}

/// What is known of the other processes of the script when one is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Those that used the same card.
    pub processes: Vec<OtherProcess>,
    /// The most that those of them can have held at once that lived at once, while this one lived: the sum of their
    /// own peaks.
    pub at_most: Estimate,
    /// The most that all processes were seen to hold of the card at one moment, with what does not belong to the script.
    pub together: Bytes,
    /// Whose figures these are.
    pub shown: Shown,
}

/// Whose figures a verdict shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Of the process that was started.
    #[default]
    Started,
    /// Of a process that the script started.
    Child {
        /// Its id while it ran.
        pid: u64,
    },
}

impl Shown {
    fn of(pid: u64, started: u64) -> Self {
        if pid == started {
            Self::Started
        } else {
            Self::Child { pid }
        }
    }
}

impl Beside {
    /// What the others held when the card was fullest, beside a process with this peak and `others` who are not of the
    /// script. Peaks of processes may come together on a real card though here they did not, so the upper end is the
    /// sum of them.
    pub(crate) fn held(&self, own: Estimate, others: Bytes) -> Estimate {
        let most = self.at_most;
        let likely = self
            .together
            .saturating_sub(others)
            .saturating_sub(own.likely)
            .min(most.likely);
        Estimate {
            low: likely.saturating_sub(most.likely.saturating_sub(most.low)),
            likely,
            high: most.high,
        }
    }
}

/// What a profile says of its process beside its verdict.
struct Seen<'a> {
    profile: &'a Profile,
    verdict: Verdict,
    /// Nanoseconds of the clock on the wall when recording began; 0 when that is not known.
    started: u64,
    /// And when the last thing was recorded.
    ended: u64,
    /// When memory ran out for good, on the same clock.
    gave_up: Option<u64>,
    /// It ran a model.
    is_measured: bool,
    ended_steps: bool,
}

impl<'a> Seen<'a> {
    fn of(profile: &'a Profile, circumstances: &Circumstances) -> Result<Self, AnalysisError> {
        let verdict = Verdict::from_profile(profile, circumstances)?;
        let started = notes(profile, "process").find_map(|note| note.number("started_unix_nanos"));
        let started = started.unwrap_or(0);
        let mut gave_up = None;
        let mut ended_steps = false;
        let mut is_measured = false;
        let mut last = 0;
        for record in &profile.records {
            last = last.max(record.nanos());
            match record {
                Record::OutOfMemory(oom) => gave_up = Some(started.saturating_add(oom.nanos)),
                Record::Step { .. } => ended_steps = true,
                Record::Phase { phase, .. } => {
                    is_measured |=
                        matches!(phase, Phase::Forward | Phase::Backward | Phase::Evaluation);
                }
                _ => {}
            }
        }
        let is_lost = verdict.oom.as_ref().is_some_and(|oom| !oom.survived);
        Ok(Self {
            profile,
            started,
            ended: started.saturating_add(last),
            // A library that is refused leaves no record of the moment.
            gave_up: is_lost.then(|| gave_up.unwrap_or(started.saturating_add(last))),
            is_measured: is_measured || ended_steps,
            ended_steps,
            verdict,
        })
    }

    fn reserved(&self) -> Bytes {
        self.verdict.peak.reserved_bytes
    }
}

fn notes(profile: &Profile, kind: &'static str) -> impl Iterator<Item = Note> {
    let records = profile.records.iter().enumerate();
    records.filter_map(move |(at, record)| match record {
        Record::Note { json, .. } => Note::parse(at, json).filter(|note| note.kind == kind),
        _ => None,
    })
}

/// The most that the processes of a run held together of each device, as one of them saw it.
fn together(profile: &Profile) -> BTreeMap<u64, u64> {
    let mut highest: BTreeMap<u64, u64> = BTreeMap::new();
    for note in notes(profile, "beside") {
        if let (Some(device), Some(bytes)) = (note.number("device"), note.number("together")) {
            let known = highest.entry(device).or_default();
            *known = (*known).max(bytes);
        }
    }
    highest
}

/// The most that some of the others held at once while `own` lived, if each of them was at its peak.
fn at_most(own: &Seen<'_>, others: &[&Seen<'_>]) -> Estimate {
    let lives = |seen: &Seen<'_>, when: u64| seen.started <= when && when <= seen.ended;
    let starts = others.iter().map(|other| other.started);
    let moments = starts.filter(|when| lives(own, *when)).chain([own.started]);
    let held = moments.map(|when| {
        let alive = others.iter().filter(|other| lives(other, when));
        alive.fold(Estimate::default(), |sum, other| {
            sum + other.verdict.peak.process_bytes
        })
    });
    held.max_by_key(|held| held.high).unwrap_or_default()
}

/// Whether a process that was started after `seen` ran out of memory went further: so programs look for what fits.
fn was_tried_again(seen: &Seen<'_>, all: &[Seen<'_>]) -> bool {
    let later = |other: &&Seen<'_>| seen.gave_up.is_some_and(|when| other.started > when);
    seen.started > 0 && all.iter().filter(later).any(|other| other.ended_steps)
}

/// The process whose figures count: one that ran out of memory for good, else the one that was started, unless another
/// one ran the model and it did not; among others the one that reserved most.
fn shown(all: &[Seen<'_>], started: u64) -> Option<usize> {
    let is_started = |seen: &Seen<'_>| seen.profile.pid == started;
    let best = |wanted: &dyn Fn(&Seen<'_>) -> bool| {
        let candidates = all.iter().enumerate().filter(|(_, seen)| wanted(seen));
        let best = candidates
            .max_by_key(|(at, seen)| (is_started(seen), seen.reserved(), std::cmp::Reverse(*at)));
        best.map(|(at, _)| at)
    };
    let used = |seen: &Seen<'_>| seen.reserved() > Bytes::ZERO;
    best(&|seen| seen.gave_up.is_some() && !was_tried_again(seen, all))
        .or_else(|| best(&|seen| used(seen) && seen.is_measured && seen.gave_up.is_none()))
        .or_else(|| best(&|seen| used(seen) && seen.is_measured))
        .or_else(|| best(&used))
        .or_else(|| best(&|_| true))
}

impl Verdict {
    /// Judges the processes of one script together, of which `started` is the one that was started: the index of the
    /// profile that the figures are of, and the verdict. `None` when there is no profile.
    pub fn of_processes(
        profiles: &[Profile],
        started: u64,
        circumstances: &Circumstances,
    ) -> Result<Option<(usize, Self)>, AnalysisError> {
        // Most scripts have one, which need not be looked at twice.
        if let [profile] = profiles {
            let beside = Beside {
                shown: Shown::of(profile.pid, started),
                ..Beside::default()
            };
            let circumstances = Circumstances {
                beside,
                ..circumstances.clone()
            };
            return Ok(Some((0, Self::from_profile(profile, &circumstances)?)));
        }
        // A process that was killed before it used the device says nothing.
        let all: Vec<(usize, Seen<'_>)> = profiles
            .iter()
            .enumerate()
            .filter_map(|(at, profile)| Some((at, Seen::of(profile, circumstances).ok()?)))
            .collect();
        let (places, all): (Vec<usize>, Vec<Seen<'_>>) = all.into_iter().unzip();
        let Some(at) = shown(&all, started) else {
            return Ok(None);
        };
        let own = &all[at];
        let device = own.verdict.device.index;
        let others: Vec<&Seen<'_>> = all
            .iter()
            .enumerate()
            .filter(|(other, seen)| {
                *other != at && seen.verdict.device.index == device && seen.reserved() > Bytes::ZERO
            })
            .map(|(_, seen)| seen)
            .collect();
        let processes = others
            .iter()
            .map(|seen| OtherProcess {
                pid: seen.profile.pid,
                reserved_bytes: seen.reserved(),
                process_bytes: seen.verdict.peak.process_bytes,
            })
            .collect();
        let highest = all.iter().map(|seen| together(seen.profile));
        let highest = highest.filter_map(|of| of.get(&u64::from(device)).copied());
        let beside = Beside {
            at_most: at_most(own, &others),
            processes,
            together: Bytes::new(highest.max().unwrap_or(0)),
            shown: Shown::of(own.profile.pid, started),
        };
        let circumstances = Circumstances {
            beside,
            ..circumstances.clone()
        };
        let verdict = Self::from_profile(own.profile, &circumstances)?;
        Ok(Some((places[at], verdict)))
    }
}
