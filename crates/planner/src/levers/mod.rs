//! The levers, one file each, and what can be said of several together.

mod activation_checkpointing;
mod activation_offload;
mod allocator_settings;
mod attention;
mod autocast;
mod bf16_parameters;
mod channels_last;
mod chunked_loss;
mod compile;
mod evaluation_batch;
mod free_early;
mod gradient_bucket_view;
mod inference_evaluation;
mod larger_card;
mod lora;
mod micro_batch;
mod optimizer_implementation;
mod optimizer_in_backward;
mod optimizer_offload;
mod optimizer_state;
mod per_batch_transfer;
mod prune;
mod set_to_none;
mod split_forward;

pub(crate) use chunked_loss::scores_bytes;

use crate::facts::Facts;
use crate::lever::{self, Lever, Writing};
use crate::lever_name::LeverName;
use crate::lever_use::LeverUse;
use crate::numerics::Numerics;

/// All levers in the order of [`LeverName::ALL`].
pub(crate) static LEVERS: [&Lever; LeverName::ALL.len()] = [
    &allocator_settings::LEVER,
    &optimizer_implementation::LEVER,
    &micro_batch::LEVER,
    &activation_checkpointing::LEVER,
    &chunked_loss::LEVER,
    &attention::LEVER,
    &autocast::LEVER,
    &activation_offload::LEVER,
    &set_to_none::LEVER,
    &gradient_bucket_view::LEVER,
    &split_forward::LEVER,
    &bf16_parameters::LEVER,
    &optimizer_state::LEVER,
    &optimizer_in_backward::LEVER,
    &optimizer_offload::LEVER,
    &compile::LEVER,
    &lora::LEVER,
    &channels_last::LEVER,
    &inference_evaluation::LEVER,
    &evaluation_batch::LEVER,
    &per_batch_transfer::LEVER,
    &free_early::LEVER,
    &prune::LEVER,
    &larger_card::LEVER,
];

/// The lever of a name.
pub(crate) fn find(name: LeverName) -> &'static Lever {
    LEVERS[name as usize]
}

/// Says what is wrong with a lever's parameters.
pub(crate) fn validate(used: &LeverUse) -> Result<(), String> {
    lever::validate(find(used.name), used)
}

/// What a lever does, in words.
pub fn describe(used: &LeverUse) -> String {
    (find(used.name).describe)(used)
}

/// How far results of a script stay the same under a lever.
pub fn numerics_of(name: LeverName, facts: &Facts) -> Numerics {
    let lever = find(name);
    match lever.redraws.reason(facts) {
        Some(_) => lever.numerics.max(Numerics::Redrawn),
        None => lever.numerics,
    }
}

/// How far results of a script stay the same under all of these levers.
pub fn numerics(levers: &[LeverUse], facts: &Facts) -> Numerics {
    let each = levers.iter().map(|used| numerics_of(used.name, facts));
    each.max().unwrap_or_default()
}

/// Why random numbers are others under these levers; `None` where they are the same or training differs in any case.
pub fn numerics_reason(levers: &[LeverUse], facts: &Facts) -> Option<String> {
    if numerics(levers, facts) != Numerics::Redrawn {
        return None;
    }
    let mut each = levers.iter().filter_map(|used| {
        let reason = find(used.name).redraws.reason(facts)?;
        Some(format!("{reason}, and `{}` draws others", used.name))
    });
    each.next()
}

/// What a person would write instead of the lever; `None` where there is no such code for the framework.
pub fn code(used: &LeverUse, writing: &Writing<'_>) -> Option<String> {
    (find(used.name).code)(used, writing)
}

/// The first two of these levers that exclude each other, and why.
pub(crate) fn conflict(levers: &[LeverUse]) -> Option<(LeverName, LeverName, &'static str)> {
    for (used_idx, first) in levers.iter().enumerate() {
        for second in &levers[used_idx + 1..] {
            if let Some(reason) = excludes(first.name, second.name) {
                return Some((first.name, second.name, reason));
            }
        }
    }
    None
}

/// Why two levers exclude each other; either of the two may say so.
pub(crate) fn excludes(first: LeverName, second: LeverName) -> Option<&'static str> {
    let says = |first: LeverName, second: LeverName| {
        let mut conflicts = find(first).conflicts.iter();
        conflicts
            .find(|(name, _)| *name == second)
            .map(|(_, reason)| *reason)
    };
    says(first, second).or_else(|| says(second, first))
}

#[cfg(test)]
mod tests;
