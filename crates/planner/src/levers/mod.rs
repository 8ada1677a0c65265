//! The levers, one file each, and what can be said of several together.

mod activation_checkpointing;
mod activation_offload;
mod allocator_settings;
mod attention;
mod autocast;
mod chunked_loss;
mod micro_batch;
mod optimizer_implementation;

pub(crate) use chunked_loss::scores_bytes;

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

/// How far results stay the same under a lever.
pub fn numerics_of(name: LeverName) -> Numerics {
    find(name).numerics
}

/// How far results stay the same under all of these levers.
pub(crate) fn numerics(levers: &[LeverUse]) -> Numerics {
    let each = levers.iter().map(|used| numerics_of(used.name));
    each.max().unwrap_or_default()
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
mod tests {
    use super::*;

    #[test]
    fn each_row_is_where_its_name_is() {
        for name in LeverName::ALL {
            assert_eq!(find(name).name, name);
        }
    }
}
