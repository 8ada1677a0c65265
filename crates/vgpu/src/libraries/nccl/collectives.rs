//! The exported collectives: their arguments, checked.

use std::ffi::c_int;
use std::sync::Arc;

use super::communicator::{Communicator, communicator};
use super::exchange::{Call, What, with_peer};
use super::group::submit;
use super::number::{DataType, Reduction};
use super::status::{NcclResult, refuse, result};

/// Operators that exist in every communicator.
const BUILT_IN: usize = 5;

fn kind(code: c_int) -> Result<DataType, NcclResult> {
    DataType::from_code(code).ok_or_else(|| {
        refuse(
            NcclResult::INVALID_ARGUMENT,
            &format!("the type {code} does not exist"),
        )
    })
}

fn reduction(communicator: &Communicator, code: c_int) -> Result<Reduction, NcclResult> {
    let found = match code {
        0 => Some(Reduction::Sum),
        1 => Some(Reduction::Product),
        2 => Some(Reduction::Max),
        3 => Some(Reduction::Min),
        4 => Some(Reduction::Average),
        _ => usize::try_from(code)
            .ok()
            .and_then(|code| communicator.state().operators.get(code - BUILT_IN).copied())
            .flatten(),
    };
    found.ok_or_else(|| {
        refuse(
            NcclResult::INVALID_ARGUMENT,
            &format!("the operator {code} does not exist"),
        )
    })
}

/// Buffers and their size.
#[derive(Default)]
struct Buffers {
    send: u64,
    receive: u64,
    count: usize,
    kind: c_int,
}

fn call(
    handle: u64,
    buffers: &Buffers,
    what: impl FnOnce(&Communicator) -> Result<What, NcclResult>,
) -> NcclResult {
    result(|| {
        let (_, communicator) = communicator(handle)?;
        let what = what(&communicator)?;
        submit(Call {
            what,
            communicator,
            send: buffers.send,
            receive: buffers.receive,
            count: buffers.count as u64,
            kind: kind(buffers.kind)?,
        })
    })
}

/// The rank that a call names, checked.
fn peer(handle: u64, rank: c_int) -> Result<usize, NcclResult> {
    with_peer(handle, rank).map(|(_, rank)| rank)
}

macro_rules! collectives {
    ($($(#[$doc:meta])+ $name:ident($($buffer:ident),+; $($parameter:ident),*)
        => |$found:ident, $handle:ident| $what:expr;)+) => { $(
        $(#[$doc])+
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            $($buffer: u64,)+ count: usize, kind: c_int, $($parameter: c_int,)* communicator: u64, _stream: u64,
        ) -> NcclResult {
            let mut buffers = Buffers { count, kind, ..Buffers::default() };
            $(buffers.$buffer = $buffer;)+
            let $handle = communicator;
            call($handle, &buffers, |$found| $what)
        }
    )+ };
}

collectives! {
    /// The sum, or another operator, of all ranks' elements, for all.
    ncclAllReduce(send, receive; operator) => |found, _handle| reduction(found, operator).map(What::AllReduce);
    /// The sum, or another operator, of all ranks' elements, for one.
    ncclReduce(send, receive; operator, root) => |found, handle| {
        let by = reduction(found, operator)?;
        peer(handle, root).map(|root| What::Reduce { by, root })
    };
    /// Each rank's part of the sum, or of another operator.
    ncclReduceScatter(send, receive; operator) => |found, _handle| reduction(found, operator).map(What::ReduceScatter);
    /// One rank's elements for all.
    ncclBroadcast(send, receive; root) => |_found, handle| peer(handle, root).map(|root| What::Broadcast { root });
    /// All ranks' elements for all.
    ncclAllGather(send, receive;) => |_found, _handle| Ok(What::AllGather);
    /// A part of each rank's elements for each.
    ncclAlltoAll(send, receive;) => |_found, _handle| Ok(What::AllToAll);
    /// All ranks' elements for one.
    ncclGather(send, receive; root) => |_found, handle| peer(handle, root).map(|root| What::Gather { root });
    /// A part of one rank's elements for each.
    ncclScatter(send, receive; root) => |_found, handle| peer(handle, root).map(|root| What::Scatter { root });
    /// Elements for another rank.
    ncclSend(send; to) => |_found, handle| peer(handle, to).map(|to| What::Send { to });
    /// Elements from another rank.
    ncclRecv(receive; from) => |_found, handle| peer(handle, from).map(|from| What::Receive { from });
}

/// One rank's elements for all, in place.
#[unsafe(no_mangle)]
pub extern "C" fn ncclBcast(
    buffer: u64,
    count: usize,
    kind: c_int,
    root: c_int,
    communicator: u64,
    stream: u64,
) -> NcclResult {
    ncclBroadcast(buffer, buffer, count, kind, root, communicator, stream)
}

/// An operator that multiplies each rank's elements before it adds them up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRedOpCreatePreMulSum(
    out: *mut c_int,
    scalar: u64,
    kind_code: c_int,
    residence: c_int,
    handle: u64,
) -> NcclResult {
    const ON_HOST: c_int = 1;
    // SAFETY: the caller passes a place for a number or null.
    unsafe { crate::status::put(out, -1) };
    result(|| {
        let (session, communicator) = communicator(handle)?;
        let kind = kind(kind_code)?;
        if out.is_null() || scalar == 0 {
            return Err(NcclResult::INVALID_ARGUMENT);
        }
        let mut bytes = vec![0; kind.len()];
        let is_known = if residence == ON_HOST {
            // SAFETY: the caller passes one element in host memory.
            let scalar = unsafe { std::slice::from_raw_parts(scalar as *const u8, kind.len()) };
            bytes.copy_from_slice(scalar);
            true
        } else {
            session.memory().contents.read(scalar, &mut bytes) == 0
        };
        let factor = kind.factor(&bytes).filter(|_| is_known);
        let communicator: Arc<Communicator> = communicator;
        let mut state = communicator.state();
        state.operators.push(Some(Reduction::ScaledSum(factor)));
        let code = (BUILT_IN + state.operators.len() - 1) as c_int;
        // SAFETY: not null.
        unsafe { crate::status::put(out, code) };
        Ok(())
    })
}

/// Forgets an operator.
#[unsafe(no_mangle)]
pub extern "C" fn ncclRedOpDestroy(operator: c_int, handle: u64) -> NcclResult {
    result(|| {
        let (_, communicator) = communicator(handle)?;
        let mut state = communicator.state();
        let place = usize::try_from(operator)
            .ok()
            .and_then(|code| code.checked_sub(BUILT_IN))
            .and_then(|index| state.operators.get_mut(index));
        place
            .and_then(Option::take)
            .map(drop)
            .ok_or(NcclResult::INVALID_ARGUMENT)
    })
}
