//! Communicators: who is in them, in which order, on which device. Each has its own size, rank and count of what was
//! done on it, because a process is in several, and all ranks must give one operation the same name.

use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::buffers::Connection;
use super::group;
use super::number::Reduction;
use super::status::{NcclResult, refuse, result};
use crate::ranks::Process;
use crate::runtime::{Current, current, with_device};
use crate::session::{Session, session};
use crate::status::put;

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

/// A rank as the others know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) process: Process,
    machine: usize,
}

/// One rank's end of a communicator.
pub(super) struct Communicator {
    /// The same for all its ranks and no other communicator.
    pub(super) name: String,
    pub(super) rank: usize,
    size: usize,
    /// The device, as the program and as the machine count.
    ordinal: usize,
    pub(super) machine: usize,
    members: OnceLock<Vec<Member>>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Collectives, sends to and receives from each rank so far.
    pub(super) collectives: u64,
    pub(super) sent: HashMap<usize, u64>,
    pub(super) received: HashMap<usize, u64>,
    /// Ranks that ended before they sent what was waited for.
    pub(super) gone: HashSet<usize>,
    /// Bytes of the device by what they connect.
    pub(super) connections: HashMap<Connection, u64>,
    /// Operators that the program made; `None` for those it destroyed.
    pub(super) operators: Vec<Option<Reduction>>,
}

impl Communicator {
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank, once all have joined.
    pub(super) fn member(&self, rank: usize) -> Option<Member> {
        self.members.get()?.get(rank).copied()
    }

    /// The ranks but this one.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.rank;
        (0..self.size).filter(move |rank| *rank != own)
    }

    fn own(&self) -> Member {
        Member {
            process: Process::own(),
            machine: self.machine,
        }
    }

    fn greeting(&self, from: usize, to: usize) -> String {
        format!("{}-hello-{from}-{to}", self.name)
    }

    /// Tells the others that this rank is there.
    fn greet(&self, session: &Session) -> Result<(), NcclResult> {
        let Member { process, machine } = self.own();
        let text = format!("{} {} {machine}", process.pid, process.started);
        let names: Vec<String> = self
            .others()
            .map(|rank| self.greeting(self.rank, rank))
            .collect();
        session
            .mailbox()
            .post(session.board(), &names, text.as_bytes())
            .map_err(|error| {
                refuse(
                    NcclResult(2),
                    &format!("the ranks cannot exchange messages: {error}"),
                )
            })
    }

    /// Waits until all ranks are there.
    pub(super) fn join(&self, session: &Session) -> Result<(), NcclResult> {
        let mut members = Vec::new();
        for rank in 0..self.size {
            if rank == self.rank {
                members.push(self.own());
                continue;
            }
            // Who will come is not known before, so whoever does not come is waited for.
            let greeting = session.mailbox().wait_for(
                session.board(),
                &self.greeting(rank, self.rank),
                None,
                patience(session),
            );
            let member = greeting
                .ok()
                .and_then(|text| member(&text))
                .ok_or_else(|| {
                    refuse(
                        NcclResult::REMOTE_ERROR,
                        &format!("rank {rank} did not join the communicator"),
                    )
                })?;
            members.push(member);
        }
        for (rank, member) in members.iter().enumerate() {
            let twin = members[..rank]
                .iter()
                .position(|other| other.machine == member.machine);
            if let Some(twin) = twin {
                let text = format!(
                    "Duplicate GPU detected : rank {twin} and rank {rank} both on CUDA device {:x}000",
                    member.machine + 1
                );
                return Err(refuse(NcclResult::INVALID_USAGE, &text));
            }
        }
        let _ = self.members.set(members);
        Ok(())
    }
}

/// How long a rank waits for another one that lives: the run ends before.
pub(super) fn patience(session: &Session) -> Duration {
    Duration::from_secs(session.settings.timeout_secs)
}

fn member(text: &[u8]) -> Option<Member> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    Some(Member {
        process: Process {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
        },
        machine: words.next()?.parse().ok()?,
    })
}

/// The communicator of a handle.
pub(super) fn communicator(
    handle: u64,
) -> Result<(&'static Session, Arc<Communicator>), NcclResult> {
    let session = session().ok_or(NcclResult::INTERNAL_ERROR)?;
    session
        .handles::<Arc<Communicator>>()
        .with(handle, |communicator| Arc::clone(communicator))
        .map(|communicator| (session, communicator))
        .ok_or_else(|| {
            refuse(
                NcclResult::INVALID_ARGUMENT,
                "the communicator does not exist",
            )
        })
}

/// A name that depends on all of `parts`; equal parts give equal names on all ranks.
fn name(parts: &[&[u8]]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let bytes = parts
        .iter()
        .flat_map(|part| part.iter().copied().chain(std::iter::once(0)));
    let hash = bytes.fold(BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    });
    format!("{hash:032x}")
}

struct Seat {
    name: String,
    rank: usize,
    size: usize,
    ordinal: usize,
    machine: usize,
}

impl Seat {
    /// A seat on the thread's current device.
    fn here(name: String, rank: c_int, size: c_int) -> Result<Self, NcclResult> {
        let Current {
            session,
            ordinal,
            machine,
        } = current().map_err(|error| {
            refuse(
                NcclResult::UNHANDLED_CUDA_ERROR,
                &format!("Cuda failure {}", error.0),
            )
        })?;
        session.ensure_context(machine);
        let (Ok(rank), Ok(size)) = (usize::try_from(rank), usize::try_from(size)) else {
            return Err(refuse(
                NcclResult::INVALID_ARGUMENT,
                "a rank or size is below 0",
            ));
        };
        if rank >= size {
            let text = format!("Invalid rank requested : {rank}/{size}");
            return Err(refuse(NcclResult::INVALID_ARGUMENT, &text));
        }
        Ok(Self {
            name,
            rank,
            size,
            ordinal,
            machine,
        })
    }

    fn taken(self, members: Option<Vec<Member>>) -> Arc<Communicator> {
        Arc::new(Communicator {
            name: self.name,
            rank: self.rank,
            size: self.size,
            ordinal: self.ordinal,
            machine: self.machine,
            members: members.map_or_else(OnceLock::new, OnceLock::from),
            state: Mutex::default(),
        })
    }
}

/// Joins a communicator; in a group the others are waited for at its end.
///
/// # Safety
/// `out` must be null or valid for writing.
unsafe fn init(out: *mut u64, size: c_int, id: &UniqueId, rank: c_int) -> NcclResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, 0) };
    result(|| {
        let session = session().ok_or(NcclResult::INTERNAL_ERROR)?;
        if out.is_null() {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        let communicator = Seat::here(name(&[&id.0]), rank, size)?.taken(None);
        communicator.greet(session)?;
        if !group::defer(&communicator) {
            communicator.join(session)?;
        }
        let handle = session.handles().add(communicator);
        // SAFETY: promised by the caller, and not null.
        unsafe { put(out, handle) };
        Ok(())
    })
}

/// A new id for a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(out: *mut UniqueId) -> NcclResult {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Process { pid, started } = Process::own();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("oomproof {pid} {started} {number}");
    let mut id = UniqueId([0; 128]);
    id.0[..text.len()].copy_from_slice(text.as_bytes());
    // SAFETY: the caller passes a place for an id or null.
    unsafe { put(out, id) };
    if out.is_null() {
        NcclResult::INVALID_ARGUMENT
    } else {
        NcclResult::SUCCESS
    }
}

/// Joins a communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(
    out: *mut u64,
    size: c_int,
    id: UniqueId,
    rank: c_int,
) -> NcclResult {
    // SAFETY: as for the NCCL function.
    unsafe { init(out, size, &id, rank) }
}

/// Joins a communicator; the settings tune speed alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    out: *mut u64,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    _config: *mut c_void,
) -> NcclResult {
    // SAFETY: as for the NCCL function.
    unsafe { init(out, size, &id, rank) }
}

/// Joins a communicator; the first of several ids names it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankScalable(
    out: *mut u64,
    size: c_int,
    rank: c_int,
    n_ids: c_int,
    ids: *const UniqueId,
    _config: *mut c_void,
) -> NcclResult {
    if ids.is_null() || n_ids < 1 {
        // SAFETY: the caller passes a place for a communicator or null.
        unsafe { put(out, 0) };
        return NcclResult::INVALID_ARGUMENT;
    }
    // SAFETY: not null, and the caller passes at least one.
    unsafe { init(out, size, &ids.read_unaligned(), rank) }
}

/// Makes communicators for several devices of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitAll(
    out: *mut u64,
    n_devices: c_int,
    devices: *const c_int,
) -> NcclResult {
    result(|| {
        let session = session().ok_or(NcclResult::INTERNAL_ERROR)?;
        let size = usize::try_from(n_devices).map_err(|_| NcclResult::INVALID_ARGUMENT)?;
        if out.is_null() {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        let mut places = Vec::new();
        for index in 0..size {
            let ordinal = if devices.is_null() {
                index
            } else {
                // SAFETY: the caller passes as many numbers as it says.
                let number = unsafe { devices.add(index).read_unaligned() };
                usize::try_from(number).map_err(|_| NcclResult::INVALID_ARGUMENT)?
            };
            let Current { machine, .. } =
                with_device(ordinal).map_err(|_| NcclResult::INVALID_ARGUMENT)?;
            session.ensure_context(machine);
            places.push((ordinal, machine));
        }
        let process = Process::own();
        let members: Vec<Member> = places
            .iter()
            .map(|(_, machine)| Member {
                process,
                machine: *machine,
            })
            .collect();
        let mut id = UniqueId([0; 128]);
        // SAFETY: a place for an id.
        unsafe { ncclGetUniqueId(&raw mut id) };
        for (rank, (ordinal, machine)) in places.into_iter().enumerate() {
            let seat = Seat {
                name: name(&[&id.0]),
                rank,
                size,
                ordinal,
                machine,
            };
            let handle = session.handles().add(seat.taken(Some(members.clone())));
            // SAFETY: the caller passes room for as many communicators as devices.
            unsafe { put(out.add(rank), handle) };
        }
        Ok(())
    })
}

/// Makes communicators of parts of one; those with the same color are together, in the order of their keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommSplit(
    parent: u64,
    color: c_int,
    key: c_int,
    out: *mut u64,
    _config: *mut c_void,
) -> NcclResult {
    // SAFETY: the caller passes a place for a communicator or null.
    unsafe { put(out, 0) };
    result(|| {
        let (session, parent) = communicator(parent)?;
        let (number, votes) = parent.tell_all(session, &format!("{color} {key}"))?;
        if color < 0 {
            return Ok(());
        }
        let mut seats: Vec<(c_int, usize)> = Vec::new();
        for (rank, vote) in votes.iter().enumerate() {
            let (of_rank, key) = vote
                .split_once(' ')
                .and_then(|(color, key)| Some((color.parse::<c_int>().ok()?, key.parse().ok()?)))
                .ok_or(NcclResult::REMOTE_ERROR)?;
            if of_rank == color {
                seats.push((key, rank));
            }
        }
        seats.sort_unstable();
        let ranks: Vec<usize> = seats.into_iter().map(|(_, rank)| rank).collect();
        let label = format!("split {number} {color}");
        let child = parent
            .child(&label, &ranks)
            .ok_or(NcclResult::INTERNAL_ERROR)?;
        // SAFETY: as above.
        unsafe { put(out, session.handles().add(child)) };
        Ok(())
    })
}

/// Makes a communicator of all ranks but some.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommShrink(
    parent: u64,
    excluded: *const c_int,
    n_excluded: c_int,
    out: *mut u64,
    _config: *mut c_void,
    _flags: c_int,
) -> NcclResult {
    // SAFETY: the caller passes a place for a communicator or null.
    unsafe { put(out, 0) };
    result(|| {
        let (session, parent) = communicator(parent)?;
        let count = usize::try_from(n_excluded).map_err(|_| NcclResult::INVALID_ARGUMENT)?;
        if excluded.is_null() && count > 0 {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        let excluded: Vec<c_int> = (0..count)
            // SAFETY: the caller passes as many numbers as it says.
            .map(|index| unsafe { excluded.add(index).read_unaligned() })
            .collect();
        let ranks: Vec<usize> = (0..parent.size)
            .filter(|rank| !excluded.contains(&(*rank as c_int)))
            .collect();
        let child = parent
            .child(&format!("shrink {excluded:?}"), &ranks)
            .ok_or(NcclResult::INVALID_ARGUMENT)?;
        // SAFETY: as above.
        unsafe { put(out, session.handles().add(child)) };
        Ok(())
    })
}

impl Communicator {
    /// A communicator of some ranks of this one, of which this rank is one.
    fn child(&self, label: &str, ranks: &[usize]) -> Option<Arc<Self>> {
        let seat = Seat {
            name: name(&[self.name.as_bytes(), label.as_bytes()]),
            rank: ranks.iter().position(|rank| *rank == self.rank)?,
            size: ranks.len(),
            ordinal: self.ordinal,
            machine: self.machine,
        };
        let members = ranks
            .iter()
            .map(|rank| self.member(*rank))
            .collect::<Option<Vec<_>>>();
        Some(seat.taken(Some(members?)))
    }
}

fn end(handle: u64) -> NcclResult {
    result(|| {
        let (session, communicator) = communicator(handle)?;
        session.handles::<Arc<Communicator>>().remove(handle);
        communicator.disconnect(session);
        Ok(())
    })
}

/// Ends a communicator.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(communicator: u64) -> NcclResult {
    end(communicator)
}

/// Ends a communicator at once.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(communicator: u64) -> NcclResult {
    end(communicator)
}

/// Nothing is under way when a call has returned.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommFinalize(handle: u64) -> NcclResult {
    result(|| communicator(handle).map(drop))
}

/// # Safety
/// `out` must be null or valid for writing.
unsafe fn put_of<T: Default>(
    handle: u64,
    out: *mut T,
    look: impl FnOnce(&Communicator) -> T,
) -> NcclResult {
    let found = communicator(handle).map(|(_, communicator)| look(&communicator));
    let status = found.as_ref().err().copied();
    // SAFETY: promised by the caller.
    unsafe { put(out, found.unwrap_or_default()) };
    match status {
        Some(error) => error,
        None if out.is_null() => NcclResult::INVALID_ARGUMENT,
        None => NcclResult::SUCCESS,
    }
}

/// The number of ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCount(communicator: u64, out: *mut c_int) -> NcclResult {
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put_of(communicator, out, |communicator| communicator.size as c_int) }
}

/// This process's rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommUserRank(communicator: u64, out: *mut c_int) -> NcclResult {
    // SAFETY: the caller passes a place for a number or null.
    unsafe { put_of(communicator, out, |communicator| communicator.rank as c_int) }
}

/// The device, as the program counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCuDevice(communicator: u64, out: *mut c_int) -> NcclResult {
    // SAFETY: the caller passes a place for a number or null.
    unsafe {
        put_of(communicator, out, |communicator| {
            communicator.ordinal as c_int
        })
    }
}

/// What went wrong meanwhile: nothing. A rank that ended leaves unknown values, and the profile says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(communicator: u64, out: *mut c_int) -> NcclResult {
    // SAFETY: the caller passes a place for a result or null.
    unsafe { put_of(communicator, out, |_| NcclResult::SUCCESS.0) }
}

/// Bytes of the device that a communicator took, as estimated. None of it can be suspended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommMemStats(
    communicator: u64,
    what: c_int,
    out: *mut u64,
) -> NcclResult {
    // SAFETY: the caller passes a place for a number or null.
    unsafe {
        put_of(communicator, out, |communicator| match what {
            2 | 3 => communicator.state().connections.values().sum(),
            _ => 0,
        })
    }
}
