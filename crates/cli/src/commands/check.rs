//! `oomproof check`: fail when a script needs more memory than it may.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use oomproof_analysis::{Answer, Verdict};
use oomproof_units::Bytes;
use serde::Serialize;

use crate::baseline::{self, Measure, Tolerance};
use crate::card::{Card, CardArgs, card, generic};
use crate::commands::run::{LaunchArgs, announce, resolve, script_of};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::{Outcome, launch};
use crate::platform;
use crate::printer;
use crate::resources::Resources;
use crate::split::UserCommand;
use crate::verdict_text;

/// Arguments of `oomproof check`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("against").args(["max", "baseline", "write_baseline"]).required(true).multiple(true))]
pub(crate) struct CheckArgs {
    /// The most memory the script may need
    ///
    /// Without --gpu or --memory the script runs on a generic card of twice this size and 1 GiB, so that by how much it is
    /// above can be said.
    #[arg(long, value_name = "SIZE")]
    pub max: Option<Bytes>,

    /// The verdict of an earlier run, as `run --json` or `--write-baseline` wrote it
    ///
    /// Without --gpu or --memory the script runs on the card of that run.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Write the verdict of this run as a baseline for later ones
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,

    /// By how much it may be above the baseline: a size, or a percentage
    #[arg(
        long,
        value_name = "SIZE|PERCENT",
        default_value = "1%",
        requires = "baseline"
    )]
    pub tolerance: Tolerance,

    /// Which figure is compared
    #[arg(
        long = "of",
        value_name = "FIGURE",
        value_enum,
        default_value = "allocated"
    )]
    pub measure: Measure,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// What came of a check, in the form of its JSON.
#[derive(Clone, Debug, Serialize)]
struct Report {
    schema: u32,
    check: Finding,
    measure: Measure,
    peak_bytes: Bytes,
    limits: Vec<Limit>,
    run: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Finding {
    Passed,
    Failed,
    Unknown,
}

/// One thing the peak is compared with.
#[derive(Clone, Debug, Serialize)]
struct Limit {
    kind: LimitKind,
    /// The most that passes.
    #[serde(rename = "limit_bytes")]
    most: Bytes,
    /// What it is compared with: the limit, or the figure of the baseline.
    compared_bytes: Bytes,
    /// Peak less `compared_bytes`.
    difference_bytes: i64,
    passed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LimitKind {
    Max,
    Baseline,
}

/// Runs the script and compares its peak.
pub(crate) fn check(
    args: &CheckArgs,
    user: Option<UserCommand>,
    resources: Resources,
) -> Result<Exit, Failure> {
    platform::check("check")?;
    let user = script_of("check", user, &args.launch)?;
    if args.max == Some(Bytes::ZERO) {
        return Err(
            Failure::usage("no_memory", "no script needs less than `--max` of zero")
                .hint("give a size such as `--max 20GiB`"),
        );
    }
    let before = args.baseline.as_deref().map(baseline::read).transpose()?;
    let request = resolve(
        &args.launch,
        card_of(args, before.as_ref())?,
        &user,
        resources,
    )?;
    if let Some(before) = &before
        && before.torch != request.torch.version
    {
        printer::say(&format!(
            "the baseline was made with torch {}, and this is {}: figures may differ for that alone",
            before.torch, request.torch.version
        ));
    }
    announce(&request, &user);
    let outcome = launch(&request)?;
    let report = report(args, before.as_ref(), &outcome.verdict);
    if let Some(path) = &args.write_baseline
        && outcome.verdict.verdict != Answer::Unknown
    {
        baseline::write(path, &outcome.verdict)?;
        printer::say(&format!("the baseline is in {}", path.display()));
    }
    if args.json {
        printer::json(&report)?;
    } else {
        printer::data(&text(&report))?;
    }
    Ok(exit(report.check, &outcome))
}

/// The card that was asked for, or one that follows from what the run is checked against.
fn card_of(args: &CheckArgs, before: Option<&Verdict>) -> Result<Card, Failure> {
    let typed = &args.launch.card;
    if typed.gpu.is_some() || typed.memory.is_some() {
        return card(typed);
    }
    if let Some(before) = before {
        let device = &before.device;
        let others = device.reserved_by_others_bytes;
        let same = CardArgs {
            gpu: Some(device.name.clone()),
            memory: Some(device.total_bytes),
            reserved_by_others: if typed.reserved_by_others == Bytes::ZERO {
                others
            } else {
                typed.reserved_by_others
            },
        };
        return card(&same).or_else(|_| card(&CardArgs { gpu: None, ..same }));
    }
    match args.max {
        Some(max) => {
            // Room for twice the limit, and for the context of even a large card.
            let mut card = generic(max + max + Bytes::from_gib(1))?;
            card.others = typed.reserved_by_others;
            Ok(card)
        }
        None => card(typed),
    }
}

fn report(args: &CheckArgs, before: Option<&Verdict>, verdict: &Verdict) -> Report {
    let peak = args.measure.of(verdict);
    let limit = |kind, compared: Bytes, limit: Bytes| Limit {
        kind,
        most: limit,
        compared_bytes: compared,
        difference_bytes: peak.signed_difference(compared),
        passed: peak <= limit,
    };
    let mut limits = Vec::new();
    limits.extend(args.max.map(|max| limit(LimitKind::Max, max, max)));
    limits.extend(before.map(|before| {
        let compared = args.measure.of(before);
        limit(
            LimitKind::Baseline,
            compared,
            args.tolerance.above(compared),
        )
    }));
    let above = limits.iter().any(|limit| !limit.passed);
    let check = match verdict.verdict {
        // What was seen is already too much, whatever would have followed.
        _ if above => Finding::Failed,
        Answer::DoesNotFit => Finding::Failed,
        Answer::Unknown => Finding::Unknown,
        // Where it would end was not seen.
        Answer::Fits | Answer::Tight if verdict.growth_bytes_per_step > Bytes::ZERO => {
            Finding::Unknown
        }
        Answer::Fits | Answer::Tight => Finding::Passed,
    };
    Report {
        schema: 1,
        check,
        measure: args.measure,
        peak_bytes: peak,
        limits,
        run: verdict.clone(),
    }
}

fn exit(finding: Finding, outcome: &Outcome) -> Exit {
    match finding {
        Finding::Passed => Exit::Done,
        Finding::Failed => Exit::DoesNotFit,
        Finding::Unknown if outcome.verdict.verdict == Answer::Unknown => {
            Exit::of_verdict(outcome.code)
        }
        Finding::Unknown => Exit::Unknown,
    }
}

fn text(report: &Report) -> String {
    let word = match report.check {
        Finding::Passed => "passed",
        Finding::Failed => "failed",
        Finding::Unknown => "unknown",
    };
    let peak = report.peak_bytes;
    let mut lines = vec![format!("{word}: {} {peak}", report.measure.words())];
    for limit in &report.limits {
        let apart = Bytes::new(limit.difference_bytes.unsigned_abs());
        let side = match limit.difference_bytes {
            0 => "equal to".to_owned(),
            1.. => format!("{apart} above"),
            _ => format!("{apart} below"),
        };
        let what = match limit.kind {
            LimitKind::Max => format!("the limit of {}", limit.compared_bytes),
            LimitKind::Baseline => format!(
                "the baseline of {} (up to {} passes)",
                limit.compared_bytes, limit.most
            ),
        };
        lines.push(format!("  {side} {what}"));
    }
    if report.run.growth_bytes_per_step > Bytes::ZERO {
        let growth = report.run.growth_bytes_per_step;
        lines.push(format!(
            "  it grows by {growth} a step, without an end in sight"
        ));
    }
    lines.push(format!("  {}", verdict_text::first_line(&report.run)));
    lines.push(format!("  profile {}", report.run.profile));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::verdict_text::sample;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn check_text(
        options: &str,
        baseline_mib: Option<u64>,
        peak_mib: u64,
        answer: Answer,
        expected: &[&str],
    ) {
        let words = std::iter::once("check").chain(options.split_whitespace());
        let args = Typed::try_parse_from(words).unwrap().args;
        let mut verdict = sample();
        verdict.peak.allocated_bytes = Bytes::from_mib(peak_mib);
        verdict.verdict = answer;
        let before = baseline_mib.map(|mib| {
            let mut before = sample();
            before.peak.allocated_bytes = Bytes::from_mib(mib);
            before
        });
        let report = report(&args, before.as_ref(), &verdict);
        let text = text(&report);
        let lines: Vec<&str> = text.lines().take(expected.len()).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn limits_and_baselines() {
        let fits = Answer::Fits;
        check_text(
            "--max 2GiB",
            None,
            1536,
            fits,
            &[
                "passed: peak allocated 1.50 GiB",
                "  512.00 MiB below the limit of 2.00 GiB",
            ],
        );
        check_text(
            "--max 1GiB",
            None,
            1536,
            fits,
            &[
                "failed: peak allocated 1.50 GiB",
                "  512.00 MiB above the limit of 1024.00 MiB",
            ],
        );
        check_text(
            "--max 1536MiB",
            None,
            1536,
            fits,
            &[
                "passed: peak allocated 1.50 GiB",
                "  equal to the limit of 1.50 GiB",
            ],
        );
        check_text(
            "--baseline b.json",
            Some(1000),
            1010,
            fits,
            &[
                "passed: peak allocated 1010.00 MiB",
                "  10.00 MiB above the baseline of 1000.00 MiB (up to 1010.00 MiB passes)",
            ],
        );
        check_text(
            "--baseline b.json --tolerance 0",
            Some(1000),
            1010,
            fits,
            &["failed: peak allocated 1010.00 MiB"],
        );
    }

    #[test]
    fn a_peak_that_grows_does_not_pass() {
        let args = Typed::try_parse_from(["check", "--max", "2GiB"])
            .unwrap()
            .args;
        let mut verdict = sample();
        verdict.peak.allocated_bytes = Bytes::from_mib(10);
        verdict.growth_bytes_per_step = Bytes::from_kib(512);
        let report = report(&args, None, &verdict);
        assert_eq!(report.check, Finding::Unknown);
        assert!(text(&report).contains("it grows by 512.00 KiB a step"));
    }

    #[test]
    fn what_was_not_seen_does_not_pass() {
        check_text(
            "--max 2GiB",
            None,
            10,
            Answer::Unknown,
            &["unknown: peak allocated 10.00 MiB"],
        );
        check_text(
            "--max 2MiB",
            None,
            10,
            Answer::Unknown,
            &["failed: peak allocated 10.00 MiB"],
        );
        check_text(
            "--max 2GiB",
            None,
            10,
            Answer::DoesNotFit,
            &["failed: peak allocated 10.00 MiB"],
        );
    }
}
