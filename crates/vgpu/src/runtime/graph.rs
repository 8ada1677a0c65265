//! Graphs: nodes of work, and what becomes of memory when they are launched.
//!
//! A launch makes known only what does not depend on inputs, because kernels are not run again: constants and copies.
//! What a conditional node may write is unknown afterwards, because its condition lies on the device.

use std::ffi::c_void;
use std::sync::Arc;

use super::copy::{Direction, copy_bytes, pass_time};
use super::event::record_now;
use super::user_object::Retained;
use crate::clock;
use crate::deferred::{Effects, Overwritten};
use crate::session::Session;
use crate::status::CudaError;
use crate::unsupported::unsupported;

pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// What a node does.
pub(crate) enum Work {
    /// Orders others.
    Nothing,
    /// Changes memory in a way that is known beforehand.
    Effects(Arc<Effects>),
    /// Copies bytes.
    Copy { to: u64, from: u64, len: u64 },
    /// Calls a function of the program.
    Host { function: HostFunction, data: usize },
    /// Records an event for those outside.
    Event(u64),
    /// Runs another graph.
    Child(Arc<[Arc<Work>]>),
    /// Runs other graphs, or not, as the device decides.
    Perhaps(Vec<Arc<[Arc<Work>]>>),
}

struct Node {
    handle: u64,
    dependencies: Vec<u64>,
    work: Arc<Work>,
    /// The graphs of a conditional node, which the program fills after it made the node.
    bodies: Vec<u64>,
}

/// A graph.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    retained: Vec<Retained>,
}

/// The graph that a node belongs to.
pub(crate) struct NodeOf(pub(crate) u64);

/// A graph that can be launched: what it was when it was made.
pub(crate) struct Executable {
    work: Arc<[Arc<Work>]>,
    #[expect(
        dead_code,
        reason = "objects of the program live as long as what uses them"
    )]
    retained: Vec<Retained>,
}

/// A new graph without nodes.
pub(crate) fn create(session: &Session) -> u64 {
    session.handles::<Graph>().add(Graph::default())
}

/// Ends a graph and its nodes.
pub(crate) fn destroy(session: &Session, graph: u64) -> Result<(), CudaError> {
    let removed = session
        .handles::<Graph>()
        .remove(graph)
        .ok_or(CudaError::INVALID_VALUE)?;
    for node in &removed.nodes {
        session.handles::<NodeOf>().remove(node.handle);
        for body in &node.bodies {
            // A body that the program destroyed itself is gone already.
            let _ = destroy(session, *body);
        }
    }
    Ok(())
}

/// Adds a node behind others of the graph.
pub(crate) fn add_node(
    session: &Session,
    graph: u64,
    dependencies: Vec<u64>,
    work: Work,
) -> Result<u64, CudaError> {
    add(session, graph, dependencies, work, Vec::new())
}

/// Adds a node that runs `n_bodies` new graphs, or not; the node and the graphs.
pub(crate) fn add_conditional(
    session: &Session,
    graph: u64,
    dependencies: Vec<u64>,
    n_bodies: u32,
) -> Result<(u64, Vec<u64>), CudaError> {
    let bodies: Vec<u64> = (0..n_bodies).map(|_| create(session)).collect();
    let node = add(session, graph, dependencies, Work::Nothing, bodies.clone())?;
    Ok((node, bodies))
}

fn add(
    session: &Session,
    graph: u64,
    dependencies: Vec<u64>,
    work: Work,
    bodies: Vec<u64>,
) -> Result<u64, CudaError> {
    let handle = session.handles::<NodeOf>().add(NodeOf(graph));
    let added = session.handles::<Graph>().with(graph, |graph| {
        graph.nodes.push(Node {
            handle,
            dependencies,
            work: Arc::new(work),
            bodies,
        });
    });
    if added.is_none() {
        session.handles::<NodeOf>().remove(handle);
    }
    added.map(|()| handle).ok_or(CudaError::INVALID_VALUE)
}

/// The nodes of a graph, in the order they were added.
pub(crate) fn nodes(session: &Session, graph: u64) -> Result<Vec<u64>, CudaError> {
    session
        .handles::<Graph>()
        .with(graph, |graph| {
            graph.nodes.iter().map(|node| node.handle).collect()
        })
        .ok_or(CudaError::INVALID_VALUE)
}

/// The nodes that a node of `graph` comes after.
pub(crate) fn dependencies_of(
    session: &Session,
    graph: u64,
    node: u64,
) -> Result<Vec<u64>, CudaError> {
    session
        .handles::<Graph>()
        .with(graph, |graph| {
            let found = graph.nodes.iter().find(|each| each.handle == node);
            found.map(|node| node.dependencies.clone())
        })
        .flatten()
        .ok_or(CudaError::INVALID_VALUE)
}

/// What a graph of this handle does now.
pub(crate) fn work_of(session: &Session, graph: u64) -> Result<Arc<[Arc<Work>]>, CudaError> {
    let nodes: Vec<(Arc<Work>, Vec<u64>)> = session
        .handles::<Graph>()
        .with(graph, |graph| {
            let nodes = graph.nodes.iter();
            nodes
                .map(|node| (node.work.clone(), node.bodies.clone()))
                .collect()
        })
        .ok_or(CudaError::INVALID_VALUE)?;
    nodes
        .into_iter()
        .map(|(work, bodies)| {
            if bodies.is_empty() {
                return Ok(work);
            }
            let bodies: Result<_, _> = bodies.iter().map(|body| work_of(session, *body)).collect();
            bodies.map(|bodies| Arc::new(Work::Perhaps(bodies)))
        })
        .collect()
}

/// Keeps an object of the program as long as the graph.
pub(crate) fn retain(session: &Session, graph: u64, object: Retained) -> Result<(), CudaError> {
    session
        .handles::<Graph>()
        .with(graph, |graph| graph.retained.push(object))
        .ok_or(CudaError::INVALID_VALUE)
}

/// Makes a graph launchable.
pub(crate) fn instantiate(session: &Session, graph: u64) -> Result<u64, CudaError> {
    let work = work_of(session, graph)?;
    let retained = session
        .handles::<Graph>()
        .with(graph, |graph| graph.retained.clone())
        .unwrap_or_default();
    Ok(session
        .handles::<Executable>()
        .add(Executable { work, retained }))
}

/// Makes a launchable graph do what `graph` does; whether that has as many nodes.
pub(crate) fn update(session: &Session, executable: u64, graph: u64) -> Result<bool, CudaError> {
    let work = work_of(session, graph)?;
    session
        .handles::<Executable>()
        .with(executable, |executable| {
            let is_alike = executable.work.len() == work.len();
            if is_alike {
                executable.work = work;
            }
            is_alike
        })
        .ok_or(CudaError::INVALID_VALUE)
}

/// What a launchable graph does.
pub(crate) fn work_of_executable(
    session: &Session,
    executable: u64,
) -> Result<Arc<[Arc<Work>]>, CudaError> {
    session
        .handles::<Executable>()
        .with(executable, |executable| executable.work.clone())
        .ok_or(CudaError::INVALID_VALUE)
}

/// Does the work of nodes, in order.
pub(crate) fn run(session: &Session, work: &[Arc<Work>], stream: u64) {
    for each in work {
        match &**each {
            Work::Nothing => {}
            Work::Effects(effects) => {
                clock::again(stream, effects.nanos());
                effects.apply(&mut session.memory());
            }
            Work::Copy { to, from, len } => {
                pass_time(session, stream, [*to, *from], *len);
                copy(session, *to, *from, *len);
            }
            // SAFETY: the function and argument that the program gave for this very moment.
            Work::Host { function, data } => unsafe { function(*data as *mut c_void) },
            Work::Event(event) => record_now(session, *event, stream),
            Work::Child(work) => run(session, work, stream),
            Work::Perhaps(bodies) => bodies.iter().for_each(|work| run_perhaps(session, work)),
        }
    }
}

/// The work of nodes may be done, or not: what it would write is unknown.
fn run_perhaps(session: &Session, work: &[Arc<Work>]) {
    for each in work {
        match &**each {
            Work::Nothing | Work::Event(_) => {}
            Work::Effects(effects) => effects.apply_perhaps(&mut session.memory()),
            Work::Copy { to, len, .. } => forget(session, *to, *len),
            Work::Host { .. } => {
                unsupported("a host function in a conditional node", "libcudart.so");
            }
            Work::Child(work) => run_perhaps(session, work),
            Work::Perhaps(bodies) => bodies.iter().for_each(|work| run_perhaps(session, work)),
        }
    }
}

fn forget(session: &Session, to: u64, len: u64) {
    let origin = session.text("a copy in a CUDA graph");
    let mut memory = session.memory();
    if memory.is_memory(to, len) {
        memory.overwrite(Overwritten {
            start: to,
            len,
            origin,
        });
    }
}

/// Copies when both sides still are what they were: host memory that is not pinned may be gone by now.
fn copy(session: &Session, to: u64, from: u64, len: u64) {
    let is_there = |address: u64| {
        let memory = session.memory();
        let pinned = memory.host_of(address);
        memory.is_memory(address, len)
            || pinned.is_some_and(|(start, range)| address + len <= start + range.len)
    };
    if is_there(to) && is_there(from) {
        // SAFETY: both sides are device memory or host memory that CUDA keeps mapped.
        let copied = unsafe { copy_bytes(session, to, from, len, Direction::Default) };
        if copied.is_ok() {
            return;
        }
    }
    if session.memory().is_memory(to, len) {
        forget(session, to, len);
    } else {
        unsupported(
            "a copy to memory that is not pinned in a CUDA graph",
            "libcudart.so",
        );
    }
}
