//! What is assumed of the results of kernels whose inputs nobody knows, at the kernel that decides.
//!
//! A value made up where the host reads it cannot agree with what was computed from it before, so it is made up at the
//! source: where unknown numbers become a choice, an order, a truth or a count. What follows is carried out on it like
//! on any known value, and everything computed from it carries the assumption. Only bytes that are unknown after the
//! launch are assumed; what could be carried out exactly stays as it is.
//!
//! **Invariant:** nothing is written beyond the end of the block that an output begins in.

mod choice;
mod comparison;
mod count;
mod launch;
mod logic;
mod order;
mod tensor_info;
mod whole;

use std::ffi::c_void;

use oomproof_profile::Routing;

use crate::session::Session;

use super::signature::Signature;
use crate::contents::{Assumption, Known, Pattern};
use crate::memory::Memory;

use launch::Launch;

/// More bytes than this are not written one by one; what repeats costs nothing and has no limit.
const MAX_BYTES: u64 = 16 << 20;

/// What is assumed of one kernel's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Choice(choice::Choice),
    Comparison(comparison::Comparison),
    Count(count::Count),
    Order(order::Order),
    Logic(logic::Logic),
    Whole(whole::Whole),
    /// Boxes that no other box suppresses.
    KeepAll,
    /// Whether gradients overflowed: the flag's address is the first word of this argument.
    NoOverflow {
        argument: usize,
    },
}

/// What is assumed in a launch, and how choices are spread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground {
    assumption: Option<Assumption>,
    /// That numbers are finite.
    health: Option<Assumption>,
    /// That a number alone is above zero.
    sign: Option<Assumption>,
    /// That a slope falls.
    slope: Option<Assumption>,
    routing: Routing,
}

impl Ground {
    /// For a launch by the source line that runs now, and what the policy states.
    pub(crate) fn new(session: &Session, statement: u32) -> Self {
        let [site, ..] = session.header.state();
        let health = session.text("unknown numbers were taken to be finite");
        let sign = session.text("a number alone was taken to be above zero");
        let slope = session.text("a slope was taken to fall");
        Self {
            assumption: Assumption::stated_by(statement, site),
            slope: Assumption::stated_by(slope, site),
            sign: Assumption::stated_by(sign, site),
            health: Assumption::stated_by(health, site).map(Assumption::of_health),
            routing: session.settings.routing,
        }
    }
}

/// What was where a kernel will have written, or where its type does not say that it only reads.
#[derive(Debug, Default)]
pub(crate) struct Found(Option<(u64, Known)>);

impl Policy {
    /// What is assumed of a kernel, if anything.
    pub(crate) fn of(signature: &Signature) -> Option<Self> {
        let types = signature.types();
        match signature.function() {
            "gather_keep_from_mask" if types.len() == 3 => return Some(Self::KeepAll),
            "multi_tensor_apply_kernel" | "vectorized_elementwise_kernel" => {
                let flag = |text: &String| {
                    text.contains("amp_foreach_non_finite_check_and_unscale_cuda_(")
                        || text.contains("amp_non_finite_check_and_unscale_cuda_(")
                };
                if let Some(argument) = types.iter().position(flag) {
                    return Some(Self::NoOverflow { argument });
                }
            }
            _ => {}
        }
        choice::Choice::of(signature)
            .map(Self::Choice)
            .or_else(|| comparison::Comparison::of(signature).map(Self::Comparison))
            .or_else(|| count::Count::of(signature).map(Self::Count))
            .or_else(|| order::Order::of(signature).map(Self::Order))
            .or_else(|| logic::Logic::of(signature).map(Self::Logic))
            .or_else(|| whole::Whole::of(signature).map(Self::Whole))
    }

    /// What is assumed, as a sentence without its subject's place.
    pub(crate) fn statement(&self, routing: Routing) -> &'static str {
        match (self, routing) {
            (Self::Choice(_), Routing::Balanced) => {
                "the choice among unknown scores was taken to fall evenly on all candidates"
            }
            (Self::Choice(_), Routing::Worst) => {
                "the choice among unknown scores was taken to fall on the same candidates every time"
            }
            (Self::Comparison(_), _) => "a comparison of unknown values was taken to hold",
            (Self::Count(count), _) => count.statement(),
            (Self::Order(_), _) => "unknown values were taken to be in order already",
            (Self::Logic(_), _) => "a truth that is not known does not decide",
            (Self::Whole(_), _) => "a whole number alone was taken to be 0",
            (Self::KeepAll, _) => "no box was taken to suppress another",
            (Self::NoOverflow { .. }, _) => "gradients were taken not to overflow",
        }
    }

    /// Keeps what a kernel in place will have overwritten, and assumes what it must not find unknown.
    ///
    /// # Safety
    /// `arguments` must fit the kernel's signature.
    pub(crate) unsafe fn before(
        &self,
        memory: &mut Memory,
        arguments: *const *const c_void,
        ground: Ground,
    ) -> Found {
        // SAFETY: promised by the caller.
        let launch = unsafe { Launch::new(arguments) };
        match self {
            Self::Order(order) => order.before(memory, launch),
            Self::Count(count) => count.before(memory, launch),
            Self::Whole(whole) => {
                whole.settle(memory, launch, ground);
                Found::default()
            }
            Self::NoOverflow { argument } => {
                let flag = launch.word(*argument, 0);
                let known = memory.contents.known(flag, 4);
                Found(known.map(|known| (flag, known)))
            }
            _ => Found::default(),
        }
    }

    /// Assumes what the launch left unknown.
    ///
    /// # Safety
    /// `arguments` must fit the kernel's signature.
    pub(crate) unsafe fn after(
        &self,
        memory: &mut Memory,
        arguments: *const *const c_void,
        found: Found,
        ground: Ground,
    ) {
        // SAFETY: promised by the caller.
        let launch = unsafe { Launch::new(arguments) };
        match self {
            Self::Choice(choice) => choice.assume(memory, launch, ground),
            Self::Comparison(comparison) => comparison.assume(memory, launch, ground),
            Self::Count(count) => count.assume(memory, launch, found, ground),
            Self::Order(order) => order.assume(memory, launch, found, ground),
            Self::Logic(logic) => logic.decide(memory, launch),
            Self::Whole(_) => {}
            Self::KeepAll => {
                let (keep, count) = (launch.word(0, 0), u64::from(launch.int(2)));
                fill(memory, keep, count, &[1], ground);
            }
            Self::NoOverflow { argument } => {
                let flag = launch.word(*argument, 0);
                let assumption = ground.assumption.map(Assumption::of_health);
                let ground = Ground {
                    assumption,
                    ..ground
                };
                let Found(before) = found;
                let known = memory.contents.known(flag, 4);
                if memory.is_memory(flag, 4)
                    && let Some(Known { bytes, .. }) = known.or(before.map(|(_, known)| known))
                {
                    put(memory, flag, bytes, ground);
                }
            }
        }
    }
}

/// How many of `len` bytes from `at` on lie in the block, or else in the allocation, that `at` lies in.
fn room(memory: &mut Memory, at: u64, len: u64) -> u64 {
    let end = match memory.block_of(at) {
        Some((start, block)) => start + block.size,
        None => match memory.range_of(at) {
            Some((start, range)) => start + range.len,
            None => return 0,
        },
    };
    if memory.is_memory(at, 1) {
        len.min(end - at)
    } else {
        0
    }
}

/// The bytes at `at` are assumed to be these, as far as the block reaches.
fn put(memory: &mut Memory, at: u64, mut bytes: Vec<u8>, ground: Ground) {
    let len = room(memory, at, bytes.len() as u64);
    bytes.truncate(len as usize);
    let assumption = ground.assumption;
    memory.contents.put(at, Known { bytes, assumption });
}

/// As [`put`], unless all of these bytes have a value already.
fn put_if_unknown(memory: &mut Memory, at: u64, bytes: Vec<u8>, ground: Ground) {
    let len = room(memory, at, bytes.len() as u64);
    if memory.contents.unknown(at, len) > 0 {
        put(memory, at, bytes, ground);
    }
}

/// `count` elements at `at` are assumed to be this one, as far as the block reaches, unless they have values already.
fn fill(memory: &mut Memory, at: u64, count: u64, element: &[u8], ground: Ground) {
    let len = room(memory, at, count.saturating_mul(element.len() as u64));
    if memory.contents.unknown(at, len) > 0
        && let Some(pattern) = Pattern::new(element)
    {
        memory
            .contents
            .fill_assumed(at, len, pattern, ground.assumption);
    }
}

/// The numbers from 0 on as elements of `width` bytes, starting again after each `period`.
fn counting(count: u64, period: u64, width: u64) -> Option<Vec<u8>> {
    if count.checked_mul(width)? > MAX_BYTES || period == 0 {
        return None;
    }
    let mut bytes = Vec::with_capacity((count * width) as usize);
    for index in 0..count {
        bytes.extend_from_slice(&(index % period).to_ne_bytes()[..width as usize]);
    }
    Some(bytes)
}
