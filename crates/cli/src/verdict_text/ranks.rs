//! The ranks of a run: one line when they are alike, a table when they are not.

use std::fmt::{self, Write};

use oomproof_analysis::{Answer, Rank, Verdict};
use oomproof_units::Bytes;

use super::{heading, write_wrapped};

/// Differences below this are those of a few blocks.
const SMALL: Bytes = Bytes::from_mib(2);
/// Ranks whose sizes differ by less than one part in this many are alike.
const ALIKE: u64 = 100;

/// By how much alike ranks differ; `None` when they are not alike.
fn spread(ranks: &[Rank]) -> Option<Bytes> {
    let first = ranks.first()?;
    let mut widest = Bytes::ZERO;
    let figures: [fn(&Rank) -> Bytes; 3] = [
        |rank| rank.allocated_bytes,
        |rank| rank.reserved_bytes,
        |rank| rank.process_bytes.likely,
    ];
    for figure in figures {
        let most = ranks.iter().map(figure).max()?;
        let least = ranks.iter().map(figure).min()?;
        let difference = most - least;
        if difference > SMALL && difference.get() > most.get() / ALIKE {
            return None;
        }
        widest = widest.max(difference);
    }
    ranks
        .iter()
        .all(|rank| rank.verdict == first.verdict)
        .then_some(widest)
}

/// What the first line says of whose figures follow.
pub(super) fn whose(verdict: &Verdict) -> String {
    match (&verdict.ranks, verdict.rank) {
        (Some(ranks), Some(rank)) if ranks.len() > 1 => match spread(ranks) {
            Some(_) if matches!(verdict.verdict, Answer::Fits | Answer::Tight) => {
                format!("each of {} ranks: ", ranks.len())
            }
            _ => format!("rank {rank} of {}: ", ranks.len()),
        },
        _ => String::new(),
    }
}

/// The section on ranks.
pub(super) fn write(out: &mut String, verdict: &Verdict) -> fmt::Result {
    let Some(ranks) = verdict.ranks.as_ref().filter(|ranks| ranks.len() > 1) else {
        return Ok(());
    };
    heading(out, "ranks")?;
    if let Some(spread) = spread(ranks) {
        let within = if spread == Bytes::ZERO {
            "to the byte".to_owned()
        } else {
            format!("within {spread}")
        };
        return writeln!(out, "  all {} ranks alike {within}", ranks.len());
    }
    writeln!(
        out,
        "  {:>4} {:>6}{:>14}{:>14}{:>14}  ",
        "rank", "device", "allocated", "reserved", "process"
    )?;
    for rank in ranks {
        let mark = if verdict.rank == Some(rank.rank) {
            ", shown here"
        } else {
            ""
        };
        writeln!(
            out,
            "  {:>4} {:>6}{:>14}{:>14}{:>14}  {}{mark}",
            rank.rank,
            rank.device,
            rank.allocated_bytes,
            rank.reserved_bytes,
            rank.process_bytes.likely,
            word(rank.verdict),
        )?;
    }
    for rank in ranks.iter().filter(|rank| verdict.rank != Some(rank.rank)) {
        for reason in &rank.reasons {
            write_wrapped(out, "  ", &format!("rank {}: {}", rank.rank, reason.text))?;
        }
    }
    Ok(())
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Fits => "fits",
        Answer::Tight => "tight",
        Answer::DoesNotFit => "does not fit",
        Answer::Unknown => "unknown",
    }
}
