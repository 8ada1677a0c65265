//! The bytes of device memory whose value is known, or was assumed.
//!
//! Most kernels are not executed, so most device memory has no value; what the host copied in, a fill, or small work on
//! known values wrote does. Known bytes are kept here, beside the address space rather than in it: a range nobody
//! wrote holds nothing, so a reused block can never show what an earlier tenant left, and a fill of many gigabytes
//! costs a few words.
//!
//! Between known and unknown there are assumed bytes: they stand in for a value that nobody can know, so that what is
//! computed from them makes sense, and they carry the assumption they hang on to whatever is computed from them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use oomproof_profile::Basis;

/// What assumed bytes hang on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assumption {
    /// The id of the text of the profile that says what was assumed.
    pub(crate) text: NonZeroU32,
    /// The source line that did the work whose result was assumed, 0 when unknown.
    pub(crate) site: u32,
    pub(crate) basis: Basis,
}

impl Assumption {
    /// A choice of what follows, stated by a text of the profile; `None` for 0, which is no text.
    pub(crate) fn stated_by(text: u32, site: u32) -> Option<Self> {
        let basis = Basis::Policy;
        NonZeroU32::new(text).map(|text| Self { text, site, basis })
    }

    /// The same, if it only says that nothing is broken.
    pub(crate) fn of_health(self) -> Self {
        Self {
            basis: Basis::Health,
            ..self
        }
    }
}

/// Bytes that have a value, and the assumption that they hang on, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) bytes: Vec<u8>,
    pub(crate) assumption: Option<Assumption>,
}

/// Repeating bytes of a fill: one element of at most 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    bytes: [u8; 16],
    len: u8,
}

impl Pattern {
    /// One element; `None` when it is empty or longer than 16 bytes.
    pub(crate) fn new(element: &[u8]) -> Option<Self> {
        if element.is_empty() || element.len() > 16 {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        Some(Self {
            bytes,
            len: element.len() as u8,
        })
    }

    fn at(self, offset: u64) -> u8 {
        self.bytes[(offset % u64::from(self.len)) as usize]
    }
}

#[derive(Clone, Debug)]
enum Data {
    /// `len` bytes from `start` on. Shared, so that copies and the parts around an overwritten piece cost no bytes.
    Bytes {
        bytes: Arc<Vec<u8>>,
        start: usize,
        len: usize,
    },
    /// `phase` is the offset into the pattern of the first byte.
    Fill {
        len: u64,
        pattern: Pattern,
        phase: u64,
    },
}

/// The contents of one range.
#[derive(Clone, Debug)]
struct Value {
    data: Data,
    assumption: Option<Assumption>,
}

/// A part shares the bytes of its whole unless it is smaller than this share of them, so that small leftovers do not
/// keep large wholes alive.
const SMALLEST_SHARE: usize = 8;

impl Value {
    fn len(&self) -> u64 {
        match &self.data {
            Data::Bytes { len, .. } => *len as u64,
            Data::Fill { len, .. } => *len,
        }
    }

    /// The part from `from` to `to`, counted from the start of this value.
    fn part(&self, from: u64, to: u64) -> Self {
        let len = to - from;
        let data = match &self.data {
            Data::Bytes { bytes, start, .. } => {
                let (start, len) = (start + from as usize, len as usize);
                if len < bytes.len() / SMALLEST_SHARE {
                    Data::Bytes {
                        bytes: Arc::new(bytes[start..start + len].to_vec()),
                        start: 0,
                        len,
                    }
                } else {
                    Data::Bytes {
                        bytes: Arc::clone(bytes),
                        start,
                        len,
                    }
                }
            }
            Data::Fill { pattern, phase, .. } => Data::Fill {
                len,
                pattern: *pattern,
                phase: phase + from,
            },
        };
        Self {
            data,
            assumption: self.assumption,
        }
    }

    fn copy_to(&self, from: u64, out: &mut [u8]) {
        match &self.data {
            Data::Bytes { bytes, start, .. } => {
                let start = start + from as usize;
                out.copy_from_slice(&bytes[start..start + out.len()]);
            }
            Data::Fill { pattern, phase, .. } => {
                for (index, byte) in out.iter_mut().enumerate() {
                    *byte = pattern.at(phase + from + index as u64);
                }
            }
        }
    }
}

/// All known bytes, as disjoint ranges.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    ranges: BTreeMap<u64, Value>,
}

impl Contents {
    /// Makes `[at, at + len)` unknown.
    pub(crate) fn forget(&mut self, at: u64, len: u64) {
        let end = at.saturating_add(len);
        if self.ranges.is_empty() || at >= end {
            return;
        }
        while let Some((&start, value)) = self.ranges.range(..end).next_back() {
            let value_end = start + value.len();
            if value_end <= at {
                break;
            }
            let before = (start < at).then(|| value.part(0, at - start));
            let after = (value_end > end).then(|| value.part(end - start, value_end - start));
            self.ranges.remove(&start);
            if let Some(before) = before {
                self.ranges.insert(start, before);
            }
            if let Some(after) = after {
                self.ranges.insert(end, after);
            }
        }
    }

    /// The bytes at `at` are now `bytes`.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.put(
            at,
            Known {
                bytes: bytes.to_vec(),
                assumption: None,
            },
        );
    }

    /// The bytes at `at` are now these, with the assumption they hang on.
    pub(crate) fn put(&mut self, at: u64, known: Known) {
        let len = known.bytes.len();
        self.forget(at, len as u64);
        if len > 0 {
            let data = Data::Bytes {
                bytes: Arc::new(known.bytes),
                start: 0,
                len,
            };
            let assumption = known.assumption;
            self.ranges.insert(at, Value { data, assumption });
        }
    }

    /// `len` bytes at `at` now repeat `pattern`.
    pub(crate) fn fill(&mut self, at: u64, len: u64, pattern: Pattern) {
        self.fill_assumed(at, len, pattern, None);
    }

    /// `len` bytes at `at` are now taken to repeat `pattern`.
    pub(crate) fn fill_assumed(
        &mut self,
        at: u64,
        len: u64,
        pattern: Pattern,
        assumption: Option<Assumption>,
    ) {
        self.forget(at, len);
        if len > 0 {
            let data = Data::Fill {
                len,
                pattern,
                phase: 0,
            };
            self.ranges.insert(at, Value { data, assumption });
        }
    }

    /// All that `other` knows is known here, too.
    pub(crate) fn overlay(&mut self, other: &Self) {
        for (start, value) in &other.ranges {
            self.forget(*start, value.len());
            self.ranges.insert(*start, value.clone());
        }
    }

    /// Start and length of each known range.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges
            .iter()
            .map(|(start, value)| (*start, value.len()))
    }

    /// `len` bytes at `to` are now what the ones at `from` were, known or not.
    pub(crate) fn copy(&mut self, from: u64, to: u64, len: u64) {
        let end = from.saturating_add(len);
        let known: Vec<(u64, Value)> = self
            .overlapping(from, end)
            .map(|(start, value)| {
                let first = start.max(from);
                let last = (start + value.len()).min(end);
                (first - from, value.part(first - start, last - start))
            })
            .collect();
        self.forget(to, len);
        for (offset, value) in known {
            self.ranges.insert(to + offset, value);
        }
    }

    /// Fills `out` with the bytes at `at`, leaving unknown ones as they are, and returns how many were unknown.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> u64 {
        let len = out.len() as u64;
        let end = at.saturating_add(len);
        let mut known = 0;
        for (start, value) in self.overlapping(at, end) {
            let first = start.max(at);
            let last = (start + value.len()).min(end);
            value.copy_to(
                first - start,
                &mut out[(first - at) as usize..(last - at) as usize],
            );
            known += last - first;
        }
        len - known
    }

    /// The known ones of the `len` bytes at `at`, each run with its offset from `at`.
    pub(crate) fn known_runs(&self, at: u64, len: u64) -> Vec<(u64, Vec<u8>)> {
        let end = at.saturating_add(len);
        self.overlapping(at, end)
            .map(|(start, value)| {
                let first = start.max(at);
                let last = (start + value.len()).min(end);
                let mut bytes = vec![0; (last - first) as usize];
                value.copy_to(first - start, &mut bytes);
                (first - at, bytes)
            })
            .collect()
    }

    /// How many of the `len` bytes at `at` are unknown.
    pub(crate) fn unknown(&self, at: u64, len: u64) -> u64 {
        let end = at.saturating_add(len);
        let known: u64 = self
            .overlapping(at, end)
            .map(|(start, value)| (start + value.len()).min(end) - start.max(at))
            .sum();
        len - known
    }

    /// The first assumption that any of the `len` bytes at `at` hang on.
    pub(crate) fn assumption(&self, at: u64, len: u64) -> Option<Assumption> {
        self.overlapping(at, at.saturating_add(len))
            .find_map(|(_, value)| value.assumption)
    }

    /// The `len` bytes at `at`, if all of them have a value.
    pub(crate) fn known(&self, at: u64, len: usize) -> Option<Known> {
        if self.unknown(at, len as u64) > 0 {
            return None;
        }
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes);
        let assumption = self.assumption(at, len as u64);
        Some(Known { bytes, assumption })
    }

    fn overlapping(&self, at: u64, end: u64) -> impl Iterator<Item = (u64, &Value)> {
        let first = self
            .ranges
            .range(..=at)
            .next_back()
            .filter(|(start, value)| *start + value.len() > at)
            .map_or(at, |(start, _)| *start);
        let last = if at < end { end } else { first };
        self.ranges
            .range(first..last)
            .map(|(start, value)| (*start, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads 16 bytes from address 0; unknown ones show as 255.
    fn view(contents: &Contents) -> [u8; 16] {
        let mut out = [255; 16];
        contents.read(0, &mut out);
        out
    }

    fn check(steps: impl Fn(&mut Contents), expected: [u8; 16]) {
        let mut contents = Contents::default();
        steps(&mut contents);
        assert_eq!(view(&contents), expected);
    }

    const U: u8 = 255;

    #[test]
    fn known_bytes_stay_where_they_were_put() {
        check(
            |c| c.write(2, &[1, 2, 3]),
            [U, U, 1, 2, 3, U, U, U, U, U, U, U, U, U, U, U],
        );
        check(
            |c| {
                c.write(0, &[1; 16]);
                c.forget(4, 4);
            },
            [1, 1, 1, 1, U, U, U, U, 1, 1, 1, 1, 1, 1, 1, 1],
        );
        check(
            |c| {
                c.fill(0, 6, Pattern::new(&[7, 8]).unwrap());
                c.forget(0, 1);
                c.copy(1, 10, 5);
            },
            [U, 8, 7, 8, 7, 8, U, U, U, U, 8, 7, 8, 7, 8, U],
        );
        check(
            |c| {
                c.write(0, &[1, 2, 3, 4]);
                c.copy(0, 2, 4);
            },
            [1, 2, 1, 2, 3, 4, U, U, U, U, U, U, U, U, U, U],
        );
    }

    #[test]
    fn assumptions_go_where_their_bytes_go() {
        let assumption = Assumption::stated_by(7, 1);
        let mut contents = Contents::default();
        contents.write(0, &[1; 8]);
        contents.put(
            8,
            Known {
                bytes: vec![2; 8],
                assumption,
            },
        );
        assert_eq!(contents.assumption(0, 8), None);
        assert_eq!(contents.assumption(0, 9), assumption);
        contents.copy(12, 100, 2);
        assert_eq!(
            contents.known(100, 2),
            Some(Known {
                bytes: vec![2, 2],
                assumption
            })
        );
        contents.fill_assumed(200, 1 << 40, Pattern::new(&[1]).unwrap(), assumption);
        contents.forget(300, 1);
        assert_eq!(contents.assumption(1 << 30, 1), assumption);
        assert_eq!(contents.known(299, 2), None);
        contents.write(200, &[1; 8]);
        assert_eq!(contents.assumption(200, 8), None, "written over");
    }

    #[test]
    fn a_huge_fill_costs_nothing() {
        let mut contents = Contents::default();
        contents.fill(0, 1 << 40, Pattern::new(&[0]).unwrap());
        assert_eq!(contents.unknown(1 << 30, 1 << 30), 0);
    }

    proptest! {
        /// The ranges agree with a plain array of optional bytes after any sequence of operations.
        #[test]
        fn agrees_with_an_array(steps in proptest::collection::vec((0u8..4, 0u64..64, 0u64..32, 0u64..64, any::<u8>()), 1..40)) {
            let mut contents = Contents::default();
            let mut model = [None; 128];
            for (what, at, len, to, value) in steps {
                match what {
                    0 => {
                        contents.forget(at, len);
                        model[at as usize..(at + len) as usize].fill(None);
                    }
                    1 => {
                        let bytes: Vec<u8> = (0..len).map(|i| value.wrapping_add(i as u8)).collect();
                        contents.write(at, &bytes);
                        for (i, b) in bytes.iter().enumerate() { model[at as usize + i] = Some(*b); }
                    }
                    2 => {
                        contents.fill(at, len, Pattern::new(&[value, 1, 2]).unwrap());
                        for i in 0..len as usize { model[at as usize + i] = Some([value, 1, 2][i % 3]); }
                    }
                    _ => {
                        contents.copy(at, to, len);
                        model.copy_within(at as usize..(at + len) as usize, to as usize);
                    }
                }
            }
            for (address, expected) in model.iter().enumerate() {
                let mut out = [0];
                let unknown = contents.read(address as u64, &mut out);
                prop_assert_eq!(expected.is_none(), unknown == 1);
                if let Some(byte) = expected { prop_assert_eq!(*byte, out[0]); }
            }
        }
    }
}
