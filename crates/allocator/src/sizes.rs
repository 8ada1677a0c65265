//! From the size that is asked for to the size of a block and of a segment.

use crate::release::Release;
use crate::settings::{N_DIVISIONS, Settings};

pub(crate) const MIN_BLOCK: u64 = 512;
/// Rounded sizes up to this one share segments of their own.
pub(crate) const SMALL_SIZE: u64 = 1 << 20;
/// A segment for small sizes, and the page of an expandable one.
pub(crate) const SMALL_SEGMENT: u64 = 2 << 20;
/// From this size on a segment is made for one block.
const MIN_LARGE_BLOCK: u64 = 10 << 20;
const LARGE_ROUNDING: u64 = 2 << 20;
/// A request from this size on is refused before anything else.
pub(crate) const EXBIBYTE: u64 = 1 << 60;

/// The size of the block for a request of `requested` bytes.
pub(crate) fn rounded(requested: u64, settings: &Settings, release: Release) -> u64 {
    if requested < MIN_BLOCK {
        return MIN_BLOCK;
    }
    let magnitude = requested.ilog2().saturating_sub(20) as usize;
    let divisions = settings.roundup_power2_divisions[magnitude.min(N_DIVISIONS - 1)];
    let counts = if release.one_division_is_none() {
        divisions > 1
    } else {
        divisions > 0
    };
    if counts && requested > MIN_BLOCK.saturating_mul(divisions) {
        return by_divisions(requested, divisions);
    }
    requested.next_multiple_of(MIN_BLOCK)
}

fn by_divisions(requested: u64, divisions: u64) -> u64 {
    if divisions <= 1 || requested.is_power_of_two() {
        return requested;
    }
    let floor = 1 << requested.ilog2();
    match floor / divisions {
        0 => floor * 2,
        step => requested.next_multiple_of(step),
    }
}

/// The size of the segment that is asked of the driver for a block of `rounded` bytes.
pub(crate) fn segment(rounded: u64, settings: &Settings) -> u64 {
    if rounded <= SMALL_SIZE {
        SMALL_SEGMENT
    } else if rounded < MIN_LARGE_BLOCK {
        settings.large_segment_size.get()
    } else {
        rounded.next_multiple_of(LARGE_ROUNDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn check(release: &str, settings: &str, requested: u64, expected: (u64, u64)) {
        let release = release.parse().unwrap();
        let settings = Settings::parse(settings, release).unwrap();
        let size = rounded(requested, &settings, release);
        assert_eq!((size, segment(size, &settings)), expected, "{requested}");
    }

    #[test]
    fn sizes_become_blocks_and_segments() {
        check("2.8", "", 1, (512, 2 * MIB));
        check("2.8", "", 513, (1024, 2 * MIB));
        check("2.8", "", MIB, (MIB, 2 * MIB));
        check("2.8", "", MIB + 1, (MIB + 512, 20 * MIB));
        check("2.8", "", 10 * MIB - 512, (10 * MIB - 512, 20 * MIB));
        check("2.8", "", 10 * MIB - 511, (10 * MIB, 10 * MIB));
        check("2.8", "", 33 * MIB + 1, (33 * MIB + 512, 34 * MIB));
        check(
            "2.11",
            "large_segment_size_mb:32",
            5 * MIB,
            (5 * MIB, 32 * MIB),
        );
    }

    #[test]
    fn divisions_round_up_to_parts_of_a_power_of_two() {
        check("2.8", "roundup_power2_divisions:4", 1000, (1024, 2 * MIB));
        check("2.8", "roundup_power2_divisions:4", 2049, (2560, 2 * MIB));
        check("2.8", "roundup_power2_divisions:4", 4096, (4096, 2 * MIB));
        check(
            "2.8",
            "roundup_power2_divisions:4",
            9 * MIB,
            (10 * MIB, 10 * MIB),
        );
    }

    #[test]
    fn one_division_leaves_sizes_alone_before_2_4() {
        check("2.3", "roundup_power2_divisions:1", 1000, (1000, 2 * MIB));
        check("2.4", "roundup_power2_divisions:1", 1000, (1024, 2 * MIB));
    }
}
