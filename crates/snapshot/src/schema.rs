//! Which optional keys a snapshot has: the evidence for its release, and what a writer has to write again.

use crate::origin::{MinorRelease, ReleaseRange};

macro_rules! schema_keys {
    ($($(#[$doc:meta])* $name:ident: $since:literal, $absence:ident;)+) => {
        /// The optional keys that were found. Each came with a release and stayed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Schema {
            $($(#[$doc])* pub $name: bool,)+
            /// Blocks have a `history` (up to torch 2.0).
            pub block_history: bool,
            /// There are segments, so the absence of a key of theirs means something.
            pub any_segment: bool,
            /// There are blocks.
            pub any_block: bool,
            /// There are entries in a trace.
            pub any_entry: bool,
            /// The snapshot is a dictionary and not a bare list of segments.
            pub dictionary: bool,
        }

        impl Schema {
            /// The releases that write these keys.
            pub fn releases(self) -> ReleaseRange {
                let mut range = ReleaseRange::ANY;
                $(
                    let since = MinorRelease::new(2, $since);
                    if self.$name {
                        range.earliest = range.earliest.max(Some(since));
                    } else if self.$absence() {
                        let before = if $since == 0 { MinorRelease::new(1, 13) } else { MinorRelease::new(2, $since - 1) };
                        range.latest = Some(range.latest.map_or(before, |latest| latest.min(before)));
                    }
                )+
                if self.block_history {
                    let last = MinorRelease::new(2, 0);
                    range.latest = Some(range.latest.map_or(last, |latest| latest.min(last)));
                }
                range
            }
        }
    };
}

schema_keys! {
    /// Segments have a `requested_size`.
    requested_size: 0, in_segments;
    /// Segments have a `segment_pool_id`.
    segment_pool: 1, in_segments;
    /// Blocks have an `address`.
    block_address: 1, in_blocks;
    /// Entries have a `time_us`.
    time: 2, in_entries;
    /// There are `allocator_settings`.
    settings: 3, in_dictionary;
    /// There are `external_annotations`.
    annotations: 5, in_dictionary;
    /// Entries have a `compile_context`.
    compile_context: 8, in_entries;
    /// The settings have `graph_capture_record_stream_reuse`.
    record_stream_reuse: 9, in_settings;
    /// Entries have a `user_metadata`.
    user_metadata: 10, in_entries;
    /// Entries have a `pool_id`.
    entry_pool: 12, in_entries;
    /// The settings have `max_round_threshold`.
    round_threshold: 13, in_settings;
    /// There are `host_segments` and `host_traces`.
    host: 14, in_dictionary;
    /// Some entries have an `internal_metadata`.
    internal_metadata: 15, nowhere;
}

impl Schema {
    fn in_segments(self) -> bool {
        self.any_segment
    }

    fn in_blocks(self) -> bool {
        self.any_block
    }

    fn in_entries(self) -> bool {
        self.any_entry
    }

    fn in_dictionary(self) -> bool {
        self.dictionary
    }

    fn in_settings(self) -> bool {
        self.settings
    }

    /// Keys whose absence says nothing.
    #[expect(
        clippy::unused_self,
        reason = "stands in the table beside those that look"
    )]
    fn nowhere(self) -> bool {
        false
    }
}
