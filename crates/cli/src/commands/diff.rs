//! `oomproof diff`: what is in use in one snapshot and was not in another.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use oomproof_replay::{
    Basis, Difference, DifferenceRow, Growth, Knowledge, Place, Replay, difference, site,
};
use oomproof_snapshot::Snapshot;
use oomproof_units::Bytes;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer;
use crate::replay_text::growth_lines;
use crate::snapshot_file;

/// Arguments of `oomproof diff`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DiffArgs {
    /// The earlier snapshot
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The later snapshot
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// How many source lines to print
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..))]
    pub top: u16,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The result in the form of its JSON.
#[derive(Serialize)]
struct Form {
    schema: u32,
    before: String,
    after: String,
    /// `blocks` or `sums`.
    basis: &'static str,
    before_bytes: Bytes,
    after_bytes: Bytes,
    new_bytes: Bytes,
    gone_bytes: Bytes,
    rows: Vec<RowForm>,
    growth: Vec<GrowthForm>,
}

#[derive(Serialize)]
struct RowForm {
    new_bytes: Bytes,
    new_blocks: u64,
    gone_bytes: Bytes,
    gone_blocks: u64,
    site: Option<PlaceForm>,
    stack: Vec<PlaceForm>,
}

/// A place in the source.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlaceForm {
    file: String,
    line: u32,
    function: String,
}

impl From<&Place> for PlaceForm {
    fn from(place: &Place) -> Self {
        Self {
            file: place.file.clone(),
            line: place.line,
            function: place.function.clone(),
        }
    }
}

/// Steady growth in one trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GrowthForm {
    device: u32,
    bytes_per_round: Bytes,
    rounds: usize,
    sure: bool,
    marker: Option<PlaceForm>,
    sites: Vec<SiteForm>,
}

#[derive(Clone, Debug, Serialize)]
struct SiteForm {
    bytes_per_round: Bytes,
    site: Option<PlaceForm>,
}

impl GrowthForm {
    pub(crate) fn of(device: u32, growth: &Growth) -> Self {
        let left_by = growth.left_by.iter();
        Self {
            device,
            bytes_per_round: growth.per_round,
            rounds: growth.n_rounds,
            sure: growth.is_sure,
            marker: site(&growth.marker).map(PlaceForm::from),
            sites: left_by
                .map(|(stack, bytes)| SiteForm {
                    bytes_per_round: *bytes,
                    site: site(stack).map(PlaceForm::from),
                })
                .collect(),
        }
    }
}

/// Compares and prints.
pub(crate) fn diff(args: &DiffArgs) -> Result<Exit, Failure> {
    let before = snapshot_file::read(&args.before)?;
    let after = snapshot_file::read(&args.after)?;
    let found = difference(&before, &after);
    let growing = growing(&after);
    if args.json {
        printer::json(&form(args, &found, &growing))?;
    } else {
        printer::data(&text(&found, &growing, usize::from(args.top)))?;
    }
    Ok(Exit::Done)
}

/// Growth inside the trace of the later snapshot, when it has one.
fn growing(snapshot: &Snapshot) -> Vec<(u32, Growth)> {
    let Ok(replay) = Replay::new(snapshot, &Knowledge::default()) else {
        return Vec::new();
    };
    let devices = replay.devices().iter();
    devices
        .filter_map(|device| Some((device.device(), device.growth()?.clone())))
        .collect()
}

fn form(args: &DiffArgs, found: &Difference, growing: &[(u32, Growth)]) -> Form {
    Form {
        schema: 1,
        before: args.before.display().to_string(),
        after: args.after.display().to_string(),
        basis: match found.basis {
            Basis::Blocks => "blocks",
            Basis::Sums => "sums",
        },
        before_bytes: found.before_bytes,
        after_bytes: found.after_bytes,
        new_bytes: found.new_bytes(),
        gone_bytes: found.gone_bytes(),
        rows: found.rows.iter().map(row_form).collect(),
        growth: growing
            .iter()
            .map(|(device, growth)| GrowthForm::of(*device, growth))
            .collect(),
    }
}

fn row_form(row: &DifferenceRow) -> RowForm {
    RowForm {
        new_bytes: row.new_bytes,
        new_blocks: row.new_blocks,
        gone_bytes: row.gone_bytes,
        gone_blocks: row.gone_blocks,
        site: site(&row.stack).map(PlaceForm::from),
        stack: row.stack.iter().map(PlaceForm::from).collect(),
    }
}

fn text(found: &Difference, growing: &[(u32, Growth)], top: usize) -> String {
    let mut text = String::new();
    let change = if found.after_bytes >= found.before_bytes {
        format!("{} more", found.after_bytes - found.before_bytes)
    } else {
        format!("{} less", found.before_bytes - found.after_bytes)
    };
    let _ = writeln!(
        text,
        "In use: {} before, {} after, {change}; {} of it is new and {} is gone.\n",
        found.before_bytes,
        found.after_bytes,
        found.new_bytes(),
        found.gone_bytes()
    );
    if found.basis == Basis::Sums {
        text.push_str(
            "The snapshots have no segment in common, so they are of different processes: sums by\n\
             source line are compared, not blocks.\n\n",
        );
    }
    for row in found.rows.iter().filter(|row| row.new_blocks > 0).take(top) {
        let blocks = if row.new_blocks == 1 {
            "block"
        } else {
            "blocks"
        };
        let _ = writeln!(
            text,
            "  {:>12}  {:>6} {blocks:<6}  {}",
            format!("+{}", row.new_bytes),
            row.new_blocks,
            place(&row.stack)
        );
    }
    let n_new = found.rows.iter().filter(|row| row.new_blocks > 0).count();
    if n_new > top {
        let _ = writeln!(
            text,
            "  and from {} more stacks; `--top N` prints more",
            n_new - top
        );
    }
    for (device, growth) in growing {
        text.push('\n');
        text.push_str(&growth_lines(*device, growth));
    }
    text
}

/// The line that a user would look at.
pub(crate) fn place(stack: &[Place]) -> String {
    site(stack).map_or_else(
        || "no stack was recorded".to_owned(),
        |place| format!("{}:{} in {}", place.file, place.line, place.function),
    )
}
