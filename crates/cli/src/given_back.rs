//! How often PyTorch's allocator had to give memory back that it had cached, because the card had no more.
//!
//! The profile does not have PyTorch's own counter. It has what the counter counts: the driver refuses memory, and the
//! next that it hears is that memory is freed. A refusal that nothing was freed for ended with an error instead, which
//! the script may have survived.

use oomproof_profile::{DriverAction, Profile, Record};
use serde::Serialize;

/// How often, and in how many steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct GivenBack {
    /// How often memory was given back so that a request could be met.
    pub times: u64,
    /// Training steps in which that happened.
    pub steps: u32,
    /// Training steps that ended.
    pub of_steps: u32,
}

impl GivenBack {
    /// What a run has shown.
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut found = Self::default();
        let mut is_refused = false;
        let mut is_in_step = false;
        for record in &profile.records {
            match record {
                Record::Driver { action, .. } => match action {
                    DriverAction::Refused => is_refused = true,
                    DriverAction::Free | DriverAction::Release if is_refused => {
                        is_refused = false;
                        is_in_step = true;
                        found.times += 1;
                    }
                    _ => is_refused = false,
                },
                Record::OutOfMemory(_) => is_refused = false,
                Record::Step { .. } => {
                    found.of_steps += 1;
                    found.steps += u32::from(is_in_step);
                    is_in_step = false;
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actions: &str, expected: (u64, u32, u32)) {
        let record = |letter: char| match letter {
            's' => Record::Step {
                nanos: 0,
                step: 1,
                peak_allocated: 0,
                peak_reserved: 0,
                device_nanos: 0,
            },
            letter => Record::Driver {
                nanos: 0,
                action: match letter {
                    'm' => DriverAction::Malloc,
                    'f' => DriverAction::Free,
                    'r' => DriverAction::Refused,
                    'u' => DriverAction::Release,
                    other => panic!("{other}"),
                },
                device: 0,
                address: 0,
                size: 0,
                used: 0,
            },
        };
        let profile = Profile {
            records: actions.chars().map(record).collect(),
            ..Profile::read(&oomproof_profile::layout::new_header(1)).unwrap()
        };
        let found = GivenBack::of(&profile);
        assert_eq!(
            (found.times, found.steps, found.of_steps),
            expected,
            "{actions}"
        );
    }

    #[test]
    fn a_refusal_counts_when_memory_was_given_back_for_it() {
        check("mmsmms", (0, 0, 2));
        check("mmrffmsrfmrums", (3, 2, 2));
        // Freed for another reason, and refused for good.
        check("mfmsmrmfs", (0, 0, 2));
        check("rfms", (1, 1, 1));
    }
}
