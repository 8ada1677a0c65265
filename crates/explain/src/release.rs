//! The releases of PyTorch that may have written a text. Advice has to be right for the release that failed, and a
//! pasted message rarely names it; its wording mostly narrows it down.

use serde::{Serialize, Serializer};

/// A release: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32);

/// The newest release whose texts are known.
pub(crate) const NEWEST: Release = Release(2, 15);
pub(crate) const OLDEST: Release = Release(0, 1);

impl std::str::FromStr for Release {
    type Err = ();

    /// Reads `2.6`, `2.6.0` or `2.6.0+cu124`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or(())
    }
}

/// All releases from the first to the second, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Releases {
    /// The oldest that may have written the text.
    pub oldest: Release,
    /// The newest; [`Releases::is_open`] says whether later ones may have, too.
    pub newest: Release,
}

impl Serialize for Releases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words())
    }
}

impl Default for Releases {
    fn default() -> Self {
        Self {
            oldest: OLDEST,
            newest: NEWEST,
        }
    }
}

impl Releases {
    /// Exactly one release.
    pub fn exactly(release: Release) -> Self {
        Self {
            oldest: release,
            newest: release,
        }
    }

    /// Whether releases newer than all that are known may have written the text.
    pub fn is_open(&self) -> bool {
        self.newest >= NEWEST
    }

    /// Whether nothing is known.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all of them are older than this one.
    pub(crate) fn are_before(&self, release: Release) -> bool {
        self.newest < release
    }

    /// `2.2 to 2.3`, `2.4 or later`, `2.1`.
    pub fn words(&self) -> String {
        let (oldest, newest) = (self.oldest, self.newest);
        if oldest == newest {
            return format!("{}.{}", oldest.0, oldest.1);
        }
        match (oldest == OLDEST, self.is_open()) {
            (true, true) => "any".to_owned(),
            (true, false) => format!("{}.{} or older", newest.0, newest.1),
            (false, true) => format!("{}.{} or later", oldest.0, oldest.1),
            (false, false) => format!("{}.{} to {}.{}", oldest.0, oldest.1, newest.0, newest.1),
        }
    }

    fn since(self, release: Release) -> Self {
        self.within(release, NEWEST)
    }

    fn until(self, release: Release) -> Self {
        self.within(OLDEST, release)
    }

    /// Narrows it down; what contradicts the rest is left out.
    fn within(self, oldest: Release, newest: Release) -> Self {
        let narrowed = Self {
            oldest: self.oldest.max(oldest),
            newest: self.newest.min(newest),
        };
        if narrowed.oldest <= narrowed.newest {
            narrowed
        } else {
            self
        }
    }
}

/// What words of a text say about its release, in squeezed text.
const WORDS: &[(&str, Release, Release)] = &[
    ("cached)", Release(1, 0), Release(1, 3)),
    ("reservedintotalbypytorch", Release(1, 4), Release(2, 0)),
    (
        "ifreservedmemoryis>>allocated",
        Release(1, 10),
        Release(2, 0),
    ),
    ("totalcapactyof", Release(2, 1), Release(2, 1)),
    ("totalcapacityof", Release(2, 2), NEWEST),
    ("allocatedinprivatepools", Release(2, 4), NEWEST),
    ("settingpytorch_alloc_conf", Release(2, 10), Release(2, 10)),
    ("environment-variables)", Release(2, 2), Release(2, 10)),
    ("optimizing-memory-usage-with", Release(2, 11), NEWEST),
    ("preemptivelyreject", Release(2, 12), NEWEST),
    ("torch.cuda.outofmemoryerror", Release(1, 13), Release(2, 4)),
    ("torch.outofmemoryerror", Release(2, 4), NEWEST),
    ("torch.acceleratorerror", Release(2, 8), NEWEST),
    ("expandable-segmentreserve", Release(2, 15), NEWEST),
];

/// The releases that may have written this squeezed text, of which `named` is what the rest of the log says.
pub(crate) fn of_text(text: &str, named: Option<Release>) -> Releases {
    if let Some(release) = named {
        return Releases::exactly(release);
    }
    WORDS
        .iter()
        .filter(|(word, _, _)| text.contains(word))
        .fold(Releases::default(), |known, &(_, oldest, newest)| {
            known.since(oldest).until(newest)
        })
}

/// The release that a log names, as in `torch==2.6.0` or `PyTorch version: 2.1.2`.
pub(crate) fn named(squeezed: &str) -> Option<Release> {
    let labels = [
        "torch==",
        "pytorchversion:",
        "torch.__version__:",
        "torchversion:",
        "torch:",
    ];
    labels.iter().find_map(|label| {
        squeezed
            .match_indices(label)
            .find_map(|(at, _)| parse(&squeezed[at + label.len()..]))
    })
}

/// The release that this begins with.
pub(crate) fn parse(text: &str) -> Option<Release> {
    let mut numbers = text.splitn(3, '.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    let minor = minor[..digits].parse().ok()?;
    let plausible = (0..=9).contains(&major) && minor <= 99;
    plausible.then_some(Release(major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, words: &str) {
        assert_eq!(of_text(text, named(text)).words(), words, "{text}");
    }

    #[test]
    fn wording_dates_a_text() {
        check("4.01gibcached)", "1.0 to 1.3");
        check("4.01gibreservedintotalbypytorch)", "1.4 to 2.0");
        check(
            "torch.cuda.outofmemoryerror:1gibreservedintotalbypytorch)",
            "1.13 to 2.0",
        );
        check("totalcapactyof", "2.1");
        check("torch.outofmemoryerror:totalcapacityof", "2.4 or later");
        check("torch.cuda.outofmemoryerror:totalcapacityof", "2.2 to 2.4");
        check("cudaerror:outofmemory", "any");
        check("torch==2.6.0+cu124,cudaerror:outofmemory", "2.6");
        check("pytorchversion:1.12.1", "1.12");
    }
}
