//! Starts the script, waits for it, and leaves nothing of it behind.
//!
//! A script may start workers that outlive it, and may ignore the signals it gets. So the launcher adopts orphans
//! (a "child subreaper"), every request to end is followed by a stronger one, and what is left afterwards is ended.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use oomproof_analysis::EndedBy;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, set_child_subreaper,
    waitid, waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a process may take to clean up between one signal and the next, stronger one.
const GRACE: Duration = Duration::from_secs(5);
/// How long orphans get after `SIGTERM`.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
/// Ctrl-C in a terminal reaches the script without us; only a script that seems not to have got it is sent it again.
const TERMINAL_DELIVERS: Duration = Duration::from_secs(2);

/// How a script ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Its process.
    pub pid: u32,
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Who ended it.
    pub by: EndedBy,
}

enum Event {
    Exited,
    Signal(i32),
}

/// Runs `command` to its end, or for at most `timeout`.
pub(crate) fn run(mut command: Command, timeout: Duration) -> io::Result<Ended> {
    set_child_subreaper(Some(getpid()))?;
    let others = children();
    let (sender, events) = mpsc::channel();
    let signals = forward_signals(sender.clone())?;
    let mut child = command.spawn()?;
    let pid = child_pid(child.id());
    thread::spawn(move || {
        // The process stays a zombie until `child.wait()`, so that its id is not reused while we may still signal it.
        while waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .is_err_and(|error| error == rustix::io::Errno::INTR)
        {}
        let _ = sender.send(Event::Exited);
    });

    let mut by = EndedBy::Script;
    let mut ladder = Ladder::starting(Instant::now() + timeout, &[Signal::TERM, Signal::KILL]);
    loop {
        let event = match ladder.next_at() {
            Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Exited) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Signal(SIGINT)) if by == EndedBy::Interrupt => ladder.hurry(),
            Ok(Event::Signal(SIGINT)) => {
                by = EndedBy::Interrupt;
                ladder = Ladder::starting(
                    Instant::now() + TERMINAL_DELIVERS,
                    &[Signal::INT, Signal::TERM, Signal::KILL],
                );
            }
            Ok(Event::Signal(_)) => {
                by = EndedBy::Interrupt;
                ladder = Ladder::starting(Instant::now(), &[Signal::TERM, Signal::KILL]);
            }
            Err(RecvTimeoutError::Timeout) => {
                if by == EndedBy::Script {
                    by = EndedBy::Timeout;
                }
                if let Some(signal) = ladder.climb() {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
    let status = child.wait()?;
    end_orphans(&others);
    signals.close();
    Ok(Ended {
        pid: child.id(),
        exit_code: status.code(),
        signal: status.signal(),
        by,
    })
}

/// Signals of rising strength, each after its time.
struct Ladder {
    at: Instant,
    rest: Vec<Signal>,
}

impl Ladder {
    fn starting(at: Instant, signals: &[Signal]) -> Self {
        Self {
            at,
            rest: signals.iter().rev().copied().collect(),
        }
    }

    fn next_at(&self) -> Option<Instant> {
        (!self.rest.is_empty()).then_some(self.at)
    }

    fn climb(&mut self) -> Option<Signal> {
        self.at = Instant::now() + GRACE;
        self.rest.pop()
    }

    fn hurry(&mut self) {
        self.at = Instant::now();
        self.rest.truncate(1);
    }
}

fn forward_signals(sender: Sender<Event>) -> io::Result<signal_hook::iterator::Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let handle = signals.handle();
    thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(handle)
}

fn child_pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).expect("a child's id is above zero")
}

/// Ends every process that became ours because its parent is gone, except those that were ours before.
fn end_orphans(others: &BTreeSet<i32>) {
    let begun = Instant::now();
    let mut asked = BTreeSet::new();
    loop {
        let orphans: Vec<i32> = children().difference(others).copied().collect();
        if orphans.is_empty() {
            return;
        }
        let patience_ended = begun.elapsed() > ORPHAN_GRACE;
        for orphan in orphans {
            let Some(pid) = Pid::from_raw(orphan) else {
                continue;
            };
            if patience_ended {
                let _ = kill_process(pid, Signal::KILL);
            } else if asked.insert(orphan) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if begun.elapsed() > ORPHAN_GRACE + GRACE {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose parent is this one.
fn children() -> BTreeSet<i32> {
    let me = getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id: &i32| {
            fs::read_to_string(format!("/proc/{id}/stat"))
                .is_ok_and(|stat| parent(&stat) == Some(me))
        })
        .collect()
}

/// The parent in `/proc/PID/stat`; the name before it may hold spaces and brackets.
fn parent(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_found_behind_any_name() {
        assert_eq!(parent("12 (python3) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) b (c)) R 9 12"), Some(9));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn a_ladder_ends_with_its_strongest_signal() {
        let mut ladder =
            Ladder::starting(Instant::now(), &[Signal::INT, Signal::TERM, Signal::KILL]);
        assert_eq!(ladder.climb(), Some(Signal::INT));
        ladder.hurry();
        assert_eq!(ladder.climb(), Some(Signal::KILL));
        assert_eq!(ladder.climb(), None);
        assert_eq!(ladder.next_at(), None);
    }
}
