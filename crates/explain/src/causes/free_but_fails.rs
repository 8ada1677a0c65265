//! There was room, and the request failed all the same: a limit elsewhere.

use crate::case::Case;
use crate::cause::{Cause, CauseId, Finding};
use crate::format::Backend;

pub(crate) const CAUSE: Cause = Cause {
    id: CauseId::FreeButFails,
    title: "it fails although there is room",
    meaning: "Free memory covers the request. Known reasons: a memory fraction, a limit for single allocations (Intel), main memory or its commit limit, WSL, address space.",
    apart: "Free is at least what was asked for.",
    check: "free -h; ulimit -v; nvidia-smi",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Finding> {
    if case.says("cannotallocatememoryblockwithsizelargerthan") {
        return Some(Finding::candidate(
            82,
            "the device allows no single block of this size, however much is free",
        ));
    }
    if let Some(balance) = &case.balance {
        if balance.free_covers_request() {
            let (free, tried) = (balance.free_bytes?, balance.tried_bytes?);
            let limited = case.failure.figures.allowed_bytes.is_some();
            return Some(Finding::candidate(
                if limited { 45 } else { 74 },
                format!("{free} was free and {tried} was asked for"),
            ));
        }
        // Intel's texts have no free field.
        let left = balance.total_bytes.saturating_sub(balance.reserved());
        let tried = balance.tried_bytes?;
        if case.backend() == Backend::Xpu && balance.free_bytes.is_none() && left >= tried {
            return Some(Finding::candidate(
                84,
                format!(
                    "{left} was not reserved and {tried} was asked for in one block, for which these devices have a limit of its own"
                ),
            ));
        }
    }
    None
}
