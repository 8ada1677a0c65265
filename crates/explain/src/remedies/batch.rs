//! What grows with the batch. How much of the card that is a text does not say, so it says how far the batch has to
//! shrink at least: as if all that is live shrank with it.

use oomproof_units::Bytes;

use crate::case::Case;
use crate::cause::CauseId;
use crate::format::Format;
use crate::moment::Moment;
use crate::release::Release;
use crate::remedy::{Advice, Cost, Kind, Numerics, Saves};
use crate::script::{self, Suspicion};

const FULL: &[CauseId] = &[
    CauseId::TooBig,
    CauseId::SingleHuge,
    CauseId::DataDependent,
    CauseId::EvalPhase,
    CauseId::Cudnn,
    CauseId::Sharded,
    CauseId::SaversDontSave,
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "gradient_accumulation",
        title: "smaller batches, gradients of several added up",
        serves: &[
            CauseId::TooBig,
            CauseId::DataDependent,
            CauseId::Sharded,
            CauseId::SaversDontSave,
        ],
        numerics: Numerics::Rounding,
        cost: Cost::Some,
        write: accumulate,
    },
    Kind {
        id: "smaller_batch",
        title: "a smaller batch",
        serves: FULL,
        numerics: Numerics::Changes,
        cost: Cost::Little,
        write: smaller,
    },
    Kind {
        id: "batches_one_by_one",
        title: "batches moved to the GPU one by one",
        serves: &[
            CauseId::TooBig,
            CauseId::LoadSaveResume,
            CauseId::SingleHuge,
        ],
        numerics: Numerics::None,
        cost: Cost::Little,
        write: one_by_one,
    },
    Kind {
        id: "bound_the_longest",
        title: "a bound for the longest sample, and batches by size",
        serves: &[CauseId::DataDependent, CauseId::SingleHuge],
        numerics: Numerics::Changes,
        cost: Cost::Some,
        write: bounded,
    },
    Kind {
        id: "chunked_output",
        title: "the largest result in pieces",
        serves: &[CauseId::SingleHuge, CauseId::DataDependent],
        numerics: Numerics::Rounding,
        cost: Cost::Some,
        write: chunked,
    },
    Kind {
        id: "gradient_checkpointing",
        title: "gradient checkpointing",
        serves: &[
            CauseId::TooBig,
            CauseId::DataDependent,
            CauseId::SaversDontSave,
            CauseId::Sharded,
        ],
        numerics: Numerics::None,
        cost: Cost::Some,
        write: checkpointing,
    },
    Kind {
        id: "half_precision",
        title: "half precision",
        serves: &[
            CauseId::TooBig,
            CauseId::SingleHuge,
            CauseId::DataDependent,
            CauseId::LoadSaveResume,
            CauseId::EvalPhase,
        ],
        numerics: Numerics::Changes,
        cost: Cost::Little,
        write: half,
    },
    Kind {
        id: "right_size",
        title: "the size computed right",
        serves: &[CauseId::SingleHuge],
        numerics: Numerics::Changes,
        cost: Cost::Little,
        write: right_size,
    },
];

/// Whether the failure lies where the size of a batch matters.
fn batch_matters(case: &Case<'_>) -> bool {
    // A size that was computed wrongly is wrong for any batch.
    !case.is(Format::AbsurdSize)
        && !matches!(
            case.phase(),
            Some(Moment::Load | Moment::Save | Moment::Optimizer)
        )
}

/// What grows with the batch, where a recorded run says so.
fn of_batch(case: &Case<'_>) -> Option<Bytes> {
    case.held
        .map(|held| held.batch_bytes)
        .filter(|bytes| *bytes > Bytes::ZERO)
}

/// Percent by which the batch has to shrink at least, and whether that is a bound only.
fn shrink(case: &Case<'_>) -> Option<(u64, Bytes, bool)> {
    let balance = case.balance.as_ref()?;
    let short = balance.short_bytes.filter(|short| *short > Bytes::ZERO)?;
    let tried = balance.tried_bytes.unwrap_or_default();
    let (scales, bound) = match of_batch(case) {
        Some(of_batch) => (of_batch + tried, false),
        None => (balance.live_bytes + tried, true),
    };
    // Upwards: a batch that is a little too large is too large.
    let percent = crate::balance::share(short, scales) + 1;
    (percent < 100).then_some((percent, short, bound))
}

fn smaller(case: &Case<'_>) -> Option<Advice> {
    if !batch_matters(case) {
        return None;
    }
    let Some((percent, short, bound)) = shrink(case) else {
        return Some(Advice {
            saves: Saves::Unknown,
            text: "how much of the card grows with the batch the text does not say; halve it and look again".into(),
            code: "batch_size = batch_size // 2".into(),
        });
    };
    let text = if bound {
        format!(
            "{short} is missing: the batch has to shrink by {percent} % at least, and by more the larger the share of weights and optimizer state is"
        )
    } else {
        format!("{short} is missing, and what grows with the batch has to shrink by {percent} %")
    };
    Some(Advice {
        saves: Saves::Needed(short),
        text,
        code: if bound {
            format!(
                "batch_size = batch_size // 2  # then up again, to {} % at most",
                100 - percent
            )
        } else {
            format!("batch_size = batch_size * {} // 100", 100 - percent)
        },
    })
}

fn accumulate(case: &Case<'_>) -> Option<Advice> {
    if !batch_matters(case) || matches!(case.phase(), Some(Moment::Evaluation | Moment::Generate)) {
        return None;
    }
    let parts = shrink(case).map_or(2, |(percent, ..)| 100_u64.div_ceil(100 - percent).max(2));
    Some(Advice {
        saves: shrink(case).map_or(Saves::Unknown, |(_, short, _)| Saves::Needed(short)),
        text: format!(
            "the same batch in {parts} parts takes one step with gradients that differ by rounding only, except for layers that look across the batch (batch norm)"
        ),
        code: format!(
            "for part_x, part_y in zip(x.chunk({parts}), y.chunk({parts})):\n    loss = criterion(model(part_x), part_y) / {parts}\n    loss.backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=True)"
        ),
    })
}

/// Batches on their way to the device.
const STEPWISE: &str = "for x, y in loader:\n    x = x.to(\"cuda\", non_blocking=True)\n    y = y.to(\"cuda\", non_blocking=True)";

fn one_by_one(case: &Case<'_>) -> Option<Advice> {
    let edits = script::edits(case.suspects, &[Suspicion::WholeDataOnDevice]);
    let at_load = case.phase() == Some(Moment::Load);
    let text = match &edits {
        Some((suspect, _)) => format!(
            "line {} moves a whole data set: `{}`",
            suspect.line, suspect.code
        ),
        None if at_load => {
            "if what is loaded is data, only the batch at work has to be on the GPU".to_owned()
        }
        None => return None,
    };
    Some(Advice {
        saves: Saves::Unknown,
        text,
        code: match edits {
            Some((_, code)) => format!("{code}\n{STEPWISE}"),
            None => STEPWISE.to_owned(),
        },
    })
}

fn bounded(case: &Case<'_>) -> Option<Advice> {
    batch_matters(case).then(|| Advice {
        saves: case
            .balance
            .as_ref()
            .and_then(|balance| balance.short_bytes)
            .map_or(Saves::Unknown, Saves::Needed),
        text: "the longest sample decides the peak; cut it, or put as many samples into a batch as their total size allows".into(),
        code: "batch = tokenizer(texts, truncation=True, max_length=1024, padding=\"longest\")".into(),
    })
}

fn chunked(case: &Case<'_>) -> Option<Advice> {
    let tried = case.tried()?;
    batch_matters(case).then(|| Advice {
        saves: Saves::UpTo(Bytes::new(tried.get() / 4 * 3)),
        text: format!("a block of {tried} is one tensor: in four pieces it needs a quarter at a time. Attention by `scaled_dot_product_attention` has no matrix of scores; the loss of a large vocabulary can be taken in pieces"),
        code: "loss = sum(F.cross_entropy(head(part), target, reduction=\"sum\")\n           for part, target in zip(hidden.chunk(4), targets.chunk(4))) / targets.numel()".into(),
    })
}

fn checkpointing(case: &Case<'_>) -> Option<Advice> {
    if !matches!(
        case.phase(),
        None | Some(Moment::Forward | Moment::Backward)
    ) {
        return None;
    }
    let saves = of_batch(case).map_or(Saves::Unknown, Saves::UpTo);
    let extra = if case.cues.savers() == Some("gradient checkpointing") {
        "; it is named in the log already, so look whether it is in effect: the model must be in training mode, and its inputs must need gradients"
    } else {
        ""
    };
    let code = if case.failure.torch.are_before(Release(1, 11)) {
        "x = torch.utils.checkpoint.checkpoint(block, x)  # for each block"
    } else {
        "model.gradient_checkpointing_enable()  # transformers\nx = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # for each block of your own model"
    };
    Some(Advice {
        saves,
        text: format!(
            "activations inside blocks are computed again in backward instead of kept, for about a third more time{extra}"
        ),
        code: code.into(),
    })
}

fn half(case: &Case<'_>) -> Option<Advice> {
    let live = case.balance.as_ref().map(|balance| balance.live_bytes);
    let at_load = case.phase() == Some(Moment::Load);
    if matches!(case.phase(), Some(Moment::Save | Moment::Optimizer)) || case.is(Format::AbsurdSize)
    {
        return None;
    }
    let saves = match of_batch(case) {
        Some(of_batch) if !at_load => Saves::UpTo(Bytes::new(of_batch.get() / 2)),
        _ => live
            .filter(|live| *live > Bytes::ZERO)
            .map_or(Saves::Unknown, |live| {
                Saves::UpTo(Bytes::new(live.get() / 2))
            }),
    };
    let code = if at_load {
        "model = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)  # or model.to(torch.bfloat16)"
    } else if case.failure.torch.are_before(Release(1, 10)) {
        "scaler = torch.cuda.amp.GradScaler()\nwith torch.cuda.amp.autocast():\n    loss = criterion(model(x), y)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"
    } else {
        "with torch.autocast(\"cuda\", dtype=torch.bfloat16):  # on cards before Ampere torch.float16 with a gradient scaler\n    loss = criterion(model(x), y)"
    };
    Some(Advice {
        saves,
        text: "what is in 32 bits and can be in 16 halves; nothing is gained where it already is. Autocast keeps the weights in 32 bits and saves on activations".into(),
        code: code.into(),
    })
}

fn right_size(case: &Case<'_>) -> Option<Advice> {
    case.is(Format::AbsurdSize).then(|| Advice {
        saves: Saves::Unknown,
        text: "no memory has the size that was asked for: a length is negative or overflowed, or two shapes were multiplied that should not be. The shapes before the failing line show which".into(),
        code: "print({name: tuple(value.shape) for name, value in locals().items() if hasattr(value, \"shape\")})  # before the failing line".into(),
    })
}
