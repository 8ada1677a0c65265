//! The settings that were in force, from what a snapshot says of them.

use oomproof_allocator::{Release, Settings};
use oomproof_snapshot::RecordedSettings;

use crate::undecided::{Question, Undecided};

/// The settings of the recording under the rules of a release, and the text they came from.
///
/// A snapshot has the text and some parsed fields. The fields count where they differ: a program can change settings
/// after it started, and the text is only that of the beginning.
pub(crate) fn recorded_settings(
    recorded: Option<&RecordedSettings>,
    release: Release,
    undecided: &mut Undecided,
) -> Settings {
    let Some(recorded) = recorded else {
        undecided.ask(Question::SettingsUnknown);
        return Settings::default();
    };
    let mut settings = Settings::default();
    if settings.apply(&recorded.conf, release).is_err() {
        undecided.ask(Question::SettingsUnknown);
    }
    settings.max_split_size = recorded.max_split_size;
    settings.garbage_collection_threshold = recorded.garbage_collection_threshold;
    settings.expandable_segments = recorded.expandable_segments;
    for &(mebibytes, divisions) in &recorded.roundup_power2_divisions {
        let slot = mebibytes.checked_ilog2().unwrap_or(0) as usize;
        if let Some(field) = settings.roundup_power2_divisions.get_mut(slot) {
            *field = divisions;
        }
    }
    settings
}
