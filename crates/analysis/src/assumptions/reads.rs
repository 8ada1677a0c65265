//! What the host read of device memory whose value is not known. One line of a script may read a million times, so reads
//! are told once for each line, origin and reason.

use std::collections::HashMap;

use oomproof_profile::{Basis, UnknownRead};

use crate::legend::Legend;
use crate::timeline::Timeline;
use crate::verdict::Assumption;

/// What reads have in common that are told together.
type Key = (u32, Basis, u32, u32, u32);

/// Reads by one line for one reason.
struct Reads {
    first: UnknownRead,
    count: u64,
    size: (u64, u64),
    given: Option<u64>,
}

/// Reads in the order of their first.
pub(super) fn assumed_reads(timeline: &Timeline) -> Vec<Assumption> {
    let mut groups: Vec<Reads> = Vec::new();
    let mut index = HashMap::new();
    let mut of_levers: Vec<(&str, u64)> = Vec::new();
    for read in &timeline.unknown_reads {
        // What a lever reads, the script without the plan does not.
        if let Some(lever) = timeline.legend.lever(read.site) {
            match of_levers.iter_mut().find(|(name, _)| *name == lever) {
                Some((_, count)) => *count += 1,
                None => of_levers.push((lever, 1)),
            }
            continue;
        }
        let UnknownRead { size, given, .. } = *read;
        let group = *index.entry(key(read)).or_insert(groups.len());
        if let Some(reads) = groups.get_mut(group) {
            reads.count += 1;
            reads.size = (reads.size.0.min(size), reads.size.1.max(size));
            reads.given = reads.given.filter(|before| *before == given);
        } else {
            groups.push(Reads {
                first: *read,
                count: 1,
                size: (size, size),
                given: Some(given),
            });
        }
    }
    let by_script = groups.iter().map(|reads| Assumption {
        kind: kind(reads.first.basis).to_owned(),
        text: reads.sentence(&timeline.legend),
        r#where: timeline.legend.place(reads.first.site),
    });
    by_script
        .chain(of_levers.into_iter().map(by_lever))
        .collect()
}

fn by_lever((lever, count): (&str, u64)) -> Assumption {
    let times = match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    Assumption {
        kind: "plan_reads".to_owned(),
        text: format!(
            "the plan's `{lever}` read device memory whose values are not known {times}; the script itself does not"
        ),
        r#where: None,
    }
}

fn key(read: &UnknownRead) -> Key {
    match read.basis {
        // What hangs on an assumption is that, whichever kernel computed with it.
        Basis::Policy | Basis::Health => {
            (read.site, read.basis, 0, read.assumption, read.assumed_at)
        }
        Basis::Data => (read.site, read.basis, 0, 0, 0),
        basis => (read.site, basis, read.origin, 0, 0),
    }
}

fn kind(basis: Basis) -> &'static str {
    match basis {
        Basis::Plain => "unknown_value",
        Basis::Number => "unknown_number",
        Basis::Data => "unknown_data",
        Basis::Policy => "assumed_value",
        Basis::Health => "assumed_health",
        Basis::User => "given_value",
    }
}

impl Reads {
    fn sentence(&self, legend: &Legend) -> String {
        let size = match self.size {
            (1, 1) => "1 byte".to_owned(),
            (low, high) if low == high => format!("{low} bytes"),
            (low, high) => format!("{low} to {high} bytes"),
        };
        let times = match self.count {
            1 => String::new(),
            count => format!("; {count} times"),
        };
        let read = &self.first;
        let origin = legend
            .text(read.origin)
            .map_or_else(String::new, |name| format!(" (last written by {name})"));
        let text = match (read.basis, legend.text(read.assumption)) {
            (Basis::Policy | Basis::Health, Some(assumption)) => {
                let place = legend
                    .place(read.assumed_at)
                    .filter(|_| read.assumed_at != read.site)
                    .map_or_else(String::new, |place| format!(" at {place}"));
                format!("{assumption}{place}, which the value that was read hangs on ({size})")
            }
            (Basis::Number, _) => format!(
                "read {size} of unknown numbers{origin}, {}",
                match self.given {
                    Some(bits) => format!("{} was given", number(bits, self.size.0)),
                    None => format!(
                        "numbers that fall slowly from {} were given",
                        number(read.given, self.size.0)
                    ),
                }
            ),
            (Basis::Data, _) => format!("{size} of unknown data were copied to the host"),
            (Basis::User, _) => format!(
                "read {size} of unknown device memory{origin}, and was given what `--assume` says"
            ),
            _ => format!(
                "read {size} of unknown device memory{origin}, {} assumed",
                match self.given {
                    Some(small @ ..=255) => format!("{small} was"),
                    Some(bits) => format!("{bits:#x} was"),
                    None => "various values were".to_owned(),
                }
            ),
        };
        format!("{text}{times}")
    }
}

/// The first number among the bytes that were given; the device gives ones at first.
fn number(bits: u64, size: u64) -> String {
    let ones = [u64::from(1f32.to_bits()), 1f64.to_bits(), 0x3f80, 0x3c00];
    let first = |one: &u64| {
        let width = match one {
            ..=0xffff => 16,
            ..=0xffff_ffff => 32,
            _ => 64,
        };
        size.saturating_mul(8) >= width && bits & (u64::MAX >> (64 - width)) == *one
    };
    if ones.iter().any(first) {
        "1.0".to_owned()
    } else if size == 4 {
        f32::from_bits(bits as u32).to_string()
    } else if size == 8 {
        f64::from_bits(bits).to_string()
    } else {
        format!("{bits:#x}")
    }
}
