//! Groups of calls, which NCCL begins together: all sides send before any of them waits.

use std::cell::RefCell;
use std::sync::Arc;

use super::communicator::Communicator;
use super::exchange::{Call, carry_out};
use super::status::{NcclResult, refuse, result};
use crate::session::session;

#[derive(Default)]
struct Group {
    depth: u32,
    joining: Vec<Arc<Communicator>>,
    calls: Vec<Call>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Leaves a communicator to be joined at the end of the group, if one is open.
pub(super) fn defer(communicator: &Arc<Communicator>) -> bool {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.joining.push(Arc::clone(communicator));
        }
        group.depth > 0
    })
}

/// Carries a call out, at the end of the group if one is open.
pub(super) fn submit(call: Call) -> Result<(), NcclResult> {
    let call = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(call);
        }
        group.calls.push(call);
        None
    });
    call.map_or(Ok(()), |call| carry_out(vec![call]))
}

/// Begins a group.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> NcclResult {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    NcclResult::SUCCESS
}

/// Ends a group; the outermost one is carried out.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> NcclResult {
    let ended = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.checked_sub(1)?;
        Some(if group.depth == 0 {
            std::mem::take(group)
        } else {
            Group::default()
        })
    });
    result(|| {
        let Some(group) = ended else {
            return Err(refuse(
                NcclResult::INVALID_USAGE,
                "ncclGroupEnd: not in a group call",
            ));
        };
        if let Some(session) = session() {
            for communicator in &group.joining {
                communicator.join(session)?;
            }
        }
        carry_out(group.calls)
    })
}
