//! Why memory ran out, from PyTorch's own record. A snapshot has every block and its stack, and no figure of the card:
//! what is known of that is what PyTorch held and what the driver called free at the failed request.

use std::collections::HashMap;

use oomproof_snapshot::{Action, Entry, Snapshot, StackId, Trace};
use oomproof_units::Bytes;

use crate::agreement::{Agreement, RecordKind};
use crate::balance::Balance;
use crate::cues::Cues;
use crate::explanation::{Explanation, Facts, Input};
use crate::failure::Failure;
use crate::figures::Figures;
use crate::format::{Backend, Format};
use crate::held::{Held, HeldBy};
use crate::holes;
use crate::moment;
use crate::release::{NEWEST, OLDEST, Release, Releases};
use crate::script;
use crate::trace::Frame;

/// Most source lines that are named.
const MOST_LINES: usize = 8;
/// Most failed requests that are listed.
const MOST_FAILURES: usize = 50;

/// A request that failed.
#[derive(Clone, Copy)]
struct Failed {
    device: usize,
    /// Index of its entry.
    at: usize,
}

/// Explains the first request that failed while a snapshot was recorded; `None` when none did.
pub fn explain_snapshot(snapshot: &Snapshot, script: Option<&str>) -> Option<Explanation> {
    let failed = failed(snapshot);
    let first = *failed.first()?;
    let state = State::at(snapshot, first);
    let failures: Vec<Failure> = failed
        .iter()
        .take(MOST_FAILURES)
        .map(|&each| failure(snapshot, each))
        .collect();
    let balance = state.balance(&failures[0].figures);
    let held = held(snapshot, first, &state);
    Some(Explanation::of(Facts {
        failures,
        explained: 0,
        balance: Some(balance),
        cues: Cues::of(&settings_of(snapshot)),
        nvidia_smi: None,
        memory_summaries: Vec::new(),
        agreement: None,
        suspects: script.map(script::suspects).unwrap_or_default(),
        script_path: None,
        held: Some(&held),
    }))
}

/// Explains a text with the blocks and stacks of a snapshot of the same program; `None` when neither has a failure.
pub fn explain_with_snapshot(input: &Input<'_>, snapshot: &Snapshot) -> Option<Explanation> {
    let mut facts = Facts::read(input);
    let Some(text) = facts.failures.get(facts.explained) else {
        let found = explain_snapshot(snapshot, input.script)?;
        return Some(Explanation {
            nvidia_smi: facts.nvidia_smi,
            memory_summaries: facts.memory_summaries,
            ..found
        });
    };
    let (at, agreement) = same_failure(snapshot, &text.figures).unwrap_or_else(|| {
        let end = end_of(snapshot, text.device);
        let there = State::at(snapshot, end).figures();
        (
            end,
            Agreement::of(RecordKind::Snapshot, &text.figures, &there),
        )
    });
    let state = State::at(snapshot, at);
    let mut held = held(snapshot, at, &state);
    if agreement.same_moment {
        // A traceback in the text says more than the stack of the request; the end of a trace has none.
        let own = &facts.failures[facts.explained];
        let recorded = snapshot.traces().get(at.device);
        let stack = recorded
            .filter(|trace| at.at < trace.len())
            .map(|_| failure(snapshot, at));
        held.phase = own.phase.or(stack.as_ref().and_then(|stack| stack.phase));
        held.place = own
            .r#where
            .clone()
            .or(stack.and_then(|stack| stack.r#where));
    } else {
        held.unknown_bytes = Bytes::ZERO;
        held.largest_hole_bytes = None;
    }
    facts.agreement = Some(agreement);
    facts.cues.add(&settings_of(snapshot));
    Some(Explanation::of(facts.with(&held).reckoned()))
}

/// The failed request whose figures are most like those of a text.
fn same_failure(snapshot: &Snapshot, text: &Figures) -> Option<(Failed, Agreement)> {
    let mut found: Option<(Failed, Agreement)> = None;
    for each in failed(snapshot).into_iter().take(MOST_FAILURES) {
        let there = failure(snapshot, each).figures;
        let agreement = Agreement::of(RecordKind::Snapshot, text, &there);
        let better = found
            .as_ref()
            .is_none_or(|(_, best)| agreement.n_agreeing() > best.n_agreeing());
        if better {
            found = Some((each, agreement));
        }
    }
    found
}

/// Where a snapshot without a failed request ends, on the device of the text or else on the fullest.
fn end_of(snapshot: &Snapshot, device: Option<u32>) -> Failed {
    let live = |device: usize| -> u64 {
        let all = snapshot.segments().iter();
        all.filter(|segment| segment.info().device as usize == device)
            .map(|segment| segment.info().allocated_size.get())
            .sum()
    };
    let n_devices = snapshot.traces().len();
    let named = device
        .map(|device| device as usize)
        .filter(|device| *device < n_devices);
    let device = named.unwrap_or_else(|| {
        (0..n_devices)
            .max_by_key(|&device| (live(device), std::cmp::Reverse(device)))
            .unwrap_or(0)
    });
    Failed {
        device,
        at: snapshot.traces().get(device).map_or(0, Trace::len),
    }
}

fn settings_of(snapshot: &Snapshot) -> String {
    snapshot
        .settings()
        .map(|settings| settings.conf.to_lowercase())
        .unwrap_or_default()
}

fn held(snapshot: &Snapshot, at: Failed, state: &State) -> Held {
    if at.device >= snapshot.traces().len() {
        return Held::default();
    }
    Held {
        unknown_bytes: state.live,
        lines: lines(snapshot, at),
        largest_hole_bytes: holes::largest(snapshot, at.device, at.at),
        ..Held::default()
    }
}

/// All failed requests, in the order of their time where that was recorded, and of devices otherwise.
fn failed(snapshot: &Snapshot) -> Vec<Failed> {
    let mut found: Vec<(Option<u64>, Failed)> = Vec::new();
    for (device, trace) in snapshot.traces().iter().enumerate() {
        for (at, action) in trace.actions().iter().enumerate() {
            if *action == Action::OutOfMemory {
                let time = trace.entry(at).time.map(oomproof_units::Micros::get);
                found.push((time, Failed { device, at }));
            }
        }
    }
    found.sort_by_key(|&(time, failed)| (time, failed.device, failed.at));
    found.into_iter().map(|(_, failed)| failed).collect()
}

fn failure(snapshot: &Snapshot, failed: Failed) -> Failure {
    let trace = &snapshot.traces()[failed.device];
    let entry = trace.entry(failed.at);
    let state = State::at(snapshot, failed);
    let frames = frames(snapshot, entry.stack);
    let after = trace.len() - failed.at - 1;
    let later = trace.actions().iter().skip(failed.at + 1);
    let n_new = later.filter(|action| **action == Action::Alloc).count();
    let caught = match (after, n_new) {
        (0, _) => "; the trace ends there".to_owned(),
        (_, 0) => format!("; {after} entries follow, which only give memory back"),
        _ => {
            format!("; {after} entries follow, {n_new} of them new blocks, so the program went on")
        }
    };
    let figures = Figures {
        tried_bytes: Some(entry.size),
        free_bytes: entry.device_free(),
        ..state.figures()
    };
    Failure {
        format: Format::Snapshot,
        backend: Backend::Cuda,
        line: 0,
        rank: None,
        device: Some(failed.device as u32),
        message: format!(
            "entry {} of {} of device {}: {} were asked for{caught}",
            failed.at + 1,
            trace.len(),
            failed.device,
            entry.size
        ),
        truncated: false,
        times: 1,
        torch: releases(snapshot),
        figures,
        phase: moment::of_frames(&frames),
        r#where: frames
            .iter()
            .rev()
            .find(|frame| !frame.is_of_library())
            .cloned(),
        frames,
        squeezed: String::new(),
    }
}

fn releases(snapshot: &Snapshot) -> Releases {
    let known = &snapshot.origin().releases;
    let release =
        |minor: oomproof_snapshot::MinorRelease| Release(minor.major.into(), minor.minor.into());
    Releases {
        oldest: known.earliest.map_or(OLDEST, release),
        newest: known.latest.map_or(NEWEST, release),
    }
}

/// The frames of a stack, outermost first, without those of machine code.
fn frames(snapshot: &Snapshot, stack: StackId) -> Vec<Frame> {
    let mut frames: Vec<Frame> = snapshot
        .stacks()
        .frames(stack)
        .filter(|frame| frame.line > 0)
        .map(|frame| Frame {
            file: snapshot.text(frame.file).to_owned(),
            line: frame.line,
            function: snapshot.text(frame.function).to_owned(),
            code: None,
        })
        .collect();
    frames.reverse();
    frames
}

/// What one device held at one entry of its trace.
struct State {
    live: Bytes,
    reserved: Bytes,
}

impl State {
    /// The end is known exactly, so amounts are reckoned back from it.
    fn at(snapshot: &Snapshot, failed: Failed) -> Self {
        let trace = snapshot.traces().get(failed.device);
        let segments = || {
            let all = snapshot.segments().iter();
            all.filter(|segment| segment.info().device as usize == failed.device)
        };
        let (mut live, mut reserved) = (0_i128, 0_i128);
        for segment in segments() {
            live += signed(segment.info().allocated_size);
            reserved += signed(segment.info().total_size);
        }
        let later = trace
            .into_iter()
            .flat_map(|trace| trace.entries().skip(failed.at));
        for entry in later {
            let size = signed(entry.size);
            match entry.action {
                Action::Alloc => live -= size,
                Action::FreeRequested => live += size,
                Action::SegmentAlloc | Action::SegmentMap => reserved -= size,
                Action::SegmentFree | Action::SegmentUnmap => reserved += size,
                _ => {}
            }
        }
        Self {
            live: unsigned(live),
            reserved: unsigned(reserved.max(live)),
        }
    }

    fn figures(&self) -> Figures {
        Figures {
            allocated_bytes: Some(self.live),
            reserved_bytes: Some(self.reserved),
            unallocated_bytes: Some(self.reserved.saturating_sub(self.live)),
            ..Figures::default()
        }
    }

    fn balance(&self, figures: &Figures) -> Balance {
        let free = figures.free_bytes.unwrap_or_default();
        let tried = figures.tried_bytes;
        Balance {
            // The context and other processes are in no snapshot.
            total_bytes: self.reserved + free,
            live_bytes: self.live,
            idle_bytes: self.reserved.saturating_sub(self.live),
            free_bytes: figures.free_bytes,
            tried_bytes: tried,
            short_bytes: tried.map(|tried| tried.saturating_sub(free)),
            ..Balance::default()
        }
    }
}

/// The source lines that held most at a failed request, of the user's own where a stack has one.
fn lines(snapshot: &Snapshot, failed: Failed) -> Vec<HeldBy> {
    let before = snapshot.traces()[failed.device].entries().take(failed.at);
    let mut lines: Vec<HeldBy> = Vec::new();
    let mut rows: HashMap<String, usize> = HashMap::new();
    for (stack, bytes) in by_stack(before) {
        let frames = frames(snapshot, stack);
        let own = frames.iter().rev().find(|frame| !frame.is_of_library());
        let Some(frame) = own.or(frames.last()) else {
            continue;
        };
        let name = format!("{} {}", frame.place(), frame.function);
        let row = *rows.entry(name.clone()).or_insert(lines.len());
        match lines.get_mut(row) {
            Some(line) => line.bytes += bytes,
            None => lines.push(HeldBy { name, bytes }),
        }
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines.truncate(MOST_LINES);
    lines
}

/// Live blocks by their stack, in the order of their first one. What was live before the trace is not among them.
fn by_stack(entries: impl Iterator<Item = Entry>) -> Vec<(StackId, Bytes)> {
    let mut live: HashMap<u64, (StackId, Bytes)> = HashMap::new();
    let mut order: Vec<StackId> = Vec::new();
    for entry in entries {
        match entry.action {
            Action::Alloc => {
                live.insert(entry.address.get(), (entry.stack, entry.size));
                order.push(entry.stack);
            }
            Action::FreeRequested => {
                live.remove(&entry.address.get());
            }
            _ => {}
        }
    }
    let mut sums: HashMap<StackId, Bytes> = HashMap::new();
    // Sums do not depend on the order.
    for (stack, size) in live.into_values() {
        *sums.entry(stack).or_default() += size;
    }
    order.dedup();
    let mut found = Vec::new();
    for stack in order {
        found.extend(sums.remove(&stack).map(|bytes| (stack, bytes)));
    }
    found
}

fn signed(bytes: Bytes) -> i128 {
    i128::from(bytes.get())
}

/// A trace that lost entries can give less than nothing.
fn unsigned(bytes: i128) -> Bytes {
    Bytes::new(u64::try_from(bytes).unwrap_or(if bytes < 0 { 0 } else { u64::MAX }))
}
