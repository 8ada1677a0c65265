//! `oomproof run`: does the script fit on that GPU, what uses the memory, where, and why not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use oomproof_analysis::{Strictness, Verdict};
use oomproof_explain::{Explanation, explain_run};
use serde::Serialize;

use crate::applied_plan::{Applied, AppliedPlan};
use crate::bar::Glyphs;
use crate::calibration;
use crate::card::{Card, CardArgs, card};
use crate::commands::growth::{Base, Growth, grow};
use crate::duration;
use crate::exit::Exit;
use crate::explain_text;
use crate::failure::Failure;
use crate::growth_text;
use crate::launch::{Extent, Facts, Initialization, Labels, Launch, Writes, launch};
use crate::platform;
use crate::printer;
use crate::python;
use crate::resources::Resources;
use crate::scale::Scale;
use crate::split::{Target, UserCommand};
use crate::starters;
use crate::torch;
use crate::valuation::{Valuation, ValueArgs};
use crate::verdict_text;

/// What is typed for any verb that runs a script.
#[derive(Clone, Debug, Args)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    pub card: CardArgs,

    /// Stop after this many training steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,

    /// Run to the end, also when the peak of the steps is steady
    #[arg(long, conflicts_with = "steps")]
    pub full: bool,

    /// Give up after this long, such as 90s or 10m
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub timeout: Duration,

    /// Initialize large parameters for real; by default their values are left as they are
    #[arg(long)]
    pub real_init: bool,

    /// Measure amounts only: no role, module or source line of memory is found out
    #[arg(long)]
    pub no_labels: bool,

    /// Let the script write where it wants; by default what it writes goes to a scratch folder
    #[arg(long)]
    pub allow_writes: bool,

    #[command(flatten)]
    pub values: ValueArgs,

    /// The Python to use: an interpreter or an environment's folder; by default the first in PATH
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Start the script this many times, as `torchrun --nproc-per-node N` does, each on a GPU of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub ranks: Option<u32>,

    /// Where to keep the profile; by default in the folder of profiles
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
}

/// Arguments of `oomproof run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub launch: LaunchArgs,

    /// Run it at other sizes too, and find the largest that fits: batch, or NAME=ARGUMENT of the script
    ///
    /// `batch` alone changes the batch size of the script's loaders. Any other size is set by an argument of the script:
    /// `--scale batch=--batch-size,seq=--seq-len`.
    #[arg(long, value_name = "NAME[=ARGUMENT],...", value_parser = str::parse::<Scale>)]
    pub scale: Option<Scale>,

    /// Change the script as this plan says, which `oomproof fit` wrote
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Record PyTorch's memory history and write its snapshot here, for `oomproof replay` and PyTorch's viewer
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,

    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,

    /// End with exit code 10 also when it only just fits
    #[arg(long)]
    pub strict: bool,
}

/// Runs the script and prints the verdict.
pub(crate) fn run(
    args: &RunArgs,
    user: Option<UserCommand>,
    resources: Resources,
) -> Result<Exit, Failure> {
    platform::check("run")?;
    let user = script_of("run", user, &args.launch)?;
    let request = resolve(&args.launch, card(&args.launch.card)?, &user, resources)?;
    let strictness = if args.strict {
        Strictness::Strict
    } else {
        Strictness::Lenient
    };
    announce(&request, &user);
    let request = Launch {
        strictness,
        plan: args.plan.as_deref().map(AppliedPlan::read).transpose()?,
        ..request
    };
    let outcome = launch(&Launch {
        snapshot: args.snapshot.clone(),
        ..request.clone()
    })?;
    if let Some(Applied::Refused(refusal)) = &outcome.applied {
        return Err(refusal.failure(&request.name));
    }
    let growth = match &args.scale {
        Some(scale) if Exit::of_verdict(outcome.code) != Exit::Interrupted => {
            let base = Base {
                launch: &request,
                user: &user,
                outcome: &outcome,
            };
            Some(grow(&base, scale)?)
        }
        _ => None,
    };
    let why = explained(&outcome.verdict, &user);
    if args.json {
        printer::json(&Report {
            verdict: &outcome.verdict,
            growth: growth.as_deref(),
            explanation: why.as_ref(),
        })?;
    } else {
        let growth = growth.as_deref().map(growth_text::render);
        let text = verdict_text::render(&outcome.verdict, Glyphs::of_locale());
        let why = why.as_ref().map(explain_text::render_short);
        printer::data(&(text + &why.unwrap_or_default() + &growth.unwrap_or_default()))?;
    }
    Ok(Exit::of_verdict(outcome.code))
}

/// The verdict, with the growth that was asked for.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<&'a [Growth]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a Explanation>,
}

/// Why memory ran out, when the script did not survive it.
fn explained(verdict: &Verdict, user: &UserCommand) -> Option<Explanation> {
    let fatal = verdict.oom.as_ref().is_some_and(|oom| !oom.survived);
    if !fatal {
        return None;
    }
    let script = match &user.target {
        Target::Script(path) => fs::read(path).ok(),
        Target::Module(_) => None,
    };
    let script = script.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    explain_run(verdict, script.as_deref())
}

/// The user's command, which must be there and name a file that exists, or a program beside the user's Python.
pub(crate) fn script_of(
    verb: &str,
    user: Option<UserCommand>,
    typed: &LaunchArgs,
) -> Result<UserCommand, Failure> {
    let Some(mut user) = user else {
        return Err(
            Failure::usage("no_script", "which script to run was not said").hint(format!(
                "`oomproof {verb} [OPTIONS] SCRIPT [ARGS...]` or `oomproof {verb} [OPTIONS] -m MODULE [ARGS...]`"
            )),
        );
    };
    if let Target::Script(script) = &user.target
        && script != "-"
        && !Path::new(script).exists()
    {
        let Some(program) = starters::beside_python(typed.python.as_deref(), script) else {
            return Err(Failure::usage(
                "script_missing",
                format!("there is no script `{}`", script.to_string_lossy()),
            )
            .hint(
                "options of oomproof stand before the script, and everything after it is the script's",
            ));
        };
        user.target = Target::Script(program.into());
    }
    match typed.ranks {
        Some(ranks) => starters::with_ranks(user, ranks),
        None => Ok(user),
    }
}

/// What was typed, checked against this machine.
pub(crate) fn resolve(
    typed: &LaunchArgs,
    card: Card,
    user: &UserCommand,
    resources: Resources,
) -> Result<Launch, Failure> {
    if let Some(profile) = &typed.profile
        && profile.is_dir()
    {
        return Err(Failure::usage(
            "profile_is_folder",
            format!("`--profile {}` is a folder", profile.display()),
        )
        .hint("name the file the profile is to become"));
    }
    let resources = resources.found()?;
    let python = python::interpreter(typed.python.as_deref())?;
    let torch = torch::usable(&python)?;
    let (major, minor) = card.device_settings().compute_capability;
    if !torch::has_kernels_for(&torch.version, torch.cuda_version, (major, minor)) {
        let what = format!(
            "torch {} has no kernels for {}, compute capability {major}.{minor}",
            torch.version,
            card.name()
        );
        return Err(Failure::environment("no_kernels_for_gpu", what)
            .hint("wheels for CUDA 12.6 and older begin with 5.0 and end with 9.0, those for 12.8 have 7.0 to 12.0, those for 13 have 7.5 to 12.0")
            .hint("name another `--gpu`, or the Python of an environment with another torch"));
    }
    let n_devices = card.count.or_else(|| starters::n_ranks(user)).unwrap_or(1);
    Ok(Launch {
        card,
        n_devices,
        python,
        torch,
        resources,
        arguments: user.python_args(),
        name: user.name(),
        folder: None,
        steps: typed.steps,
        timeout: typed.timeout,
        extent: if typed.full {
            Extent::Full
        } else {
            Extent::Steady
        },
        initialization: if typed.real_init {
            Initialization::Real
        } else {
            Initialization::Skipped
        },
        labels: if typed.no_labels {
            Labels::Absent
        } else {
            Labels::Attached
        },
        writes: if typed.allow_writes {
            Writes::Allowed
        } else {
            Writes::Redirected
        },
        valuation: Valuation::from(&typed.values),
        batch_size: None,
        profile: typed.profile.clone(),
        snapshot: None,
        plan: None,
        facts: Facts::Ignored,
        warm: None,
        strictness: Strictness::Lenient,
    })
}

/// Says what is about to run on what.
pub(crate) fn announce(request: &Launch, user: &UserCommand) {
    let card = &request.card;
    let (which, each) = match request.n_devices {
        1 => ("a virtual".to_owned(), ""),
        count => (format!("{count} virtual"), " each"),
    };
    printer::say(&format!(
        "{} on {which} {} ({}{each}), torch {}",
        user.name(),
        card.name(),
        card.total(),
        request.torch.version
    ));
    if let Some(assumption) = &card.assumption {
        printer::say(&format!("assuming that {assumption}"));
    }
    // A file that is refused is told of by the run.
    if let Ok(Some(measured)) = calibration::of_device(card.name()) {
        printer::say(&format!(
            "times go by rates that `gpus --calibrate` measured on such a device, driver {}",
            measured.driver
        ));
    }
}
