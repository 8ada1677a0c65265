//! PyTorch's words, known before the first byte is read: they get the first numbers of the texts, so that a key is
//! recognized by comparing two small integers.

use crate::entry::Action;
use crate::text_table::Texts;

/// The words of the actions have the numbers before the others, in the order of `Action::KNOWN`.
const N_ACTIONS: u32 = Action::KNOWN.len() as u32;

macro_rules! words {
    ($($name:ident = $word:literal,)+) => {
        /// All words but those of the actions, in the order of their numbers.
        const WORDS: &[&str] = &[$($word),+];
        words!(@number N_ACTIONS, $($name,)+);
    };
    (@number $number:expr, $name:ident, $($rest:ident,)*) => {
        pub(super) const $name: u32 = $number;
        words!(@number $number + 1, $($rest,)*);
    };
    (@number $number:expr,) => {};
}

words! {
    // Keys. Those below 64 fit into the mask that tells what a dictionary is.
    ACTION = "action",
    ADDR = "addr",
    DEVICE_FREE = "device_free",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    FRAMES = "frames",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    POOL_ID = "pool_id",
    INTERNAL_METADATA = "internal_metadata",
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    DEVICE = "device",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    SEGMENT_POOL_ID = "segment_pool_id",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    STAGE = "stage",
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    CONF = "PYTORCH_CUDA_ALLOC_CONF",
    MAX_SPLIT_SIZE = "max_split_size",
    GARBAGE_COLLECTION_THRESHOLD = "garbage_collection_threshold",
    EXPANDABLE_SEGMENTS = "expandable_segments",
    ROUNDUP_POWER2_DIVISIONS = "roundup_power2_divisions",
    RECORD_STREAM_REUSE = "graph_capture_record_stream_reuse",
    MAX_ROUND_THRESHOLD = "max_round_threshold",
    // Values.
    SMALL = "small",
    LARGE = "large",
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_PENDING_FREE = "active_pending_free",
    ACTIVE_AWAITING_FREE = "active_awaiting_free",
    INACTIVE = "inactive",
}

/// Texts with all words at their numbers.
pub(super) fn texts_with_words() -> Texts {
    let mut texts = Texts::default();
    let actions = Action::KNOWN.iter().filter_map(|action| action.word());
    for word in actions.chain(WORDS.iter().copied()) {
        texts.intern(word);
    }
    texts
}

/// A word as it is written; empty for a number of an action.
pub(super) fn word(number: u32) -> &'static str {
    let index = number.wrapping_sub(N_ACTIONS) as usize;
    WORDS.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_table::TextId;

    #[test]
    fn every_word_has_its_number() {
        let texts = texts_with_words();
        assert_eq!(texts.len(), WORDS.len() + Action::KNOWN.len());
        for (number, action) in Action::KNOWN.iter().enumerate() {
            assert_eq!(Some(texts.get(TextId(number as u32))), action.word());
        }
        assert_eq!(texts.get(TextId(INACTIVE)), "inactive");
        assert_eq!(word(ADDR), "addr");
    }

    #[test]
    fn keys_fit_into_a_mask() {
        const { assert!(MAX_ROUND_THRESHOLD < 64) };
    }
}
