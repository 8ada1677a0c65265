//! Device memory that a communicator takes for itself, outside PyTorch's allocator. It depends on the links between the
//! devices, which are not known, so it is an estimate: taken off the device as the likely figure, noted as a range.

use oomproof_profile::{DriverAction, Range};

use super::communicator::Communicator;
use super::status::{NcclResult, refuse};
use crate::memory::DriverEvent;
use crate::session::Session;

const MIB: u64 = 1 << 20;

/// What is connected when something is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Connection {
    /// All ranks of a communicator, for collectives.
    All,
    /// One other rank, for sends and receives.
    Pair(usize),
}

/// What the estimate depends on.
struct Place {
    /// Devices of this kind are mostly sold with `NVLink` between them.
    is_linked: bool,
    /// The architecture is Blackwell or later.
    is_recent: bool,
    nccl: u32,
    ranks: usize,
}

const SOURCE: &str = "public reports on communicators over NVLink of 4 A100 and 8 H100, one buffer of 10 MiB and one of 2 MiB for each channel and peer; NCCL issues 864, 964, 1685 and 2363";

/// What a connection takes.
fn estimate(place: &Place, connection: Connection) -> Range {
    let mib = |low: u64, likely: u64, high: u64| Range {
        low: low * MIB,
        likely: likely * MIB,
        high: high * MIB,
    };
    match (connection, place.is_linked) {
        // A communicator of one rank has nobody to connect to, but some versions make buffers for a network.
        (Connection::All, _) if place.ranks == 1 => {
            if place.is_recent && place.nccl >= 22800 {
                mib(0, 512, 528)
            } else {
                mib(0, 8, 528)
            }
        }
        // Until 2.22 rings and trees were connected at once, later when they are first used.
        (Connection::All, true) if place.nccl < 22200 => {
            mib(272, if place.ranks == 2 { 544 } else { 688 }, 1640)
        }
        (Connection::All, true) => mib(96, 448, 1640),
        (Connection::All, false) => mib(16, 96, 688),
        (Connection::Pair(_), true) => mib(24, 448, 768),
        (Connection::Pair(_), false) => mib(12, 24, 448),
    }
}

impl Communicator {
    /// Makes a connection, when it is first used.
    pub(super) fn connect(
        &self,
        session: &Session,
        connection: Connection,
    ) -> Result<(), NcclResult> {
        if connection == Connection::Pair(self.rank) {
            return Ok(());
        }
        let mut state = self.state();
        if state.connections.contains_key(&connection) {
            return Ok(());
        }
        let (major, minor) = session.settings.device.compute_capability;
        let place = Place {
            is_linked: matches!((major, minor), (7..=9, 0) | (10, _)),
            is_recent: major >= 10,
            nccl: session.settings.nccl_version,
            ranks: self.size(),
        };
        let range = estimate(&place, connection);
        let mut memory = session.memory();
        let given = memory.take(self.machine, range.likely);
        let event = DriverEvent {
            action: if given {
                DriverAction::Create
            } else {
                DriverAction::Refused
            },
            device: self.machine,
            address: 0,
            size: range.likely,
            used: memory.used(self.machine),
        };
        drop(memory);
        session.driver_event(event);
        if !given {
            let text = format!("Failed to CUDA calloc {} bytes", range.likely);
            return Err(refuse(NcclResult::UNHANDLED_CUDA_ERROR, &text));
        }
        state.connections.insert(connection, range.likely);
        drop(state);
        let what = match connection {
            Connection::All => format!("a communicator of {} ranks", self.size()),
            Connection::Pair(peer) => {
                format!("sends and receives between ranks {} and {peer}", self.rank)
            }
        };
        let note = serde_json::json!({
            "kind": "library",
            "library": "NCCL",
            "what": what,
            "device": self.machine,
            "low": range.low,
            "likely": range.likely,
            "high": range.high,
            "source": SOURCE,
        });
        session.note(&note.to_string());
        Ok(())
    }

    /// Gives back what all connections took.
    pub(super) fn disconnect(&self, session: &Session) {
        let taken: u64 = self
            .state()
            .connections
            .drain()
            .map(|(_, taken)| taken)
            .sum();
        if taken == 0 {
            return;
        }
        let mut memory = session.memory();
        memory.give(self.machine, taken);
        let event = DriverEvent {
            action: DriverAction::Release,
            device: self.machine,
            address: 0,
            size: taken,
            used: memory.used(self.machine),
        };
        drop(memory);
        session.driver_event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_what_was_reported() {
        let check = |place: Place, connection, measured_mib: u64| {
            let Range { low, likely, high } = estimate(&place, connection);
            assert!(low <= likely && likely <= high);
            assert!(
                (low..=high).contains(&(measured_mib * MIB)),
                "{measured_mib}"
            );
        };
        let linked = |ranks, nccl| Place {
            is_linked: true,
            is_recent: false,
            nccl,
            ranks,
        };
        check(linked(2, 21800), Connection::All, 544);
        check(linked(4, 21800), Connection::All, 688);
        check(linked(8, 21800), Connection::All, 1600);
        check(linked(8, 22600), Connection::All, 500);
        check(linked(8, 22600), Connection::Pair(1), 447);
        let alone = Place {
            is_recent: true,
            ..linked(1, 22809)
        };
        check(alone, Connection::All, 512);
    }
}
