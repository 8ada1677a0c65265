//! The computer's own memory, not the card's: main memory, pinned memory, the shared memory of a container.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Format;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::HostMemory,
    title: "the computer's memory, not the card's",
    meaning: "Main memory, pinned memory or the shared memory of a container ran out; the card may be empty.",
    apart: "The text is of the CPU's allocator, of a worker of a data loader or of the system.",
    check: "free -h; df -h /dev/shm",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    let tried = case.tried();
    let asked = tried.map_or_else(String::new, |tried| format!(" {tried}"));
    Some(match case.format() {
        Format::CpuAllocator => Finding::decided(format!(
            "the allocator of main memory was refused{asked}; this is not the card"
        )),
        Format::DataloaderShm => {
            Finding::decided("a worker of the data loader found no room in /dev/shm")
        }
        Format::DataloaderKilled => Finding::candidate(
            88,
            "the system killed a worker of the data loader, as it does when main memory runs out",
        ),
        Format::ProcessKilled => Finding::candidate(
            85,
            "the system killed the process, as it does when main memory runs out",
        ),
        Format::HostError => Finding::decided(format!("main memory was refused{asked}")),
        Format::PinThread => Finding::candidate(
            72,
            "the thread that copies batches into pinned memory failed",
        ),
        Format::BareCudaError => {
            Finding::candidate(24, "pinned memory that is refused gives the same text")
        }
        _ if case
            .balance
            .as_ref()
            .is_some_and(crate::balance::Balance::free_covers_request) =>
        {
            Finding::candidate(
                34,
                "the card had room, so main memory or its commit limit may have been what ran out",
            )
        }
        _ => return None,
    })
}
