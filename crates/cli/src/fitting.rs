//! Runs what the search asks for, several at once, until it is over, time is up or the user has enough.
//!
//! The search is believed at each moment, so whatever ends the driver, what was found until then is an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use oomproof_analysis::Verdict;
use oomproof_planner::{Candidate, LeverUse, Outcome as Told, Report, Search, describe};

use crate::failure::Failure;
use crate::printer;
use crate::trial::{Setup, Trial, Trials};

/// How often those who wait look whether there is something to do.
const LOOK: Duration = Duration::from_millis(20);

/// What ends a search before its own end.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// No run goes on after this.
    pub at: Instant,
    /// The user has enough.
    pub interrupted: Arc<AtomicBool>,
    /// Runs that wait for their end are to end now; set with the other, and when time is up.
    pub stop: Arc<AtomicBool>,
}

impl Ends {
    /// Whether no run may begin.
    pub(crate) fn have_come(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.was_interrupted() || Instant::now() >= self.at
    }

    /// Whether the user ended it.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// What a search has come to.
pub(crate) struct Found {
    pub report: Report,
    /// The figures of every plan that ran.
    pub verdicts: Vec<(Vec<LeverUse>, Verdict)>,
    /// Whether nothing is left that could change the answer.
    pub is_whole: bool,
}

struct State {
    search: Search,
    verdicts: Vec<(Vec<LeverUse>, Verdict)>,
    failure: Option<Failure>,
    n_done: usize,
}

/// Runs the search to one of its ends.
pub(crate) fn find(
    trials: &Trials<'_>,
    setup: &Setup,
    search: Search,
    ends: &Ends,
) -> Result<Found, Failure> {
    let state = Mutex::new(State {
        search,
        verdicts: Vec::new(),
        failure: None,
        n_done: 0,
    });
    thread::scope(|scope| {
        let workers: Vec<_> = (0..trials.width())
            .map(|_| scope.spawn(|| work(trials, setup, &state, ends)))
            .collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            if ends.have_come() {
                ends.stop.store(true, Ordering::Relaxed);
            }
            thread::sleep(LOOK);
        }
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.failure {
        Some(failure) => Err(failure),
        None => Ok(Found {
            report: state.search.report(),
            is_whole: state.search.finished(),
            verdicts: state.verdicts,
        }),
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(trials: &Trials<'_>, setup: &Setup, state: &Mutex<State>, ends: &Ends) {
    loop {
        let candidate = {
            let mut state = locked(state);
            if state.failure.is_some() || ends.have_come() {
                return;
            }
            match state.search.next() {
                Some(candidate) => candidate,
                None if state.search.finished() => return,
                None => {
                    drop(state);
                    thread::sleep(LOOK);
                    continue;
                }
            }
        };
        let begun = Instant::now();
        let trial = trials.candidate(&candidate.levers, setup);
        let mut state = locked(state);
        match trial {
            Ok(Some(trial)) => {
                state.n_done += 1;
                narrate(state.n_done, &candidate, &trial, begun.elapsed());
                if let Some(verdict) = trial.verdict {
                    state.verdicts.push((candidate.levers, verdict));
                }
                state.search.tell(candidate.id, trial.told);
            }
            // What was ended from outside tells nothing of the plan.
            Ok(None) => return,
            Err(failure) => {
                state.failure.get_or_insert(failure);
                return;
            }
        }
    }
}

fn narrate(number: usize, candidate: &Candidate, trial: &Trial, took: Duration) {
    let what = match &trial.told {
        Told::Ran(measured) => format!(
            "{}, peak {} allocated",
            if measured.fits {
                "fits"
            } else {
                "does not fit"
            },
            measured.allocated
        ),
        Told::RanOut { .. } => "does not fit".to_owned(),
        Told::Refused { lever, reason } => format!("`{lever}` cannot be used: {reason}"),
        Told::Failed(reason) => format!("failed: {reason}"),
    };
    printer::say(&format!(
        "plan {number} ({}): {what} [{:.1} s]",
        in_short(&candidate.levers),
        took.as_secs_f64()
    ));
}

/// The levers of a plan in one line.
pub(crate) fn in_short(levers: &[LeverUse]) -> String {
    if levers.is_empty() {
        return "the script as it is".to_owned();
    }
    let each: Vec<String> = levers.iter().map(brief).collect();
    each.join(", ")
}

/// A lever with its parameters, lists as their lengths.
fn brief(lever: &LeverUse) -> String {
    let parameters: Vec<String> = lever
        .parameters
        .iter()
        .map(|(name, value)| match value {
            serde_json::Value::Array(items) if items.len() == 1 => {
                format!("1 {}", name.trim_end_matches('s'))
            }
            serde_json::Value::Array(items) => format!("{} {name}", items.len()),
            serde_json::Value::String(text) => text.clone(),
            // Numbers of pieces, such as `4 chunks`, are named like those of modules.
            serde_json::Value::Number(number) if name.ends_with('s') => format!("{number} {name}"),
            other => format!("{name} {other}"),
        })
        .collect();
    if parameters.is_empty() {
        return lever.name.to_string();
    }
    format!("{} {}", lever.name, parameters.join(" "))
}

/// What a plan does, a line for each lever.
pub(crate) fn in_words(levers: &[LeverUse]) -> Vec<String> {
    levers.iter().map(describe).collect()
}
