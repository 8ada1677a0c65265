//! `PYTORCH_CUDA_ALLOC_CONF`, as each release reads it.
//!
//! Which keys exist, which values they take and what a list means changed between releases, and an option that one
//! release honors is an error in another. Every reading first puts a few options back to their defaults and leaves
//! the others as they were, so a text is applied to settings rather than turned into them.

use oomproof_units::Bytes;
use thiserror::Error;

use crate::release::Release;

const MIB: u64 = 1 << 20;
/// The divisions of sizes below 2 MiB, below 4 MiB, and so on; the last is for all of 32 GiB and above.
pub(crate) const N_DIVISIONS: usize = 16;

/// What the allocator is told. PyTorch's defaults are [`Settings::default`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Blocks of this size and above are not split, and smaller requests do not use them.
    pub max_split_size: Option<Bytes>,
    /// How much larger than a request above `max_split_size` a block for it may be.
    pub max_non_split_rounding: Bytes,
    /// Share of the limit above which free blocks that were long unused are released; 0 is never.
    pub garbage_collection_threshold: f64,
    /// By how many divisions of a power of two a size is rounded, by the size's magnitude; 0 is not at all.
    pub roundup_power2_divisions: [u64; N_DIVISIONS],
    /// Whether new memory is mapped into segments that can grow.
    pub expandable_segments: bool,
    /// Size of a segment for requests between 1 and 10 MiB.
    pub large_segment_size: Bytes,
    /// Whether the text named `large_segment_size_mb`, which `max_non_split_rounding` then follows.
    has_large_segment_size: bool,
    /// Share of the card that the text allows (`per_process_memory_fraction`).
    pub memory_fraction: Option<f64>,
    /// Whether a request that would pass `memory_fraction` fails before the driver is asked.
    pub throw_on_cudamalloc_oom: bool,
    /// How much address space an expandable segment reserves.
    pub expandable_segments_reserve: Reserve,
    /// Which of PyTorch's allocators: only `native` is modeled.
    pub backend: Backend,
    /// Options that were set, that decide where memory lies, and that are read and not followed.
    unmodeled: Vec<&'static str>,
}

/// Address space of an expandable segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reserve {
    /// Nine eighths of the card.
    #[default]
    Whole,
    /// This share of the card's memory.
    Fraction(f64),
    /// So many bytes.
    Bytes(Bytes),
}

/// Which allocator of PyTorch's is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The caching allocator.
    #[default]
    Native,
    /// CUDA's own pools, which are not modeled here.
    CudaMallocAsync,
}

/// Why a release refuses a settings string.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// The key exists in no release, or not in this one.
    #[error("PyTorch {release} has no allocator option `{key}`")]
    UnknownKey {
        /// The key.
        key: String,
        /// The release that was asked.
        release: Release,
    },
    /// The value is not one that the key takes.
    #[error("`{key}` of the allocator's settings takes {expected}, not `{value}`")]
    Value {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The text is not `key:value,key:value`.
    #[error("the allocator's settings have `{found}` where `{expected}` is due")]
    Syntax {
        /// What stands there; empty at the end.
        found: String,
        /// What should.
        expected: &'static str,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_split_size: None,
            max_non_split_rounding: Bytes::from_mib(20),
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: [0; N_DIVISIONS],
            expandable_segments: false,
            large_segment_size: Bytes::from_mib(20),
            has_large_segment_size: false,
            memory_fraction: None,
            throw_on_cudamalloc_oom: false,
            expandable_segments_reserve: Reserve::Whole,
            backend: Backend::Native,
            unmodeled: Vec::new(),
        }
    }
}

impl Settings {
    /// What a process has that starts with `text` in `PYTORCH_CUDA_ALLOC_CONF`.
    pub fn parse(text: &str, release: Release) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        settings.apply(text, release)?;
        Ok(settings)
    }

    /// Reads `text` into settings that already hold, as `torch.cuda.memory._set_allocator_settings` does. After an
    /// error nothing has changed.
    pub fn apply(&mut self, text: &str, release: Release) -> Result<(), SettingsError> {
        let fresh = Self::default();
        let mut changed = Self {
            max_split_size: fresh.max_split_size,
            garbage_collection_threshold: fresh.garbage_collection_threshold,
            roundup_power2_divisions: fresh.roundup_power2_divisions,
            ..self.clone()
        };
        let mut reader = Reader::new(text, release);
        while let Some(key) = reader.next() {
            changed.read_option(key, &mut reader)?;
            if !reader.is_at_end() {
                reader.expect(",")?;
            }
        }
        *self = changed;
        Ok(())
    }

    fn read_option(&mut self, key: &str, reader: &mut Reader<'_>) -> Result<(), SettingsError> {
        let release = reader.release;
        let since = first_release(key)
            .filter(|since| release.has_option_since(*since))
            .ok_or_else(|| SettingsError::UnknownKey {
                key: key.to_owned(),
                release,
            })?;
        debug_assert!(release.has_option_since(since));
        reader.expect(":")?;
        let is_new = release.has_option_since(10);
        match key {
            "max_split_size_mb" => {
                let least = if release.has_option_since(11) {
                    Limit::AtLeast(self.large_segment_size.get() / MIB)
                } else {
                    Limit::of_size(is_new)
                };
                let size = reader.mebibytes(key, least)?;
                self.max_split_size = Some(size);
            }
            "max_non_split_rounding_mb" => {
                self.max_non_split_rounding = reader.mebibytes(key, Limit::of_size(is_new))?;
            }
            "large_segment_size_mb" => {
                self.large_segment_size = reader.mebibytes(key, Limit::MoreThan(10))?;
                self.has_large_segment_size = true;
            }
            "garbage_collection_threshold" => {
                self.garbage_collection_threshold =
                    reader.number(key, "a number between 0 and 1", |value| {
                        0.0 < value && value < 1.0
                    })?;
            }
            "per_process_memory_fraction" => {
                let fraction = reader.number(key, "a number from 0 to 1", |value| {
                    (0.0..=1.0).contains(&value)
                })?;
                self.memory_fraction = Some(fraction);
            }
            "roundup_power2_divisions" => self.read_divisions(key, reader)?,
            "expandable_segments" => self.expandable_segments = reader.boolean(key)?,
            "throw_on_cudamalloc_oom" => self.throw_on_cudamalloc_oom = reader.boolean(key)?,
            "expandable_segments_reserve" => {
                self.expandable_segments_reserve = reader.reserve(key)?;
            }
            "backend" => {
                self.backend = match reader.value()? {
                    "native" => Backend::Native,
                    "cudaMallocAsync" => Backend::CudaMallocAsync,
                    other => {
                        return Err(wrong(key, other, "`native` or `cudaMallocAsync`"));
                    }
                };
            }
            "expandable_segments_reserve_by_class" => {
                reader.skip_value()?;
                self.unmodeled.push("expandable_segments_reserve_by_class");
            }
            "graph_capture_record_stream_reuse" => {
                if reader.boolean(key)? {
                    self.unmodeled.push("graph_capture_record_stream_reuse");
                }
            }
            _ if is_switch(key) => {
                reader.boolean(key)?;
            }
            _ => reader.skip_value()?,
        }
        Ok(())
    }

    /// One number for all sizes, or a list by size: the first entry holds for all below it too, sizes between the
    /// entries are not rounded, and `>` stands for the sizes above the last.
    fn read_divisions(&mut self, key: &str, reader: &mut Reader<'_>) -> Result<(), SettingsError> {
        let release = reader.release;
        if !reader.accept("[") {
            let divisions = reader.power_of_two(key)?;
            self.roundup_power2_divisions = [divisions; N_DIVISIONS];
            return Ok(());
        }
        let mut last: Option<usize> = None;
        loop {
            if reader.accept(">") {
                reader.expect(":")?;
                let divisions = reader.divisions_in_list(key)?;
                // Up to 2.9 the last entry itself was overwritten.
                let from = last.unwrap_or(0) + usize::from(release.has_option_since(10));
                for slot in self.roundup_power2_divisions.iter_mut().skip(from) {
                    *slot = divisions;
                }
            } else {
                let mebibytes = reader.power_of_two(key)?;
                reader.expect(":")?;
                let divisions = reader.divisions_in_list(key)?;
                let slot = (mebibytes.ilog2() as usize).min(N_DIVISIONS - 1);
                if last.is_none() {
                    self.roundup_power2_divisions[..slot].fill(divisions);
                }
                self.roundup_power2_divisions[slot] = divisions;
                last = Some(slot);
            }
            if reader.accept("]") {
                return Ok(());
            }
            reader.expect(",")?;
        }
    }

    /// The size of the block that a request of `requested` bytes is rounded up to.
    pub fn block_size(&self, requested: Bytes, release: Release) -> Bytes {
        Bytes::new(crate::sizes::rounded(requested.get(), self, release))
    }

    /// Options that were set and are not followed, although they can change what the allocator does.
    pub fn unmodeled(&self) -> &[&'static str] {
        &self.unmodeled
    }

    /// [`Settings::max_non_split_rounding`], or the size of large segments when the text set that.
    pub(crate) fn non_split_rounding(&self) -> u64 {
        if self.has_large_segment_size {
            self.large_segment_size.get()
        } else {
            self.max_non_split_rounding.get()
        }
    }

    pub(crate) fn max_split(&self) -> u64 {
        self.max_split_size.map_or(u64::MAX, Bytes::get)
    }
}

/// The minor number of the release that brought an option, and `None` for what is none.
fn first_release(key: &str) -> Option<u16> {
    Some(match key {
        "max_split_size_mb"
        | "garbage_collection_threshold"
        | "roundup_power2_divisions"
        | "backend" => 0,
        "expandable_segments" => 1,
        "release_lock_on_cudamalloc"
        | "pinned_use_cuda_host_register"
        | "pinned_num_register_threads" => 2,
        "max_non_split_rounding_mb" | "pinned_use_background_threads" => 6,
        "graph_capture_record_stream_reuse" => 9,
        "per_process_memory_fraction" | "pinned_reserve_segment_size_mb" => 10,
        "large_segment_size_mb" => 11,
        "throw_on_cudamalloc_oom" | "pinned_free_catch_all" => 12,
        "pinned_max_round_threshold_mb" | "pinned_max_cached_size_mb" => 13,
        "expandable_segments_reserve" | "expandable_segments_reserve_by_class" => 15,
        _ => return None,
    })
}

/// Options that are on or off and change nothing of what is modeled.
fn is_switch(key: &str) -> bool {
    matches!(
        key,
        "release_lock_on_cudamalloc"
            | "pinned_use_cuda_host_register"
            | "pinned_use_background_threads"
            | "pinned_free_catch_all"
    )
}

fn wrong(key: &str, value: &str, expected: &str) -> SettingsError {
    SettingsError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    }
}

#[derive(Clone, Copy)]
enum Limit {
    MoreThan(u64),
    AtLeast(u64),
}

impl Limit {
    /// Sizes have to be above 20 MiB, which since 2.10 may be met exactly.
    fn of_size(may_be_met: bool) -> Self {
        if may_be_met {
            Self::AtLeast(20)
        } else {
            Self::MoreThan(20)
        }
    }

    fn allows(self, value: u64) -> bool {
        match self {
            Self::MoreThan(least) => value > least,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn says(self) -> String {
        match self {
            Self::MoreThan(least) => format!("a number above {least}"),
            Self::AtLeast(least) => format!("a number from {least} on"),
        }
    }
}

/// The text as words and marks; spaces count for nothing.
struct Reader<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
    release: Release,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, release: Release) -> Self {
        let tokens: Vec<&str> = text
            .split_inclusive([',', ':', '[', ']', ' '])
            .flat_map(|piece| {
                let word = piece.trim_end_matches([',', ':', '[', ']', ' ']);
                [word, &piece[word.len()..]]
            })
            .filter(|token| !token.is_empty() && *token != " ")
            .collect();
        Self {
            tokens: tokens.into_iter().peekable(),
            release,
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        self.tokens.next()
    }

    fn is_at_end(&mut self) -> bool {
        self.tokens.peek().is_none()
    }

    fn accept(&mut self, mark: &str) -> bool {
        self.tokens.next_if(|token| *token == mark).is_some()
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), SettingsError> {
        if self.accept(mark) {
            return Ok(());
        }
        Err(SettingsError::Syntax {
            found: self.next().unwrap_or_default().to_owned(),
            expected: mark,
        })
    }

    fn value(&mut self) -> Result<&'a str, SettingsError> {
        self.tokens
            .next_if(|token| ![",", ":", "[", "]"].contains(token))
            .ok_or_else(|| SettingsError::Syntax {
                found: self.tokens.peek().copied().unwrap_or_default().to_owned(),
                expected: "a value",
            })
    }

    /// A value or a list, whatever it holds.
    fn skip_value(&mut self) -> Result<(), SettingsError> {
        if !self.accept("[") {
            return self.value().map(drop);
        }
        while !self.accept("]") {
            if self.next().is_none() {
                return self.expect("]");
            }
        }
        Ok(())
    }

    fn boolean(&mut self, key: &str) -> Result<bool, SettingsError> {
        match self.value()? {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(wrong(key, other, "`True` or `False`")),
        }
    }

    fn mebibytes(&mut self, key: &str, limit: Limit) -> Result<Bytes, SettingsError> {
        let text = self.value()?;
        let count: Option<u64> = text.parse().ok();
        let count = count
            .filter(|count| limit.allows(*count))
            .ok_or_else(|| wrong(key, text, &limit.says()))?;
        Ok(Bytes::new(count.min(u64::MAX / MIB) * MIB))
    }

    fn number(
        &mut self,
        key: &str,
        expected: &str,
        is_right: impl Fn(f64) -> bool,
    ) -> Result<f64, SettingsError> {
        let text = self.value()?;
        text.parse()
            .ok()
            .filter(|value| is_right(*value))
            .ok_or_else(|| wrong(key, text, expected))
    }

    fn power_of_two(&mut self, key: &str) -> Result<u64, SettingsError> {
        let text = self.value()?;
        text.parse()
            .ok()
            .filter(|value: &u64| value.is_power_of_two())
            .ok_or_else(|| wrong(key, text, "a power of two"))
    }

    /// In a list 0 stands for "not rounded", since 2.4.
    fn divisions_in_list(&mut self, key: &str) -> Result<u64, SettingsError> {
        let may_be_zero = self.release.has_option_since(4);
        if may_be_zero && self.accept("0") {
            return Ok(0);
        }
        self.power_of_two(key)
    }

    fn reserve(&mut self, key: &str) -> Result<Reserve, SettingsError> {
        const GIB: u64 = 1 << 30;
        let text = self.value()?;
        let expected = "a share of the card such as `0.5`, or a size such as `8G`";
        if let Some(gibibytes) = text.strip_suffix('G') {
            let count: Option<u64> = gibibytes.parse().ok();
            return count
                .filter(|count| *count > 0)
                .map(|count| Reserve::Bytes(Bytes::new(count.min(u64::MAX / GIB) * GIB)))
                .ok_or_else(|| wrong(key, text, expected));
        }
        text.parse()
            .ok()
            .filter(|share| *share > 0.0)
            .map(Reserve::Fraction)
            .ok_or_else(|| wrong(key, text, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    fn check(release_text: &str, text: &str, expected: impl Fn(&mut Settings)) {
        let mut settings = Settings::default();
        expected(&mut settings);
        assert_eq!(
            Settings::parse(text, release(release_text)),
            Ok(settings),
            "{text}"
        );
    }

    fn check_error(release_text: &str, text: &str, expected: &str) {
        let error = Settings::parse(text, release(release_text)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn reads_what_people_set() {
        check("2.0", "", |_| ());
        check("2.8", "expandable_segments:True", |s| {
            s.expandable_segments = true;
        });
        check("2.8", " max_split_size_mb : 128 , backend:native", |s| {
            s.max_split_size = Some(Bytes::from_mib(128));
        });
        check("2.8", "garbage_collection_threshold:0.6,", |s| {
            s.garbage_collection_threshold = 0.6;
        });
        check(
            "2.12",
            "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5",
            |s| {
                s.throw_on_cudamalloc_oom = true;
                s.memory_fraction = Some(0.5);
            },
        );
        check("2.15", "expandable_segments_reserve:8G", |s| {
            s.expandable_segments_reserve = Reserve::Bytes(Bytes::from_gib(8));
        });
    }

    #[test]
    fn what_is_not_followed_is_named() {
        let named = |text| Settings::parse(text, release("2.15")).unwrap().unmodeled;
        assert_eq!(named("graph_capture_record_stream_reuse:False"), [""; 0]);
        assert_eq!(
            named("graph_capture_record_stream_reuse:True"),
            ["graph_capture_record_stream_reuse"]
        );
    }

    #[test]
    fn divisions_are_one_number_or_a_list() {
        check("2.8", "roundup_power2_divisions:4", |s| {
            s.roundup_power2_divisions = [4; 16];
        });
        check("2.8", "roundup_power2_divisions:[4:8,16:2]", |s| {
            s.roundup_power2_divisions[..3].fill(8);
            s.roundup_power2_divisions[4] = 2;
        });
        // Up to 2.9 `>` takes the last entry with it.
        check("2.9", "roundup_power2_divisions:[4:8,16:2,>:1]", |s| {
            s.roundup_power2_divisions[..3].fill(8);
            s.roundup_power2_divisions[4..].fill(1);
        });
        check("2.10", "roundup_power2_divisions:[4:8,16:2,>:1]", |s| {
            s.roundup_power2_divisions[..3].fill(8);
            s.roundup_power2_divisions[4] = 2;
            s.roundup_power2_divisions[5..].fill(1);
        });
    }

    #[test]
    fn each_reading_resets_three_options() {
        let mut settings = Settings::parse(
            "max_split_size_mb:64,garbage_collection_threshold:0.5,roundup_power2_divisions:2,expandable_segments:True",
            release("2.8"),
        )
        .unwrap();
        settings.apply("", release("2.8")).unwrap();
        let expected = Settings {
            expandable_segments: true,
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn refuses_what_the_release_refuses() {
        check_error(
            "2.0",
            "expandable_segments:True",
            "PyTorch 2.0 has no allocator option `expandable_segments`",
        );
        check_error(
            "2.9",
            "max_split_size_mb:20",
            "`max_split_size_mb` of the allocator's settings takes a number above 20, not `20`",
        );
        check("2.10", "max_split_size_mb:20", |s| {
            s.max_split_size = Some(Bytes::from_mib(20));
        });
        check_error(
            "2.8",
            "expandable_segments:true",
            "`expandable_segments` of the allocator's settings takes `True` or `False`, not `true`",
        );
        check_error(
            "2.8",
            "expandable_segments",
            "the allocator's settings have `` where `:` is due",
        );
        check_error(
            "2.8",
            "backend:native expandable_segments:True",
            "the allocator's settings have `expandable_segments` where `,` is due",
        );
        check_error(
            "2.8",
            "roundup_power2_divisions:[3:4]",
            "`roundup_power2_divisions` of the allocator's settings takes a power of two, not `3`",
        );
        check_error(
            "2.8",
            "roundup_power2_divisions:[4:8",
            "the allocator's settings have `` where `,` is due",
        );
    }
}
