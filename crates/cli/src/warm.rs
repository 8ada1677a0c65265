//! A script that waits before its first use of the device, and is forked for each run that is asked for.
//!
//! Imports and building the model are most of a short run and the same in all of them. The process that was started
//! never uses the device itself; each run is a child of it, which has settings of its own and is judged like any other.
//! A script that cannot be forked goes on as the first run, so that no time is lost.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use oomproof_analysis::EndedBy;
use oomproof_profile::WarmSettings;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::child::{self, Ended};
use crate::failure::Failure;
use crate::launch::{Launch, Outcome, Prepared, not_started};

/// How often is looked whether something has come.
const LOOK: Duration = Duration::from_millis(10);
/// How long a child may take to end after its time.
const GRACE: Duration = Duration::from_secs(5);
const SOCKET: &str = "warm";

/// What came of starting a script that is to wait.
pub(crate) enum Started {
    /// It waits.
    Waiting(Warm),
    /// It cannot be forked, and ran as it is: why, and what came of it.
    Ran(String, Box<Outcome>),
}

/// A script that waits.
pub(crate) struct Warm {
    connection: UnixStream,
    waiting: Arc<Mutex<HashMap<u64, Sender<Message>>>>,
    next: AtomicU64,
    process: Option<JoinHandle<io::Result<Ended>>>,
    interrupted: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
}

/// What the script's side says.
#[derive(Clone, Debug, Default, Deserialize)]
struct Message {
    id: Option<u64>,
    refused: Option<String>,
    started: Option<u32>,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

/// What it is asked for.
#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    run: &'a Path,
    output: &'a Path,
}

/// Why a run of a waiting script has no outcome.
#[derive(Debug)]
pub(crate) enum Missing {
    /// The script no longer waits.
    Lost,
    /// It could not be judged, as any run may.
    Failed(Failure),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Warm {
    /// Starts the script of `launch`, which waits for at most `limit` in all; `interrupted` ends every wait.
    pub(crate) fn start(
        launch: &Launch,
        limit: Duration,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Started, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("oomproof-")
            .tempdir()
            .map_err(|error| Failure::io("make a folder in", &std::env::temp_dir(), &error))?;
        let listener = listen(folder.path())
            .map_err(|error| Failure::io("listen in", folder.path(), &error))?;
        let first = Launch {
            warm: Some(WarmSettings {
                socket: folder.path().join(SOCKET),
                launcher: std::process::id(),
            }),
            ..launch.clone()
        };
        let mut prepared = Prepared::new(&first)?;
        let command = prepared.command()?;
        let process = thread::spawn(move || child::run(command, limit));
        let connection = accept(&listener, &process);
        let mut lines = match &connection {
            Some(connection) => Some(reading(connection, folder.path())?),
            None => None,
        };
        let answer = lines.as_mut().and_then(next_message);
        if let (Some(connection), Some(lines), Some(Message { refused: None, .. })) =
            (connection, lines, &answer)
        {
            let waiting = Arc::new(Mutex::new(HashMap::new()));
            let heard = Arc::clone(&waiting);
            // The folder of the process that waits must stay, and its own run is never judged.
            let kept = prepared.into_folder();
            thread::spawn(move || {
                dispatch(lines, &heard);
                drop(kept);
            });
            return Ok(Started::Waiting(Self {
                connection,
                waiting,
                next: AtomicU64::new(1),
                process: Some(process),
                interrupted,
                _folder: folder,
            }));
        }
        let why = answer
            .and_then(|answer| answer.refused)
            .unwrap_or_else(|| "the script ended before it used the device".to_owned());
        let ended = process
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the launcher's thread ended")))
            .map_err(|error| not_started(launch, &error))?;
        Ok(Started::Ran(why, Box::new(prepared.judge(&ended)?)))
    }

    /// Forks the script, which goes on with the settings of `launch`, and judges it when it has ended.
    pub(crate) fn run(&self, launch: &Launch) -> Result<Outcome, Missing> {
        let prepared = Prepared::new(launch)?;
        let output = prepared.folder().join("output.txt");
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, messages) = mpsc::channel();
        self.locked().insert(id, sender);
        let request = Request {
            id,
            run: prepared.settings_file(),
            output: &output,
        };
        let mut line = serde_json::to_vec(&request).map_err(|_| Missing::Lost)?;
        line.push(b'\n');
        (&self.connection)
            .write_all(&line)
            .map_err(|_| Missing::Lost)?;
        let ended = self.wait(&messages, launch.timeout);
        self.locked().remove(&id);
        let ended = ended.ok_or(Missing::Lost)?;
        Ok(prepared.judge(&ended)?)
    }

    /// How the child ended; `None` when nobody can say.
    fn wait(&self, messages: &Receiver<Message>, timeout: Duration) -> Option<Ended> {
        let mut by = EndedBy::Script;
        let mut pid = None;
        let mut at = Instant::now() + timeout;
        loop {
            match messages.recv_timeout(LOOK) {
                Ok(Message {
                    started: Some(id), ..
                }) => pid = Some(id),
                Ok(message) => {
                    return Some(Ended {
                        pid: pid?,
                        exit_code: message.exit_code,
                        signal: message.signal,
                        by,
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let signal = if self.interrupted.load(Ordering::Relaxed) && by == EndedBy::Script {
                by = EndedBy::Interrupt;
                Some(Signal::KILL)
            } else if Instant::now() >= at {
                at = Instant::now() + GRACE;
                match by {
                    EndedBy::Script => {
                        by = EndedBy::Timeout;
                        Some(Signal::TERM)
                    }
                    _ => Some(Signal::KILL),
                }
            } else {
                None
            };
            let group = pid.and_then(|pid: u32| Pid::from_raw(pid.cast_signed()));
            if let (Some(signal), Some(group)) = (signal, group) {
                let _ = kill_process_group(group, signal);
            }
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Sender<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // Without a connection the script's side ends itself and its children.
        let _ = self.connection.shutdown(Shutdown::Both);
        if let Some(process) = self.process.take() {
            let _ = process.join();
        }
    }
}

/// A flag that Ctrl-C and a request to end set, together with `stop`.
pub(crate) fn watch_interrupts(stop: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        for flag in [&interrupted, stop] {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(|error| {
                Failure::environment("io", format!("signals cannot be watched: {error}"))
            })?;
        }
    }
    Ok(interrupted)
}

/// Through the folder, because the path of a socket may have 107 bytes only.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let handle = File::open(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", handle.as_raw_fd());
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The script's connection; `None` when it ended without one.
fn accept(listener: &UnixListener, process: &JoinHandle<io::Result<Ended>>) -> Option<UnixStream> {
    loop {
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_nonblocking(false).ok()?;
                return Some(connection);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if process.is_finished() {
                    return None;
                }
                thread::sleep(LOOK);
            }
            Err(_) => return None,
        }
    }
}

fn reading(connection: &UnixStream, folder: &Path) -> Result<BufReader<UnixStream>, Failure> {
    connection
        .try_clone()
        .map(BufReader::new)
        .map_err(|error| Failure::io("listen in", folder, &error))
}

fn next_message(lines: &mut BufReader<UnixStream>) -> Option<Message> {
    let mut line = String::new();
    match lines.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => serde_json::from_str(&line).ok(),
    }
}

/// Passes what comes on to the runs that wait for it, and ends their waits when nothing will come any more.
fn dispatch(mut lines: BufReader<UnixStream>, waiting: &Mutex<HashMap<u64, Sender<Message>>>) {
    while let Some(message) = next_message(&mut lines) {
        let runs = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = message.id.and_then(|id| runs.get(&id)) {
            let _ = run.send(message);
        }
    }
    waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}
