//! What the ranks do together. Each side first gives away what it has to give, and only then takes: so no order of
//! calls within a group can make two ranks wait for each other.

use std::sync::Arc;

use oomproof_profile::Basis;

use super::buffers::Connection;
use super::communicator::{Communicator, communicator, patience};
use super::number::{DataType, Reduction};
use super::parcel::Parcel;
use super::status::{NcclResult, refuse};
use crate::contents::{Assumption, Known};
use crate::ranks::Missing;
use crate::session::{Session, session};

/// Messages of up to this many bytes travel.
const SMALL: u64 = 1 << 20;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    AllReduce(Reduction),
    Reduce { by: Reduction, root: usize },
    ReduceScatter(Reduction),
    Broadcast { root: usize },
    AllGather,
    Gather { root: usize },
    Scatter { root: usize },
    AllToAll,
    Send { to: usize },
    Receive { from: usize },
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "ncclAllReduce",
            Self::Reduce { .. } => "ncclReduce",
            Self::ReduceScatter(_) => "ncclReduceScatter",
            Self::Broadcast { .. } => "ncclBroadcast",
            Self::AllGather => "ncclAllGather",
            Self::Gather { .. } => "ncclGather",
            Self::Scatter { .. } => "ncclScatter",
            Self::AllToAll => "ncclAlltoAll",
            Self::Send { .. } | Self::Receive { .. } => "ncclSend",
        }
    }
}

/// A call with its arguments.
pub(super) struct Call {
    pub(super) communicator: Arc<Communicator>,
    pub(super) what: What,
    pub(super) send: u64,
    pub(super) receive: u64,
    /// Elements of one message.
    pub(super) count: u64,
    pub(super) kind: DataType,
}

/// A call whose own side was given away.
struct Given {
    call: Call,
    /// Bytes of one message.
    len: u64,
    number: u64,
    /// What this rank keeps for itself.
    own: Parcel,
}

/// Does calls that were begun together.
pub(super) fn carry_out(calls: Vec<Call>) -> Result<(), NcclResult> {
    if calls.is_empty() {
        return Ok(());
    }
    let session = session().ok_or(NcclResult::INTERNAL_ERROR)?;
    let given = calls
        .into_iter()
        .map(|call| call.give(session))
        .collect::<Result<Vec<_>, _>>()?;
    for given in given {
        given.take(session);
    }
    Ok(())
}

impl Call {
    /// A message of this rank's memory.
    fn parcel(&self, session: &Session, at: u64, len: u64) -> Parcel {
        let mut memory = session.memory();
        let origin = memory.origin(at);
        let assumption = memory.contents.assumption(at, len);
        Parcel {
            what: self.description(),
            origin: session.text_of(origin),
            assumption: assumption
                .map_or_else(String::new, |known| session.text_of(known.text.get())),
            basis: assumption.map_or(0, |known| known.basis.code()),
            runs: memory.contents.known_runs(at, len),
        }
    }

    /// What all sides must agree on.
    fn description(&self) -> String {
        match self.what {
            What::Send { .. } | What::Receive { .. } => {
                format!(
                    "{} of {} bytes",
                    self.what.name(),
                    self.count * self.kind.len() as u64
                )
            }
            what => format!("{} of {} {:?}", what.name(), self.count, self.kind),
        }
    }

    fn give(self, session: &Session) -> Result<Given, NcclResult> {
        let Some(len) = self.count.checked_mul(self.kind.len() as u64) else {
            return Err(refuse(
                NcclResult::INVALID_ARGUMENT,
                "the count is too large",
            ));
        };
        let rank = self.communicator.rank;
        match self.what {
            What::Send { to: peer } | What::Receive { from: peer } => {
                self.communicator.connect(session, Connection::Pair(peer))?;
            }
            What::AllToAll | What::Gather { .. } | What::Scatter { .. } => {
                for peer in self.communicator.others() {
                    self.communicator.connect(session, Connection::Pair(peer))?;
                }
            }
            _ => self.communicator.connect(session, Connection::All)?,
        }
        let number = {
            let mut state = self.communicator.state();
            let counter = match self.what {
                What::Send { to } => state.sent.entry(to).or_default(),
                What::Receive { from } => state.received.entry(from).or_default(),
                _ => &mut state.collectives,
            };
            *counter += 1;
            *counter
        };
        let mut given = Given {
            len,
            number,
            own: Parcel::default(),
            call: self,
        };
        if given.is_alone() || len > SMALL || len == 0 {
            return Ok(given);
        }
        let call = &given.call;
        let others: Vec<usize> = call.communicator.others().collect();
        let whole = || call.parcel(session, call.send, len);
        let part = |of: usize| call.parcel(session, call.send + of as u64 * len, len);
        let own = match call.what {
            What::AllReduce(_) | What::AllGather => {
                let parcel = whole();
                given.post(session, &others, &parcel)?;
                parcel
            }
            What::Reduce { root, .. } | What::Gather { root } => {
                let parcel = whole();
                if rank != root {
                    given.post(session, &[root], &parcel)?;
                }
                parcel
            }
            What::Broadcast { root } if rank == root => {
                let parcel = whole();
                given.post(session, &others, &parcel)?;
                parcel
            }
            What::ReduceScatter(_) | What::AllToAll => {
                for other in others {
                    given.post(session, &[other], &part(other))?;
                }
                part(rank)
            }
            What::Scatter { root } if rank == root => {
                for other in others {
                    given.post(session, &[other], &part(other))?;
                }
                part(rank)
            }
            What::Send { to } => {
                given.post(session, &[to], &whole())?;
                Parcel::default()
            }
            What::Broadcast { .. } | What::Scatter { .. } | What::Receive { .. } => {
                Parcel::default()
            }
        };
        given.own = own;
        Ok(given)
    }
}

impl Given {
    fn is_alone(&self) -> bool {
        self.call.communicator.size() == 1
    }

    fn message(&self, from: usize, to: usize) -> String {
        let sort = match self.call.what {
            What::Send { .. } | What::Receive { .. } => 'p',
            _ => 'c',
        };
        format!(
            "{}-{sort}{}-{from}-{to}",
            self.call.communicator.name, self.number
        )
    }

    fn post(&self, session: &Session, to: &[usize], parcel: &Parcel) -> Result<(), NcclResult> {
        let names: Vec<String> = to
            .iter()
            .map(|to| self.message(self.call.communicator.rank, *to))
            .collect();
        session
            .mailbox()
            .post(session.board(), &names, &parcel.encode())
            .map_err(|error| {
                refuse(
                    NcclResult(2),
                    &format!("the ranks cannot exchange messages: {error}"),
                )
            })
    }

    /// What a rank sent; nothing is known of what will never come.
    fn from(&self, session: &Session, rank: usize) -> Parcel {
        let communicator = &self.call.communicator;
        if rank == communicator.rank && !matches!(self.call.what, What::Receive { .. }) {
            return self.own.clone();
        }
        let sender = communicator.member(rank).map(|member| member.process);
        let waited = session.mailbox().wait_for(
            session.board(),
            &self.message(rank, communicator.rank),
            sender,
            patience(session),
        );
        let name = self.call.what.name();
        match waited {
            Ok(bytes) => match Parcel::decode(&bytes) {
                Some(parcel) if parcel.what == self.call.description() => parcel,
                other => {
                    let theirs = other.map_or_else(String::new, |parcel| parcel.what);
                    let text = format!(
                        "ranks {} and {rank} do different things, {} and {theirs}; on real GPUs they would wait for each other without end",
                        communicator.rank,
                        self.call.description()
                    );
                    assume(session, "ranks_disagree", &text);
                    Parcel::default()
                }
            },
            Err(why) => {
                if communicator.state().gone.insert(rank) {
                    let ended = match why {
                        Missing::SenderEnded => "had ended",
                        Missing::TimedOut => "did not come",
                    };
                    let text = format!(
                        "rank {rank} {ended}, so what it would have sent to rank {} in {name} is not known",
                        communicator.rank
                    );
                    assume(session, "rank_ended", &text);
                }
                Parcel::default()
            }
        }
    }

    /// Writes what the others gave.
    fn take(self, session: &Session) {
        let Call {
            communicator,
            what,
            send,
            receive,
            kind,
            ..
        } = &self.call;
        let (rank, len) = (communicator.rank, self.len);
        let from_all = 0..communicator.size();
        // Where the result lies, of which ranks, and how it is made of what they sent.
        let (senders, by) = match *what {
            What::Send { .. } => return,
            What::Reduce { root, .. } | What::Gather { root } if rank != root => return,
            What::AllReduce(by) | What::Reduce { by, .. } | What::ReduceScatter(by) => {
                (from_all, Some(by))
            }
            What::AllGather | What::Gather { .. } | What::AllToAll => (from_all, None),
            What::Broadcast { root } | What::Scatter { root } => (root..root + 1, None),
            What::Receive { from } => (from..from + 1, None),
        };
        let whole = match by {
            Some(_) => len,
            None => len * senders.len() as u64,
        };
        if len == 0 {
            return;
        }
        if self.is_alone()
            && !matches!(
                what,
                What::Receive { .. } | What::AllReduce(Reduction::ScaledSum(_))
            )
        {
            let mut memory = session.memory();
            let origin = memory.origin(*send);
            memory.contents.copy(*send, *receive, len);
            if let Some((_, block)) = memory.block_of(*receive) {
                block.origin = origin;
            }
            return;
        }
        if len > SMALL || self.is_alone() && !matches!(what, What::Receive { .. }) {
            let own = session.memory().origin(*send);
            let origin = if own != 0 && by.is_some() {
                own
            } else {
                session.text(what.name())
            };
            let mut memory = session.memory();
            memory.contents.forget(*receive, whole);
            if let Some((_, block)) = memory.block_of(*receive) {
                block.origin = origin;
            }
            return;
        }
        let parcels: Vec<Parcel> = senders.map(|rank| self.from(session, rank)).collect();
        match by {
            Some(by) => write(
                session,
                *receive,
                &combine(&parcels, len as usize, *kind, by),
                what.name(),
            ),
            None => {
                for (index, parcel) in parcels.iter().enumerate() {
                    let at = receive + index as u64 * len;
                    let (bytes, known) = parcel.spread(0, len as usize);
                    let message = Message {
                        bytes,
                        known,
                        origin: &parcel.origin,
                        assumption: (&parcel.assumption, parcel.basis),
                    };
                    write(session, at, &message, what.name());
                }
            }
        }
    }
}

/// Bytes that arrived, with a mark for each whether it is known.
struct Message<'a> {
    bytes: Vec<u8>,
    known: Vec<bool>,
    origin: &'a str,
    /// What the known ones hang on, if some are assumed, and the code of its basis.
    assumption: (&'a str, u8),
}

/// What all ranks' elements become; an element is known when it is known of all of them.
fn combine(parcels: &[Parcel], len: usize, kind: DataType, by: Reduction) -> Message<'_> {
    let parts: Vec<_> = parcels.iter().map(|parcel| parcel.spread(0, len)).collect();
    let (mut bytes, mut known) = (vec![0; len], vec![false; len]);
    for at in (0..len).step_by(kind.len()) {
        let place = at..at + kind.len();
        if !parts
            .iter()
            .all(|(_, known)| known[place.clone()].iter().all(|known| *known))
        {
            continue;
        }
        let elements: Vec<&[u8]> = parts
            .iter()
            .map(|(bytes, _)| &bytes[place.clone()])
            .collect();
        if kind
            .reduce(by, &elements, &mut bytes[place.clone()])
            .is_some()
        {
            known[place].fill(true);
        }
    }
    let is_whole = |(_, known): &(Vec<u8>, Vec<bool>)| known.iter().all(|known| *known);
    let origin = parts
        .iter()
        .zip(parcels)
        .find(|(part, parcel)| !is_whole(part) && !parcel.origin.is_empty())
        .map_or("", |(_, parcel)| &parcel.origin);
    let assumption = parcels
        .iter()
        .find(|parcel| !parcel.assumption.is_empty())
        .map_or(("", 0), |parcel| (parcel.assumption.as_str(), parcel.basis));
    Message {
        bytes,
        known,
        origin,
        assumption,
    }
}

/// Puts what arrived where it belongs.
fn write(session: &Session, at: u64, message: &Message<'_>, name: &str) {
    let is_whole = message.known.iter().all(|known| *known);
    let origin = match (is_whole, message.origin) {
        (true, _) => 0,
        (false, "") => session.text(name),
        (false, origin) => session.text(origin),
    };
    let assumption =
        match message.assumption {
            ("", _) => None,
            // The same line of the script calls this function in all ranks.
            (text, basis) => Assumption::stated_by(session.text(text), session.header.state()[0])
                .map(|stated| Assumption {
                    basis: Basis::from_code(basis).unwrap_or(stated.basis),
                    ..stated
                }),
        };
    let mut memory = session.memory();
    memory.contents.forget(at, message.bytes.len() as u64);
    if origin != 0
        && let Some((_, block)) = memory.block_of(at)
    {
        block.origin = origin;
    }
    let mut start = 0;
    for run in message.known.chunk_by(|before, after| before == after) {
        if run[0] {
            let known = Known {
                bytes: message.bytes[start..start + run.len()].to_vec(),
                assumption,
            };
            memory.contents.put(at + start as u64, known);
        }
        start += run.len();
    }
}

fn assume(session: &Session, kind: &str, text: &str) {
    let note = serde_json::json!({
        "kind": "assumption", "assumption": kind, "text": text, "where": null,
    });
    session.note_once(&note.to_string());
}

impl Communicator {
    /// Tells all ranks a word and hears theirs, in the order of ranks; with the number of the exchange.
    pub(super) fn tell_all(
        &self,
        session: &Session,
        word: &str,
    ) -> Result<(u64, Vec<String>), NcclResult> {
        let number = {
            let mut state = self.state();
            state.collectives += 1;
            state.collectives
        };
        let name = |from: usize, to: usize| format!("{}-w{number}-{from}-{to}", self.name);
        let names: Vec<String> = self.others().map(|rank| name(self.rank, rank)).collect();
        session
            .mailbox()
            .post(session.board(), &names, word.as_bytes())
            .map_err(|_| NcclResult(2))?;
        let mut words = Vec::new();
        for rank in 0..self.size() {
            if rank == self.rank {
                words.push(word.to_owned());
                continue;
            }
            let sender = self.member(rank).map(|member| member.process);
            let heard = session.mailbox().wait_for(
                session.board(),
                &name(rank, self.rank),
                sender,
                patience(session),
            );
            let text = heard.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            words.push(text.ok_or_else(|| {
                refuse(NcclResult::REMOTE_ERROR, &format!("rank {rank} has ended"))
            })?);
        }
        Ok((number, words))
    }
}

/// The communicator and the rank that an argument names.
pub(super) fn with_peer(handle: u64, peer: i32) -> Result<(Arc<Communicator>, usize), NcclResult> {
    let (_, communicator) = communicator(handle)?;
    let rank = usize::try_from(peer)
        .ok()
        .filter(|rank| *rank < communicator.size())
        .ok_or_else(|| {
            let text = format!(
                "rank {peer} is not one of the communicator's {}",
                communicator.size()
            );
            refuse(NcclResult::INVALID_ARGUMENT, &text)
        })?;
    Ok((communicator, rank))
}
