//! `fit --max-batch`: the largest batch that fits, exactly.
//!
//! Both ends are runs of the whole script, with evaluation and the optimizer's first step: the largest size that fits,
//! and the next one, which does not.

use oomproof_analysis::Verdict;
use oomproof_units::Bytes;
use serde::Serialize;

use crate::commands::fit::FitArgs;
use crate::commands::growth::{Base, Growth, grow};
use crate::commands::run::announce;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::growth_text;
use crate::launch::{Launch, launch};
use crate::printer;
use crate::scale::{Dimension, Knob, Scale};
use crate::split::UserCommand;
use crate::verdict_text;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    /// Whether any batch fits.
    fits: bool,
    largest_batch: Option<u64>,
    /// What was to stay free.
    margin_bytes: Bytes,
    max_batch: &'a Growth,
    /// The script as it is.
    run: &'a Verdict,
}

/// Finds it.
pub(crate) fn find(
    args: &FitArgs,
    argument: &str,
    request: &Launch,
    user: &UserCommand,
) -> Result<Exit, Failure> {
    let mut request = request.clone();
    // What is to stay free is as good as taken.
    request.card.others += args.margin;
    if request.card.others >= request.card.total() {
        return Err(Failure::usage(
            "no_memory_left",
            format!(
                "a margin of {} leaves nothing of {}",
                args.margin,
                request.card.total()
            ),
        ));
    }
    announce(&request, user);
    let outcome = launch(&request)?;
    if Exit::of_verdict(outcome.code) == Exit::Interrupted {
        return Ok(Exit::Interrupted);
    }
    let knob = match argument {
        "" => Knob::Loaders,
        argument => Knob::Argument(argument.to_owned()),
    };
    let scale = Scale(vec![Dimension {
        name: "batch".to_owned(),
        knob,
    }]);
    let base = Base {
        launch: &request,
        user,
        outcome: &outcome,
    };
    let grown = grow(&base, &scale)?;
    let Some(growth) = grown.first() else {
        return Ok(Exit::Unknown);
    };
    if args.json {
        printer::json(&Report {
            schema: 1,
            fits: growth.largest_fitting.is_some(),
            largest_batch: growth.largest_fitting,
            margin_bytes: args.margin,
            max_batch: growth,
            run: &outcome.verdict,
        })?;
    } else {
        let first = verdict_text::first_line(&outcome.verdict);
        let margin = if args.margin == Bytes::ZERO {
            String::new()
        } else {
            format!("\n  {} of the card are left free", args.margin)
        };
        printer::data(&format!("{first}{margin}\n{}", growth_text::render(&grown)))?;
    }
    Ok(
        match (growth.largest_fitting, growth.smallest_not_fitting) {
            (Some(_), _) => Exit::Done,
            (None, Some(_)) => Exit::DoesNotFit,
            (None, None) => Exit::Unknown,
        },
    )
}
