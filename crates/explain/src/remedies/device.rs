//! The card itself: who else is on it, which one it is, a larger one.

use oomproof_gpus::{Gpu, all};
use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Backend;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

/// Cards that are named.
const NAMED: usize = 3;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "end_other_processes",
        title: "end the other processes, or take another card",
        serves: &[CauseId::OtherProcess, CauseId::OutsideAllocator],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: end_others,
    },
    Kind {
        id: "own_device_per_rank",
        title: "a device of its own for each rank",
        serves: &[CauseId::Device0],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: own_device,
    },
    Kind {
        id: "leave_room_for_libraries",
        title: "less in memory that PyTorch does not count",
        serves: &[CauseId::OutsideAllocator, CauseId::Sharded],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: libraries,
    },
    Kind {
        id: "larger_slice",
        title: "a larger slice, or the whole card",
        serves: &[CauseId::Mig],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: larger_slice,
    },
    Kind {
        id: "no_spill",
        title: "no memory lent by the driver",
        serves: &[CauseId::WindowsWsl],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: no_spill,
    },
    Kind {
        id: "smaller_single_blocks",
        title: "smaller single blocks",
        serves: &[CauseId::FreeButFails],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: single_blocks,
    },
    Kind {
        id: "larger_gpu",
        title: "a larger GPU",
        serves: &[
            CauseId::TooBig,
            CauseId::SingleHuge,
            CauseId::OptimizerFirstStep,
            CauseId::DataDependent,
            CauseId::EvalPhase,
            CauseId::LoadSaveResume,
            CauseId::SaversDontSave,
        ],
        numerics: Numerics::None,
        cost: Cost::Much,
        write: larger_gpu,
    },
];

fn end_others(case: &Case<'_>) -> Option<Advice> {
    let balance = case.balance.as_ref();
    let listed = balance
        .map(crate::balance::Balance::of_others)
        .unwrap_or_default();
    let show = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory,name --format=csv";
    if listed > Bytes::ZERO {
        let pids: Vec<String> = balance?
            .others
            .iter()
            .take(8)
            .map(|each| each.pid.to_string())
            .collect();
        return Some(Advice {
            saves: Saves::Exact(listed),
            text: format!(
                "other processes hold {listed}; in a container their numbers are those of the host"
            ),
            code: format!("{show}\nkill {}  # those that are yours", pids.join(" ")),
        });
    }
    let beyond = balance
        .map(crate::balance::Balance::beyond_a_context)
        .unwrap_or_default();
    if balance.is_some() && beyond == Bytes::ZERO {
        return None;
    }
    Some(Advice {
        saves: if beyond > Bytes::ZERO { Saves::UpTo(beyond) } else { Saves::Unknown },
        text: "processes that outlived their parent, notebooks and servers keep their memory until they end".into(),
        code: format!("{show}\nCUDA_VISIBLE_DEVICES=1 python SCRIPT  # a card that is empty"),
    })
}

fn own_device(case: &Case<'_>) -> Option<Advice> {
    let listed = case
        .balance
        .as_ref()
        .map(crate::balance::Balance::of_others);
    Some(Advice {
        saves: listed.filter(|bytes| *bytes > Bytes::ZERO).map_or(Saves::Unknown, Saves::UpTo),
        text: "set the device before anything touches CUDA, and read checkpoints to main memory: otherwise each rank opens a context or loads on the first GPU. One process for each GPU (DistributedDataParallel) does not gather on the first".into(),
        code: "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))\nstate = torch.load(path, map_location=\"cpu\")".into(),
    })
}

fn libraries(case: &Case<'_>) -> Option<Advice> {
    let own = case
        .balance
        .as_ref()
        .and_then(|balance| balance.own_other_bytes);
    let reserve = "torch.cuda.set_per_process_memory_fraction(0.9)  # leaves a tenth of the card to libraries";
    Some(Advice {
        saves: own.map_or(Saves::Unknown, Saves::UpTo),
        text: "kernels load as they are used, each NCCL communicator has buffers, and each library a handle; those that come late find a card that PyTorch has filled".into(),
        code: format!("{reserve}\nexport NCCL_BUFFSIZE=1048576 CUDA_MODULE_LOADING=LAZY"),
    })
}

fn larger_slice(_case: &Case<'_>) -> Option<Advice> {
    Some(Advice {
        saves: Saves::Unknown,
        text: "a slice has a fixed part of the memory; PyTorch 2.14 and later print the figures of the failure there, too".into(),
        code: "nvidia-smi -L\nCUDA_VISIBLE_DEVICES=MIG-<uuid of a larger slice> python SCRIPT".into(),
    })
}

fn no_spill(case: &Case<'_>) -> Option<Advice> {
    let spilled = case
        .balance
        .as_ref()
        .map(|balance| balance.live_bytes.saturating_sub(balance.total_bytes))
        .filter(|spilled| *spilled > Bytes::ZERO);
    Some(Advice {
        saves: Saves::Unknown,
        text: match spilled {
            Some(spilled) => format!("{spilled} lies in main memory, which is many times slower; the work has to become smaller by that, too. The NVIDIA control panel switches lending off (CUDA - Sysmem Fallback Policy), but not below WSL"),
            None => "close programs that draw on this card, and let the page file grow: the driver backs device memory with it".into(),
        },
        code: String::new(),
    })
}

fn single_blocks(case: &Case<'_>) -> Option<Advice> {
    if case.backend() != Backend::Xpu {
        return None;
    }
    Some(Advice {
        saves: Saves::Unknown,
        text: "the driver allows no single block above 4 GiB unless it is told to; smaller tensors, or these settings where the driver has them".into(),
        code: "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1".into(),
    })
}

fn larger_gpu(case: &Case<'_>) -> Option<Advice> {
    let balance = case.balance.as_ref()?;
    if case.backend() != Backend::Cuda {
        return None;
    }
    let tried = balance.tried_bytes?;
    let used = balance
        .total_bytes
        .saturating_sub(balance.free_bytes.unwrap_or_default())
        .saturating_sub(balance.of_others());
    let needed = used.max(balance.reserved()) + tried;
    let fitting = sizes(needed.max(balance.total_bytes + Bytes::from_mib(512)));
    let first = fitting.first()?;
    let words: Vec<String> = fitting
        .iter()
        .map(|gpu| format!("{} leaves {}", gpu.id, gpu.total.saturating_sub(needed)))
        .collect();
    Some(Advice {
        saves: Saves::Exact(first.total.saturating_sub(balance.total_bytes)),
        text: format!(
            "this request needed {needed} in all; of larger cards {} free, and later lines may need more",
            words.join(", ")
        ),
        code: format!("oomproof run --gpu {} SCRIPT", first.id),
    })
}

/// Cards with room for `needed`, the smallest of each of the next sizes.
fn sizes(needed: Bytes) -> Vec<&'static Gpu> {
    let mut chosen: Vec<&Gpu> = Vec::new();
    for gpu in all().iter().filter(|gpu| gpu.slice_of().is_none()) {
        let leaves = gpu.total.saturating_sub(needed);
        let larger = chosen
            .last()
            .is_none_or(|last| gpu.marketing_memory > last.marketing_memory);
        if leaves >= Bytes::new(gpu.total.get() / 50) && larger {
            chosen.push(gpu);
        }
        if chosen.len() == NAMED {
            break;
        }
    }
    chosen
}
