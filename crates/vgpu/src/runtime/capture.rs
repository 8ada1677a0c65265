//! Stream capture: which streams capture into which graph, and what is forbidden meanwhile.
//!
//! A capture spreads over streams through events, belongs to a thread, and ends invalid when anything happens that
//! would need the captured work to have run. PyTorch asks for these errors by number, so they are the real ones.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::Event;
use super::graph::{Graph, Work, add_node, dependencies_of};
use super::stream::Stream;
use crate::deferred::deferred;
use crate::session::Session;
use crate::status::CudaError;

/// `cudaStreamCaptureMode`: who else may disturb a capture, and what a thread may do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_code(code: i32) -> Result<Self, CudaError> {
        match code {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Changes what this thread may do while others capture, and returns what it was.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

/// A number of this thread.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// A capture under way.
struct Capture {
    graph: u64,
    origin: u64,
    mode: Mode,
    thread: u64,
    valid: bool,
    /// The streams in it, and the nodes that the next work of each depends on.
    ends: HashMap<u64, Vec<u64>>,
}

/// Where work on a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// It is done at once.
    Now,
    /// It becomes a node of the graph of this capture.
    Captured(u64),
}

/// What a stream says of its capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    /// `cudaStreamCaptureStatus`: 0 none, 1 active, 2 invalidated.
    pub(crate) status: i32,
    pub(crate) id: u64,
    pub(crate) graph: u64,
    pub(crate) dependencies: Vec<u64>,
}

static CAPTURES: Mutex<BTreeMap<u64, Capture>> = Mutex::new(BTreeMap::new());
/// Asked before the captures themselves: most programs have none, and every launch asks.
static N_CAPTURES: AtomicUsize = AtomicUsize::new(0);

fn captures() -> MutexGuard<'static, BTreeMap<u64, Capture>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether anything captures.
pub(crate) fn any() -> bool {
    N_CAPTURES.load(Ordering::Relaxed) > 0
}

fn of_stream(captures: &mut BTreeMap<u64, Capture>, stream: u64) -> Option<(u64, &mut Capture)> {
    captures
        .iter_mut()
        .find(|(_, capture)| capture.ends.contains_key(&stream))
        .map(|(id, capture)| (*id, capture))
}

/// The default stream waits for all streams that do not ask to be left alone.
fn is_legacy(stream: u64) -> bool {
    stream <= 1
}

fn is_blocking(session: &Session, stream: u64) -> bool {
    let flags = session
        .handles::<Stream>()
        .with(stream, |stream| stream.flags);
    flags.is_none_or(|flags| flags & 1 == 0)
}

/// Begins a capture on `stream`, into `graph`, whose nodes `after` come first.
pub(crate) fn begin(
    session: &Session,
    stream: u64,
    mode: Mode,
    graph: u64,
    after: Vec<u64>,
) -> Result<(), CudaError> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if is_legacy(stream) {
        return Err(CudaError::CAPTURE_UNSUPPORTED);
    }
    if !session.handles::<Graph>().has(graph) {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut captures = captures();
    if of_stream(&mut captures, stream).is_some() {
        return Err(CudaError::ILLEGAL_STATE);
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let capture = Capture {
        graph,
        origin: stream,
        mode,
        thread: thread(),
        valid: true,
        ends: HashMap::from([(stream, after)]),
    };
    captures.insert(id, capture);
    N_CAPTURES.store(captures.len(), Ordering::Relaxed);
    Ok(())
}

/// Ends the capture that began on `stream`; its graph, and whether it is whole.
pub(crate) fn end(session: &Session, stream: u64) -> Result<u64, (CudaError, Option<u64>)> {
    let mut captures = captures();
    let Some((id, capture)) = of_stream(&mut captures, stream) else {
        return Err((CudaError::ILLEGAL_STATE, None));
    };
    if capture.origin != stream {
        capture.valid = false;
        return Err((CudaError::CAPTURE_UNMATCHED, None));
    }
    if capture.mode != Mode::Relaxed && capture.thread != thread() {
        return Err((CudaError::CAPTURE_WRONG_THREAD, None));
    }
    let Some(capture) = captures.remove(&id) else {
        return Err((CudaError::UNKNOWN, None));
    };
    N_CAPTURES.store(captures.len(), Ordering::Relaxed);
    drop(captures);
    if !capture.valid {
        return Err((CudaError::CAPTURE_INVALIDATED, Some(capture.graph)));
    }
    let joined = before(session, capture.graph, &capture.ends[&stream]);
    let ends = capture.ends.values().flatten();
    if ends.clone().any(|node| !joined.contains(node)) {
        return Err((CudaError::CAPTURE_UNJOINED, Some(capture.graph)));
    }
    Ok(capture.graph)
}

/// `ends` and all nodes before them.
fn before(session: &Session, graph: u64, ends: &[u64]) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut open = ends.to_vec();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            open.extend(dependencies_of(session, graph, node).unwrap_or_default());
        }
    }
    found
}

/// Where work that is put on `stream` goes.
pub(crate) fn lane(session: &Session, stream: u64) -> Result<Lane, CudaError> {
    if !any() {
        return Ok(Lane::Now);
    }
    let mut captures = captures();
    match of_stream(&mut captures, stream) {
        Some((id, capture)) if capture.valid => Ok(Lane::Captured(id)),
        Some(_) => Err(CudaError::CAPTURE_INVALIDATED),
        None if is_legacy(stream) => {
            let mut status = Ok(Lane::Now);
            for capture in captures.values_mut() {
                if is_blocking(session, capture.origin) {
                    capture.valid = false;
                    status = Err(CudaError::CAPTURE_IMPLICIT);
                }
            }
            status
        }
        None => Ok(Lane::Now),
    }
}

/// Adds work on `stream` to the graph of capture `id`.
pub(crate) fn add(session: &Session, id: u64, stream: u64, work: Work) -> Result<(), CudaError> {
    let mut captures = captures();
    let capture = captures
        .get_mut(&id)
        .ok_or(CudaError::CAPTURE_INVALIDATED)?;
    let dependencies = capture.ends.remove(&stream).unwrap_or_default();
    let node = add_node(session, capture.graph, dependencies, work)?;
    capture.ends.insert(stream, vec![node]);
    Ok(())
}

/// Does work on a stream, or takes down what it would do.
pub(crate) fn submit(
    session: &Session,
    stream: u64,
    work: impl FnOnce() -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    match lane(session, stream)? {
        Lane::Now => work(),
        Lane::Captured(id) => {
            let (done, effects) = deferred(work);
            done?;
            add(session, id, stream, Work::Effects(effects.into()))
        }
    }
}

/// Work whose stream is not known is part of every capture under way; whether there is one.
pub(crate) fn submit_to_all(session: &Session, work: impl FnOnce()) -> bool {
    if !any() {
        return false;
    }
    let ((), effects) = deferred(work);
    let effects = Arc::new(effects);
    let streams: Vec<(u64, u64)> = captures()
        .iter()
        .map(|(id, capture)| (*id, capture.origin))
        .collect();
    for (id, stream) in streams {
        // A capture whose graph was destroyed has nobody to tell.
        let _ = add(session, id, stream, Work::Effects(effects.clone()));
    }
    true
}

/// The host waits for `stream`, or asks how far it is: it would wait for ever.
pub(crate) fn refuse_waiting(session: &Session, stream: u64) -> Result<(), CudaError> {
    match lane(session, stream)? {
        Lane::Now => Ok(()),
        Lane::Captured(id) => {
            invalidate(id);
            Err(CudaError::CAPTURE_UNSUPPORTED)
        }
    }
}

/// The host waits for all streams.
pub(crate) fn refuse_waiting_for_all() -> Result<(), CudaError> {
    if !any() {
        return Ok(());
    }
    let mut captures = captures();
    for capture in captures.values_mut() {
        capture.valid = false;
    }
    if captures.is_empty() {
        Ok(())
    } else {
        Err(CudaError::CAPTURE_UNSUPPORTED)
    }
}

/// The graph of a capture will not be whole.
pub(crate) fn invalidate(id: u64) {
    if let Some(capture) = captures().get_mut(&id) {
        capture.valid = false;
    }
}

/// A call that may make the device wait behind the caller's back, such as an allocation.
pub(crate) fn refuse_unsafe() -> Result<(), CudaError> {
    if !any() {
        return Ok(());
    }
    let mode = MODE.get();
    let this = thread();
    let mut status = Ok(());
    for capture in captures().values_mut() {
        let is_own = capture.thread == this && capture.mode != Mode::Relaxed;
        let is_everybodys = capture.mode == Mode::Global && mode == Mode::Global;
        if mode != Mode::Relaxed && (is_own || is_everybodys) {
            capture.valid = false;
            status = Err(CudaError::CAPTURE_UNSUPPORTED);
        }
    }
    status
}

/// What `stream` captures.
pub(crate) fn info(session: &Session, stream: u64) -> Result<Info, CudaError> {
    if !any() {
        return Ok(Info::default());
    }
    let mut captures = captures();
    let Some((id, capture)) = of_stream(&mut captures, stream) else {
        let is_implicit = is_legacy(stream)
            && captures
                .values()
                .any(|capture| is_blocking(session, capture.origin));
        return if is_implicit {
            Err(CudaError::CAPTURE_IMPLICIT)
        } else {
            Ok(Info::default())
        };
    };
    Ok(Info {
        status: if capture.valid { 1 } else { 2 },
        id,
        graph: capture.graph,
        dependencies: capture.ends.get(&stream).cloned().unwrap_or_default(),
    })
}

/// Changes what the next work on `stream` depends on.
pub(crate) fn update(stream: u64, change: impl FnOnce(&mut Vec<u64>)) -> Result<(), CudaError> {
    let mut captures = captures();
    match of_stream(&mut captures, stream) {
        Some((_, capture)) if capture.valid => {
            change(capture.ends.entry(stream).or_default());
            Ok(())
        }
        Some(_) => Err(CudaError::CAPTURE_INVALIDATED),
        None => Err(CudaError::ILLEGAL_STATE),
    }
}

/// The capture and nodes that an event recorded on `stream` now stands for.
pub(crate) fn recorded(stream: u64) -> Option<(u64, Vec<u64>)> {
    if !any() {
        return None;
    }
    let mut captures = captures();
    let (id, capture) = of_stream(&mut captures, stream)?;
    Some((id, capture.ends.get(&stream).cloned().unwrap_or_default()))
}

/// `stream` waits for an event: the event's capture takes it in.
pub(crate) fn wait(session: &Session, stream: u64, event: u64) -> Result<(), CudaError> {
    if !any() {
        return Ok(());
    }
    let captured = session
        .handles::<Event>()
        .with(event, |event| event.captured.clone())
        .ok_or(CudaError::INVALID_HANDLE)?;
    let mut captures = captures();
    let of_waiting = of_stream(&mut captures, stream).map(|(id, capture)| (id, capture.valid));
    let of_event = captured.filter(|(id, _)| captures.contains_key(id));
    let merged = match (of_waiting, of_event) {
        (Some((_, false)), _) => Err(CudaError::CAPTURE_INVALIDATED),
        (None, None) => return Ok(()),
        // Work outside would have to run before the graph does.
        (Some((id, _)), None) => {
            captures
                .entry(id)
                .and_modify(|capture| capture.valid = false);
            Err(CudaError::CAPTURE_ISOLATION)
        }
        (Some((waiting, _)), Some((id, _))) if waiting != id => {
            for id in [waiting, id] {
                captures
                    .entry(id)
                    .and_modify(|capture| capture.valid = false);
            }
            Err(CudaError::CAPTURE_MERGE)
        }
        (None, Some(_)) if is_legacy(stream) => Err(CudaError::CAPTURE_IMPLICIT),
        (_, Some(found)) => Ok(found),
    };
    let (id, nodes) = merged?;
    if let Some(capture) = captures.get_mut(&id) {
        let ends = capture.ends.entry(stream).or_default();
        for node in nodes {
            if !ends.contains(&node) {
                ends.push(node);
            }
        }
    }
    Ok(())
}
