//! Several GPUs.

use crate::case::Case;
use crate::cause::CauseId;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};

pub(super) const KINDS: &[Kind] = &[Kind {
    id: "shard_more",
    title: "parameters, gradients and state spread over the ranks",
    serves: &[CauseId::Sharded, CauseId::SaversDontSave],
    numerics: Numerics::Rounding,
    cost: Cost::Much,
    write: shard,
}];

fn shard(case: &Case<'_>) -> Option<Advice> {
    let before_second = case.failure.torch.are_before(crate::release::Release(2, 6));
    let code = if before_second {
        "model = FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True)"
    } else {
        "from torch.distributed.fsdp import fully_shard\nfor block in model.blocks:\n    fully_shard(block)\nfully_shard(model)"
    };
    Some(Advice {
        saves: Saves::Unknown,
        text: "each block has to be a unit of its own: a model that is one unit is gathered whole. Create it on the meta device, so that no rank ever holds all of it".into(),
        code: code.into(),
    })
}
