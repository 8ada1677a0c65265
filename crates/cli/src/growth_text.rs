//! Growth as people read it: the runs, the law through them, and both ends of what fits.

use std::fmt::{self, Write};

use oomproof_analysis::Law;
use oomproof_units::Bytes;
use owo_colors::OwoColorize;

use crate::commands::growth::{Growth, Point, word};

/// The part of the report below the verdict.
pub(crate) fn render(grown: &[Growth]) -> String {
    let mut text = String::new();
    for growth in grown {
        write(&mut text, growth).expect("a String takes all that is written to it");
    }
    text
}

fn write(out: &mut String, growth: &Growth) -> fmt::Result {
    let own = match growth.own {
        Some(own) => format!(", {own} in the script"),
        None => String::new(),
    };
    let title = format!("growth with {} ({}{own})", growth.name, growth.set_by);
    writeln!(out, "\n{}", title.bold())?;
    if !growth.points.is_empty() {
        writeln!(
            out,
            "  {:>10}{:>14}{:>14}{:>16}",
            growth.name, "allocated", "reserved", "with context"
        )?;
    }
    for point in &growth.points {
        let Point {
            value,
            allocated_bytes,
            reserved_bytes,
            process_bytes,
            ..
        } = point;
        writeln!(
            out,
            "  {value:>10}{allocated_bytes:>14}{reserved_bytes:>14}{process_bytes:>16}  {}",
            word(point.verdict)
        )?;
    }
    if let Some(law) = &growth.law {
        writeln!(out, "  {}", sentence(law, &growth.name))?;
    }
    match (growth.largest_fitting, growth.smallest_not_fitting) {
        (Some(fits), Some(too_much)) => writeln!(
            out,
            "  the largest that fits is {fits}{}; {too_much} does not fit; both were run",
            if too_much == fits + 1 {
                ""
            } else {
                " of those that were run"
            }
        )?,
        (Some(fits), None) => writeln!(
            out,
            "  {fits} fits, and was run; nothing larger was seen not to fit"
        )?,
        (None, Some(too_much)) => writeln!(
            out,
            "  {too_much} does not fit, and was run; nothing smaller was seen to fit"
        )?,
        (None, None) => {}
    }
    match &growth.ended {
        Some(ended) => writeln!(out, "  not looked further: {ended}"),
        None => Ok(()),
    }
}

fn sentence(law: &Law, name: &str) -> String {
    let Law {
        constant_bytes,
        per_unit_bytes,
        per_unit_squared_bytes,
        deviation_bytes,
    } = *law;
    let mut sentence = format!(
        "peak allocated = {} + {} x {name}",
        signed(constant_bytes),
        signed(per_unit_bytes)
    );
    if per_unit_squared_bytes != 0.0 {
        let _ = write!(sentence, " + {per_unit_squared_bytes:.1} B x {name}^2");
    }
    match deviation_bytes {
        0 => sentence + ", exactly at the runs it is from",
        deviation => {
            let _ = write!(
                sentence,
                ", to {} at the runs it is from",
                Bytes::new(deviation)
            );
            sentence
        }
    }
}

fn signed(bytes: i64) -> String {
    let size = Bytes::new(bytes.unsigned_abs());
    if bytes < 0 {
        format!("-{size}")
    } else {
        size.to_string()
    }
}
