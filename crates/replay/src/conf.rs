//! The text of settings, and the variable it goes into, as each release spells them.

use oomproof_allocator::Release;

/// The environment variable that the documentation of a release names for the allocator's settings.
///
/// Since 2.10 there are two. The older one is read too, and wins when both are set.
pub fn variable(release: Release) -> &'static str {
    if is_since(release, 10) {
        "PYTORCH_ALLOC_CONF"
    } else {
        "PYTORCH_CUDA_ALLOC_CONF"
    }
}

/// Whether `release` is 2.`minor` or later.
pub(crate) fn is_since(release: Release, minor: u16) -> bool {
    release.major() > 2 || release.minor() >= minor
}

/// Options of one candidate of a search; `None` leaves the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) expandable_segments: bool,
    pub(crate) max_split_size_mb: Option<u64>,
    pub(crate) max_non_split_rounding_mb: Option<u64>,
    pub(crate) roundup_power2_divisions: Option<u64>,
    pub(crate) large_segment_size_mb: Option<u64>,
}

impl Options {
    /// The text; a key whose bounds depend on another comes behind it.
    pub(crate) fn text(self) -> String {
        let number = |key: &str, value: Option<u64>| value.map(|value| format!("{key}:{value}"));
        let expandable = self
            .expandable_segments
            .then(|| "expandable_segments:True".to_owned());
        [
            expandable,
            number("large_segment_size_mb", self.large_segment_size_mb),
            number("max_split_size_mb", self.max_split_size_mb),
            number("max_non_split_rounding_mb", self.max_non_split_rounding_mb),
            number("roundup_power2_divisions", self.roundup_power2_divisions),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(",")
    }
}

/// The settings worth trying with a release: a few hundred, the defaults first.
///
/// Garbage collection is not among them: it acts only below a memory limit, which no trace records.
pub(crate) fn candidates(release: Release) -> Vec<Options> {
    let least_split = if is_since(release, 10) { 20 } else { 21 };
    let splits = [None, Some(least_split)]
        .into_iter()
        .chain([32, 64, 128, 256, 512, 1024, 2048].map(Some));
    let splits: Vec<Option<u64>> = splits.collect();
    let only = |values: &[u64], since: u16| -> Vec<Option<u64>> {
        let known = if is_since(release, since) {
            values
        } else {
            &[]
        };
        std::iter::once(None)
            .chain(known.iter().copied().map(Some))
            .collect()
    };
    let segments = only(&[12, 16, 32, 64, 128, 256], 11);
    let roundings = only(&[64, 256], 6);
    let divisions = only(&[2, 4, 8, 16, 32], 0);
    let expandable: &[bool] = if is_since(release, 1) {
        &[false, true]
    } else {
        &[false]
    };
    let mut found = Vec::new();
    for &expandable_segments in expandable {
        for &large_segment_size_mb in &segments {
            for &max_split_size_mb in &splits {
                // A split limit below the segments is refused, and with expandable segments up to 2.4 it is a crash.
                let below = max_split_size_mb < large_segment_size_mb.map(|size| size.max(20));
                if max_split_size_mb.is_some()
                    && (below || (expandable_segments && !is_since(release, 5)))
                {
                    continue;
                }
                for &max_non_split_rounding_mb in &roundings {
                    if max_non_split_rounding_mb.is_some() && max_split_size_mb.is_none() {
                        continue;
                    }
                    for &roundup_power2_divisions in &divisions {
                        // Options that act on large free blocks change little beside each other: pairs are tried,
                        // triples are not.
                        let options = Options {
                            expandable_segments,
                            max_split_size_mb,
                            max_non_split_rounding_mb,
                            roundup_power2_divisions,
                            large_segment_size_mb,
                        };
                        if options.n_given() <= 2 {
                            found.push(options);
                        }
                    }
                }
            }
        }
    }
    found
}

impl Options {
    /// How many options differ from their defaults; the rounding goes with the split limit and does not count.
    pub(crate) fn n_given(self) -> usize {
        usize::from(self.expandable_segments)
            + usize::from(self.max_split_size_mb.is_some())
            + usize::from(self.roundup_power2_divisions.is_some())
            + usize::from(self.large_segment_size_mb.is_some())
    }
}

#[cfg(test)]
mod tests {
    use oomproof_allocator::Settings;

    use super::*;

    #[test]
    fn every_release_takes_all_of_its_candidates() {
        for minor in 0..=15 {
            let release = Release::new(2, minor).unwrap();
            let all = candidates(release);
            assert!((40..=500).contains(&all.len()), "{release}: {}", all.len());
            assert_eq!(all[0], Options::default());
            let mut texts: Vec<String> = all.iter().map(|options| options.text()).collect();
            for text in &texts {
                assert_eq!(
                    Settings::parse(text, release).err(),
                    None,
                    "{release}: {text}"
                );
            }
            texts.sort();
            texts.dedup();
            assert_eq!(texts.len(), all.len(), "{release} tries some twice");
        }
    }

    #[test]
    fn the_variable_is_the_one_of_the_release() {
        let of = |minor| variable(Release::new(2, minor).unwrap());
        assert_eq!(of(9), "PYTORCH_CUDA_ALLOC_CONF");
        assert_eq!(of(10), "PYTORCH_ALLOC_CONF");
    }
}
