//! A text and a record of the same program, held against each other. The same figures to the last printed digit are the
//! same moment; anything else is another moment, whose lines tell who holds memory and whose sums are not the text's.

use oomproof_units::Bytes;
use serde::Serialize;

use crate::figures::Figures;

/// What came with the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A memory snapshot of PyTorch.
    Snapshot,
    /// The profile of a run on the virtual GPU.
    Run,
}

/// How a text's figures agree with a record's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// What the text was held against.
    pub record: RecordKind,
    /// Whether it is the same moment: at least two figures can be compared, and all agree.
    pub same_moment: bool,
    /// The figures that both have.
    pub compared: Vec<Compared>,
}

/// One figure that both have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Its name among the figures of a text.
    pub figure: &'static str,
    /// The text's, to its two decimals.
    pub text_bytes: Bytes,
    /// The record's.
    pub record_bytes: Bytes,
    /// Whether the record's is printed as the text has it.
    pub agrees: bool,
}

impl Agreement {
    /// Compares the figures that both have.
    pub(crate) fn of(record: RecordKind, text: &Figures, recorded: &Figures) -> Self {
        let pairs = [
            (
                "tried_bytes",
                text.tried_bytes,
                recorded.tried_bytes.map(segment),
            ),
            ("total_bytes", text.total_bytes, recorded.total_bytes),
            ("free_bytes", text.free_bytes, recorded.free_bytes),
            (
                "allocated_bytes",
                text.allocated_bytes,
                recorded.allocated_bytes,
            ),
            (
                "reserved_bytes",
                text.reserved_bytes,
                recorded.reserved_bytes,
            ),
        ];
        let compared: Vec<Compared> = pairs
            .into_iter()
            .filter_map(|(figure, text, record)| {
                let (text_bytes, record_bytes) = (text?, record?);
                Some(Compared {
                    figure,
                    text_bytes,
                    record_bytes,
                    agrees: printed_alike(text_bytes, record_bytes),
                })
            })
            .collect();
        let of_moment = compared.iter().filter(|each| each.figure != "total_bytes");
        Self {
            record,
            same_moment: of_moment.clone().count() >= 2
                && of_moment.clone().all(|each| each.agrees),
            compared,
        }
    }

    /// How many figures agree.
    pub(crate) fn n_agreeing(&self) -> usize {
        self.compared.iter().filter(|each| each.agrees).count()
    }

    /// What a reader has to know of it; `None` for the same moment.
    pub(crate) fn sentence(&self) -> Option<String> {
        if self.same_moment {
            return None;
        }
        let record = match self.record {
            RecordKind::Snapshot => "snapshot",
            RecordKind::Run => "profile",
        };
        let apart = self.compared.iter().find(|each| !each.agrees);
        Some(match apart {
            Some(each) => format!(
                "The {record} is of another moment ({} is {} there and {} in the text), so its lines show who holds memory, and its sums are not those of the text.",
                each.figure.trim_end_matches("_bytes"),
                each.record_bytes,
                each.text_bytes,
            ),
            None => format!(
                "Whether the {record} is of the same moment cannot be told, because the text has too few figures to compare."
            ),
        })
    }
}

/// What PyTorch's allocator asks the driver for when a tensor of this size finds no room, which is what texts name.
fn segment(size: Bytes) -> Bytes {
    let mib = Bytes::from_mib;
    if size <= mib(1) {
        mib(2)
    } else if size < mib(10) {
        mib(20)
    } else {
        size.round_up_to(mib(2))
    }
}

/// Texts have two decimals of the largest unit that fits; sums of rounded figures are off by two of the last digit.
fn printed_alike(text: Bytes, exact: Bytes) -> bool {
    let unit = match text.get() {
        0x4000_0000.. => 1_u64 << 30,
        0x10_0000.. => 1 << 20,
        0x400.. => 1 << 10,
        _ => 1,
    };
    let apart = exact.signed_difference(text).unsigned_abs();
    apart <= unit.div_ceil(50)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(tried: u64, free: u64, allocated: u64) -> Figures {
        Figures {
            tried_bytes: Some(Bytes::from_mib(tried)),
            free_bytes: Some(Bytes::from_mib(free)),
            allocated_bytes: Some(Bytes::from_mib(allocated)),
            ..Figures::default()
        }
    }

    fn check(recorded: &Figures, same_moment: bool, sentence: Option<&str>) {
        let text = figures(20, 300, 4000);
        let agreement = Agreement::of(RecordKind::Snapshot, &text, recorded);
        assert_eq!(agreement.same_moment, same_moment);
        let said = agreement.sentence();
        assert_eq!(said.is_some(), sentence.is_some());
        assert!(
            said.unwrap_or_default()
                .contains(sentence.unwrap_or_default())
        );
    }

    #[test]
    fn the_same_figures_are_the_same_moment() {
        check(&figures(4, 300, 4000), true, None);
        check(&figures(20, 300, 4001), true, None);
        check(
            &figures(4, 300, 3000),
            false,
            Some("allocated is 2.93 GiB there and 3.91 GiB"),
        );
        check(&figures(40, 300, 4000), false, Some("tried is 40.00 MiB"));
        let nothing = Figures::default();
        check(&nothing, false, Some("cannot be told"));
    }
}
