//! `run --scale`: how memory grows with a size of the script, and the largest size that fits.
//!
//! Every figure of the report is of a run, and so are both ends of what fits; the law is through those runs and only
//! chooses which are worth their time.

use std::time::Instant;

use oomproof_analysis::{Answer, Law, Verdict};
use oomproof_planner::{SizeOutcome, SizeSearch};
use oomproof_units::Bytes;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::{Launch, Outcome, launch};
use crate::printer;
use crate::profile_file::{self, LoaderSize};
use crate::scale::{Dimension, Knob, Scale};

use crate::split::UserCommand;

/// Where an argument that the user did not type is tried first.
const START: u64 = 8;
/// Runs of one size, whatever they show.
const MOST_RUNS: usize = 30;
/// Memory that is the same at this many times the smallest size does not depend on it. Less would not show that: as long
/// as the optimizer's step decides, a batch makes no difference.
const FLAT: u64 = 1024;
/// No run is begun once all have taken as many times the limit of one.
const MOST_TIMEOUTS: u32 = 3;

/// How memory grows with one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Growth {
    pub name: String,
    pub set_by: String,
    /// The script's own size, when it is known.
    pub own: Option<u64>,
    pub points: Vec<Point>,
    pub law: Option<Law>,
    pub largest_fitting: Option<u64>,
    pub smallest_not_fitting: Option<u64>,
    /// Why one of the two is missing, or why sizes between them were not run.
    pub ended: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    pub value: u64,
    pub verdict: Answer,
    pub allocated_bytes: Bytes,
    pub reserved_bytes: Bytes,
    pub process_bytes: Bytes,
    /// Why it is not a plain `fits`.
    pub reason: Option<String>,
}

/// The base run, and what may be done beside it.
pub(crate) struct Base<'a> {
    pub launch: &'a Launch,
    pub user: &'a UserCommand,
    pub outcome: &'a Outcome,
}

/// Runs the script at other sizes, one dimension after the other.
pub(crate) fn grow(base: &Base<'_>, scale: &Scale) -> Result<Vec<Growth>, Failure> {
    let begun = Instant::now();
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::io("make a folder in", &std::env::temp_dir(), &error))?;
    let mut grown = Vec::new();
    for dimension in &scale.0 {
        let mut series = Series {
            base,
            dimension,
            begun,
            profile: folder.path().join("point.oomprofile"),
            points: Vec::new(),
        };
        grown.push(series.run()?);
    }
    Ok(grown)
}

/// The runs of one dimension.
struct Series<'a> {
    base: &'a Base<'a>,
    dimension: &'a Dimension,
    begun: Instant,
    profile: std::path::PathBuf,
    points: Vec<Point>,
}

impl Series<'_> {
    fn run(&mut self) -> Result<Growth, Failure> {
        let verdict = &self.base.outcome.verdict;
        let loader = profile_file::loader_size(verdict.profile.as_ref());
        let (own, most) = match &self.dimension.knob {
            Knob::Loaders => (
                loader.map(|found| found.size),
                loader.and_then(|found| found.samples),
            ),
            knob @ Knob::Argument(_) => (knob.value_in(self.base.user), None),
        };
        let room = verdict
            .device
            .total_bytes
            .saturating_sub(verdict.device.reserved_by_others_bytes);
        let start = own.unwrap_or(START);
        let mut search = SizeSearch::new(start, most, room);
        if let Some(ended) = self.refused(own) {
            return Ok(self.report(own, &search, Some(ended)));
        }
        if let Some(own) = own {
            search.ran(own, came(verdict));
            self.points.push(point(own, verdict));
        }
        let ended = loop {
            let Some(value) = search.next() else {
                break most
                    .filter(|most| search.fits() == Some(*most))
                    .map(|most| format!("the data set has {most} samples"));
            };
            if self.points.len() >= MOST_RUNS {
                break Some(format!("{MOST_RUNS} runs were made"));
            }
            if self.begun.elapsed() > self.base.launch.timeout * MOST_TIMEOUTS {
                break Some(format!(
                    "the runs took {MOST_TIMEOUTS} times the limit of one"
                ));
            }
            if self.is_flat() {
                break Some("memory does not depend on it".to_owned());
            }
            let outcome = self.at(value)?;
            if Exit::of_verdict(outcome.code) == Exit::Interrupted {
                break Some("the runs were interrupted".to_owned());
            }
            let took_effect = self.dimension.knob != Knob::Loaders
                || profile_file::loader_size(&self.profile)
                    .is_some_and(|LoaderSize { replaced_by, .. }| replaced_by == Some(value));
            search.ran(
                value,
                if took_effect {
                    came(&outcome.verdict)
                } else {
                    SizeOutcome::Failed
                },
            );
            self.points.push(point(value, &outcome.verdict));
        };
        let ended = ended.or_else(|| self.failure(&search));
        Ok(self.report(own, &search, ended))
    }

    /// Why no run at another size would tell anything.
    fn refused(&self, own: Option<u64>) -> Option<String> {
        if self.base.outcome.verdict.verdict == Answer::Unknown {
            return Some("the script was not measured at its own size".to_owned());
        }
        if self.dimension.knob == Knob::Loaders && own.is_none() {
            let name = &self.dimension.name;
            return Some(format!(
                "the script makes no loader with a batch size; name the argument that sets it, such as `run --scale {name}=--batch-size` or `fit --max-batch=--batch-size`"
            ));
        }
        None
    }

    fn at(&self, value: u64) -> Result<Outcome, Failure> {
        let user = self.dimension.knob.set_in(self.base.user, value);
        let outcome = launch(&Launch {
            arguments: user.python_args(),
            batch_size: (self.dimension.knob == Knob::Loaders).then_some(value),
            profile: Some(self.profile.clone()),
            ..self.base.launch.clone()
        })?;
        let Verdict { verdict, peak, .. } = &outcome.verdict;
        printer::say(&format!(
            "{} {value}: {}, peak {} allocated",
            self.dimension.name,
            word(*verdict),
            peak.allocated_bytes
        ));
        Ok(outcome)
    }

    /// Whether sizes as far apart as they need be took the same.
    fn is_flat(&self) -> bool {
        let values = || self.points.iter().map(|point| point.value);
        let (Some(least), Some(most)) = (values().min(), values().max()) else {
            return false;
        };
        let same = |point: &Point| point.allocated_bytes == self.points[0].allocated_bytes;
        most / FLAT >= least.max(1) && self.points.iter().all(same)
    }

    fn failure(&self, search: &SizeSearch) -> Option<String> {
        let failed = search.failed()?;
        let point = self.points.iter().find(|point| point.value == failed)?;
        let why = point.reason.as_deref().unwrap_or("it took no effect");
        Some(format!("at {failed} {why}"))
    }

    fn report(&self, own: Option<u64>, search: &SizeSearch, ended: Option<String>) -> Growth {
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.value);
        let shown: Vec<(u64, u64)> = search
            .showing()
            .filter_map(|size| points.iter().find(|point| point.value == size))
            .filter(|point| is_whole(point.verdict))
            .map(|point| (point.value, point.allocated_bytes.get()))
            .collect();
        Growth {
            name: self.dimension.name.clone(),
            set_by: self.dimension.knob.words().to_owned(),
            own,
            law: Law::through(&shown),
            largest_fitting: search.fits(),
            smallest_not_fitting: search.does_not_fit(),
            points,
            ended,
        }
    }
}

/// What a run out of memory allocated says where it ended and not how much it needs.
const fn is_whole(answer: Answer) -> bool {
    matches!(answer, Answer::Fits | Answer::Tight)
}

fn came(verdict: &Verdict) -> SizeOutcome {
    let process = verdict.peak.process_bytes.likely;
    match verdict.verdict {
        Answer::Fits | Answer::Tight => SizeOutcome::Fits(process),
        Answer::DoesNotFit => {
            let ran_out = verdict.oom.as_ref().is_some_and(|oom| !oom.survived);
            SizeOutcome::DoesNotFit((!ran_out).then_some(process))
        }
        Answer::Unknown => SizeOutcome::Failed,
    }
}

fn point(value: u64, verdict: &Verdict) -> Point {
    Point {
        value,
        verdict: verdict.verdict,
        allocated_bytes: verdict.peak.allocated_bytes,
        reserved_bytes: verdict.peak.reserved_bytes,
        process_bytes: verdict.peak.process_bytes.likely,
        reason: verdict.reasons.first().map(|reason| reason.text.clone()),
    }
}

/// The word of an answer.
pub(crate) const fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Fits => "fits",
        Answer::Tight => "tight",
        Answer::DoesNotFit => "does not fit",
        Answer::Unknown => "unknown",
    }
}
