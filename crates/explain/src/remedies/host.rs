//! The computer's memory.

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Format;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "more_shared_memory",
        title: "more shared memory for the container",
        serves: &[CauseId::HostMemory],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: shared,
    },
    Kind {
        id: "fewer_workers",
        title: "fewer workers, less prefetched, nothing pinned",
        serves: &[CauseId::HostMemory],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: workers,
    },
    Kind {
        id: "read_on_demand",
        title: "data and weights read on demand",
        serves: &[CauseId::HostMemory],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: on_demand,
    },
];

fn shared(case: &Case<'_>) -> Option<Advice> {
    case.is(Format::DataloaderShm).then(|| Advice {
        saves: Saves::Unknown,
        text: "workers pass batches through /dev/shm, for which containers get 64 MiB unless told otherwise".into(),
        code: "docker run --shm-size=8g ...   # or --ipc=host; Kubernetes: an emptyDir of medium Memory at /dev/shm".into(),
    })
}

fn workers(case: &Case<'_>) -> Option<Advice> {
    let fits = matches!(
        case.format(),
        Format::DataloaderShm
            | Format::DataloaderKilled
            | Format::PinThread
            | Format::ProcessKilled
            | Format::BareCudaError
            | Format::HostError
    );
    fits.then(|| Advice {
        saves: Saves::Unknown,
        text: "each worker has its own copy of what the data set holds in Python, and prefetches two batches".into(),
        code: "loader = DataLoader(dataset, num_workers=2, prefetch_factor=1, pin_memory=False)".into(),
    })
}

fn on_demand(case: &Case<'_>) -> Option<Advice> {
    let asked = case.tried().map_or_else(
        || "what was asked for".to_owned(),
        |tried| format!("{tried} in one piece"),
    );
    Some(Advice {
        saves: Saves::Unknown,
        text: format!("{asked} is of main memory; files that are mapped cost no more than what is read of them"),
        code: "data = np.load(path, mmap_mode=\"r\")\nstate = torch.load(path, map_location=\"cpu\", mmap=True)".into(),
    })
}
