//! Why memory ran out, from PyTorch's own record. A snapshot has every block and its stack, and no figure of the card:
//! what is known of that is what PyTorch held and what the driver called free at the failed request.

use std::collections::HashMap;

use oomproof_snapshot::{Action, Entry, Snapshot, StackId};
use oomproof_units::Bytes;

use crate::balance::Balance;
use crate::cues::Cues;
use crate::explanation::{Explanation, Facts};
use crate::failure::Failure;
use crate::figures::Figures;
use crate::format::{Backend, Format};
use crate::held::{Held, HeldBy};
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
    let conf = snapshot
        .settings()
        .map(|settings| settings.conf.as_str())
        .unwrap_or_default();
    let held = Held {
        unknown_bytes: state.live,
        lines: lines(snapshot, first),
        ..Held::default()
    };
    Some(Explanation::of(Facts {
        failures,
        explained: 0,
        balance: Some(balance),
        cues: Cues::of(&conf.to_lowercase()),
        nvidia_smi: None,
        suspects: script.map(script::suspects).unwrap_or_default(),
        held: Some(&held),
    }))
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
    let caught = if after > 0 {
        format!("; {after} entries follow, so the program went on")
    } else {
        "; the trace ends there".to_owned()
    };
    let figures = Figures {
        tried_bytes: Some(entry.size),
        free_bytes: entry.device_free(),
        allocated_bytes: Some(state.live),
        reserved_bytes: Some(state.reserved),
        unallocated_bytes: Some(state.reserved.saturating_sub(state.live)),
        ..Figures::default()
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
        let trace = &snapshot.traces()[failed.device];
        let segments = || {
            let all = snapshot.segments().iter();
            all.filter(|segment| segment.info().device as usize == failed.device)
        };
        let (mut live, mut reserved) = (0_i128, 0_i128);
        for segment in segments() {
            live += signed(segment.info().allocated_size);
            reserved += signed(segment.info().total_size);
        }
        for entry in trace.entries().skip(failed.at) {
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
