//! What `oomproof fit` found, as people read it: what to change first, then what else there is.

use std::fmt::{self, Write};
use std::time::Duration;

use oomproof_analysis::TimeEstimate;
use oomproof_planner::Numerics;
use oomproof_units::Nanos;
use owo_colors::{AnsiColors, OwoColorize};

use crate::commands::fleet::{Answer, Fleet, OnGpu};
use crate::fit_report::{FitReport, Listed};
use crate::fitting::{in_short, in_words};
use crate::given_back::GivenBack;
use crate::wrap::{Margins, wrap};

/// Width at which sentences are wrapped.
const LINE: usize = 76;
/// Levers that are not allowed and would save less than this part of the peak are not worth a line.
const WORTH: u64 = 100;

/// The report as text.
pub(crate) fn render(report: &FitReport, took: Duration) -> String {
    let mut text = String::new();
    write(&mut text, report, took).expect("a String takes all that is written to it");
    text
}

fn write(out: &mut String, report: &FitReport, took: Duration) -> fmt::Result {
    writeln!(out, "{}", first_line(report))?;
    write_given_back(out, report)?;
    if let Some(chosen) = report.chosen() {
        write_chosen(out, report, chosen)?;
    }
    write_plans(out, report)?;
    write_not_allowed(out, report)?;
    write_floor(out, report)?;
    if report.tried > 0 {
        let end = if report.finished {
            "nothing was left to try that could change the answer"
        } else {
            "time ended the search; more may be found with `--time-limit`"
        };
        writeln!(
            out,
            "\n{} plans were run in {:.0} s, {} of them did not fit or failed; {end}",
            report.tried,
            took.as_secs_f64(),
            report.failed
        )?;
    }
    Ok(())
}

/// The sentence that answers the question.
fn first_line(report: &FitReport) -> String {
    let device = &report.device;
    let card = format!("{} on {}", device.total_bytes, device.name);
    let base = &report.base;
    if report.fits_as_it_is {
        let room = device
            .total_bytes
            .saturating_sub(device.reserved_by_others_bytes);
        let headroom = room.saturating_sub(base.process_bytes.likely);
        let faster = report.chosen().map_or_else(String::new, |chosen| {
            let time = times(chosen.relative_time);
            let changes = changes(chosen);
            format!("; with {changes} a step takes {time} the time")
        });
        return format!(
            "{} as it is: peak {} of {card} (allocated), about {} with context, {headroom} to spare{faster}",
            "fits".color(AnsiColors::Green).bold(),
            base.peak_allocated_bytes,
            base.process_bytes.likely
        );
    }
    let Some(chosen) = report.chosen() else {
        let least = report.floor_bytes.map_or_else(String::new, |floor| {
            format!("; the least that was reached is {floor} with context")
        });
        return if report.finished {
            format!(
                "{}: no plan was found that fits {card}{least}",
                "does not fit".color(AnsiColors::Red).bold()
            )
        } else {
            format!(
                "{}: no plan was found in time that fits {card}{least}",
                "unknown".color(AnsiColors::Yellow).bold()
            )
        };
    };
    let changes = changes(chosen);
    format!(
        "{} with {changes}: peak {} instead of {} (allocated), about {} with context of {card}, {} the time",
        "fits".color(AnsiColors::Green).bold(),
        chosen.peak_allocated_bytes,
        base.peak_allocated_bytes,
        chosen.process_bytes.likely,
        times(chosen.relative_time),
    )
}

fn changes(plan: &Listed) -> String {
    match plan.levers.len() {
        1 => "1 change".to_owned(),
        count => format!("{count} changes"),
    }
}

/// What fitting costs a script that fits as it is, and how to ask for a faster plan where none was looked for.
fn write_given_back(out: &mut String, report: &FitReport) -> fmt::Result {
    let Some(given_back) = report.base.given_back.filter(|_| report.fits_as_it_is) else {
        return Ok(());
    };
    let margins = Margins {
        lead: "  ",
        line: LINE,
    };
    if given_back.times > 0 {
        let times = match given_back.times {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let place = match given_back.steps {
            0 => "outside of training steps".to_owned(),
            steps => format!("in {steps} of {} training steps", given_back.of_steps),
        };
        let text = format!(
            "its allocator had to give memory back to the card {times}, {place}; each time the card waits, which no figure here counts"
        );
        wrap(out, &text, margins)?;
    }
    if report.tried > 0 && report.chosen.is_none() {
        wrap(
            out,
            "no plan was found under which a step takes at least 2 % less time",
            margins,
        )?;
    } else if given_back.steps == 0 && report.tried == 0 {
        wrap(
            out,
            "`--faster` searches for a plan under which a step takes less time",
            margins,
        )?;
    }
    Ok(())
}

/// How long a step takes, and how wide that is.
fn step_range(range: TimeEstimate) -> String {
    let millis = |time: Nanos| {
        let millis = time.get() as f64 / 1e6;
        let digits = if millis < 10.0 { 2 } else { 0 };
        format!("{millis:.digits$}")
    };
    format!(
        ", which takes about {} ms ({} to {})",
        millis(range.likely),
        millis(range.low),
        millis(range.high)
    )
}

fn times(relative: f64) -> String {
    format!("{relative:.2}x")
}

fn write_chosen(out: &mut String, report: &FitReport, chosen: &Listed) -> fmt::Result {
    heading(out, "what to change")?;
    for line in in_words(&chosen.levers) {
        wrap(
            out,
            &line,
            Margins {
                lead: "  - ",
                line: LINE,
            },
        )?;
    }
    let mut row = |name: &str, text: &str| {
        let lead = format!("  {name:<12}");
        wrap(
            out,
            text,
            Margins {
                lead: &lead,
                line: LINE,
            },
        )
    };
    let why = chosen.numerics_reason.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    row("results", &format!("{}{why}", numerics(chosen.numerics)))?;
    row(
        "time",
        &format!(
            "{} that of a step of the script as it is{}: an estimate by a model of the card, which no real card has confirmed",
            times(chosen.relative_time),
            report
                .base
                .step_device_range_ns
                .map_or_else(String::new, step_range),
        ),
    )?;
    row(
        "verified",
        if chosen.verified {
            "the whole script ran under this plan on the virtual card"
        } else {
            "its training steps ran on the virtual card; what comes after them did not"
        },
    )?;
    if let Some(file) = &report.plan_file {
        row("written to", &file.display().to_string())?;
        row(
            "to apply it",
            &format!(
                "`oomproof run --plan {0} SCRIPT`, or `oomproof.apply(\"{0}\", model, optimizer)` in the script",
                file.display()
            ),
        )?;
    }
    for (lever, code) in report.code.iter().flatten() {
        heading(out, &format!("by hand: {lever}"))?;
        match code {
            Some(code) => {
                for line in code.lines() {
                    writeln!(out, "    {line}")?;
                }
            }
            None => writeln!(out, "  there is no such edit for this framework")?,
        }
    }
    Ok(())
}

const fn numerics(numerics: Numerics) -> &'static str {
    match numerics {
        Numerics::None => "the same, bit for bit",
        Numerics::Rounding => "the same but for the order in which numbers are rounded",
        Numerics::Redrawn => {
            "the same but for rounding and for other random numbers of the same kind"
        }
        Numerics::Changes => "training is different",
    }
}

fn write_plans(out: &mut String, report: &FitReport) -> fmt::Result {
    if report.plans.len() < 2 {
        return Ok(());
    }
    heading(out, "plans that none beats in memory and time")?;
    writeln!(
        out,
        "  {:>8}{:>13}{:>15}",
        "time", "allocated", "with context"
    )?;
    for (plan_idx, plan) in report.plans.iter().enumerate() {
        let mark = if report.chosen == Some(plan_idx) {
            ">"
        } else {
            " "
        };
        let word = if plan.fits { "fits" } else { "" };
        let lead = format!(
            "{mark} {:>8}{:>13}{:>15}  {word:<5} ",
            times(plan.relative_time),
            plan.peak_allocated_bytes.to_string(),
            plan.process_bytes.likely.to_string(),
        );
        wrap(
            out,
            &in_short(&plan.levers),
            Margins {
                lead: &lead,
                line: LINE + lead.len() / 2,
            },
        )?;
    }
    Ok(())
}

fn write_not_allowed(out: &mut String, report: &FitReport) -> fmt::Result {
    let peak = report.base.peak_allocated_bytes.get();
    let worth: Vec<_> = report
        .not_allowed
        .iter()
        .filter(|each| each.saves_bytes.get() > peak / WORTH)
        .collect();
    if worth.is_empty() {
        return Ok(());
    }
    heading(out, "not used, because it has to be allowed (estimates)")?;
    for each in worth {
        writeln!(
            out,
            "  --allow {:<22} saves about {}, {} the time",
            each.lever.name.as_str(),
            each.saves_bytes,
            times(each.relative_time)
        )?;
    }
    Ok(())
}

fn write_floor(out: &mut String, report: &FitReport) -> fmt::Result {
    let (Some(floor), false) = (&report.floor, report.fits) else {
        return Ok(());
    };
    heading(out, "the least that was reached")?;
    let lead = format!(
        "  {} allocated, {} with context: ",
        floor.peak_allocated_bytes, floor.process_bytes.likely
    );
    writeln!(out, "{lead}{}", in_short(&floor.levers))
}

fn heading(out: &mut String, text: &str) -> fmt::Result {
    writeln!(out, "\n{}", text.bold())
}

/// What was found for all cards.
pub(crate) fn render_fleet(fleet: &Fleet) -> String {
    let mut text = String::new();
    write_fleet(&mut text, fleet).expect("a String takes all that is written to it");
    text
}

fn write_fleet(out: &mut String, fleet: &Fleet) -> fmt::Result {
    let wide = fleet.gpus.iter().map(|gpu| short_name(gpu).len()).max();
    let wide = wide.unwrap_or_default();
    writeln!(
        out,
        "{:<wide$}{:>11}  {:<13}{:>7}{:>13}  plan",
        "GPU", "memory", "", "time", "with context"
    )?;
    for gpu in &fleet.gpus {
        let (time, process, plan) = gpu.plan.as_ref().map_or_else(
            || {
                let floor = gpu.floor_bytes.filter(|_| gpu.answer == Answer::DoesNotFit);
                let remark = match (
                    gpu.given_back.filter(|given_back| given_back.times > 0),
                    floor,
                ) {
                    (Some(given_back), _) => gives_back(given_back),
                    (None, Some(floor)) => format!("the least reached is {floor}"),
                    (None, None) => String::new(),
                };
                (String::new(), String::new(), remark)
            },
            |plan| {
                (
                    times(plan.relative_time),
                    plan.process_bytes.to_string(),
                    in_short(&plan.levers),
                )
            },
        );
        let line = format!(
            "{:<wide$}{:>11}  {:<13}{time:>7}{process:>13}  {plan}",
            short_name(gpu),
            gpu.memory_bytes.to_string(),
            answer(gpu.answer),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    for (architecture, why) in &fleet.not_measured {
        writeln!(out, "{architecture}: {why}")?;
    }
    let any = |is: fn(&OnGpu) -> bool| fleet.gpus.iter().any(is);
    let remarks = [
        (
            any(|gpu| !gpu.also.is_empty()),
            "+N: so many others of the same memory and architecture; `--json` names them",
        ),
        (
            any(|gpu| gpu.plan.is_some()),
            "time: of a step, beside the script as it is; an estimate by a model of the card, which no real card has confirmed",
        ),
        (
            any(|gpu| {
                gpu.given_back
                    .is_some_and(|given_back| given_back.steps > 0)
            }),
            "where memory is given back in steps the card waits; `fit --gpu NAME` looks for a faster plan",
        ),
        (
            any(|gpu| gpu.answer == Answer::Unknown),
            "unknown: time ended the search; more may be found with `--time-limit`",
        ),
    ];
    writeln!(out)?;
    for (_, remark) in remarks.iter().filter(|(is_said, _)| *is_said) {
        wrap(
            out,
            remark,
            Margins {
                lead: "",
                line: LINE,
            },
        )?;
    }
    Ok(())
}

/// The name in the table, with how many others are like it.
fn short_name(gpu: &OnGpu) -> String {
    let name = gpu.name.strip_prefix("NVIDIA ").unwrap_or(&gpu.name);
    match gpu.also.len() {
        0 => name.to_owned(),
        count => format!("{name} +{count}"),
    }
}

/// That the allocator of a script that fits had to give memory back for that.
fn gives_back(given_back: GivenBack) -> String {
    let GivenBack {
        steps, of_steps, ..
    } = given_back;
    match steps {
        0 => "its allocator gives memory back outside of training steps".to_owned(),
        _ => format!("its allocator gives memory back in {steps} of {of_steps} steps"),
    }
}

/// What can be said of a card, in words.
pub(crate) const fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::FitsAsItIs => "fits as it is",
        Answer::FitsWithPlan => "fits",
        Answer::DoesNotFit => "does not fit",
        Answer::Unknown => "unknown",
    }
}
