//! `oomproof fit`: the cheapest changes that make a script fit, run on the virtual GPU before they are named.
//!
//! The script as it is runs twice: on the wanted card to see whether anything is to be done, and on a card with ample
//! memory to see what it needs. What the search then chooses is run once more in whole, in a process of its own on the
//! wanted card, because evaluation and saving come after the steps by which it was chosen.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use oomproof_analysis::{Estimate, Strictness, Verdict};
use oomproof_planner::{
    Aim, Facts, Framework, FrameworkError, Goal, LeverName, LeverUse, Measured, Numerics, Plan,
    Search, TorchVersion, Verified, Writing, code,
};
use oomproof_profile::Profile;
use oomproof_units::Bytes;

use crate::applied_plan::AppliedPlan;
use crate::bar::Glyphs;
use crate::card::{Card, CardArgs, card};
use crate::commands::run::{LaunchArgs, announce, resolve, script_of};
use crate::commands::{fleet, max_batch};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fit_report::{FitReport, Listed};
use crate::fit_text;
use crate::fitting::{Ends, Found, find, in_short};
use crate::given_back::GivenBack;
use crate::launch::{Extent, Facts as Gathering, Launch, Outcome};
use crate::plan_file;
use crate::platform;
use crate::printer;
use crate::profile_file;
use crate::resources::Resources;
use crate::split::UserCommand;
use crate::trial::{Ran, Setup, Trials, facts_of, room, step_time};
use crate::valuation::ValueArgs;
use crate::verdict_text;
use crate::warm::{self, Started, Warm};

/// A run that takes so many times as long as the script as it is, hangs.
const HANGS: u32 = 8;
/// So many plans more are run whole before the search is repeated with the whole script.
const MOST_NEXT: usize = 2;
/// No run is taken to hang before this.
const LEAST_TIMEOUT: Duration = Duration::from_mins(1);
/// All cards together may take so many times as long as one.
const OF_ALL: u32 = 4;
/// The file that the plan is written to.
const PLAN: &str = "plan.toml";
/// What `--show-code` stands for without a framework.
const AS_SEEN: &str = "auto";

/// Arguments of `oomproof fit`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub card: CardArgs,

    /// Find the cheapest plan for each GPU of the catalog, one of those with the same memory and architecture
    ///
    /// It may take four times as long as `--time-limit`. No plan is written.
    #[arg(long, value_name = "all", value_parser = ["all"], conflicts_with_all = ["gpu", "memory", "show_code", "profile"])]
    pub gpus: Option<String>,

    /// Find the largest batch that fits, without a plan: the batch size of the script's loaders, or an argument of it
    ///
    /// Each size is a run of the whole script. Without ARGUMENT the batch size of its loaders is changed.
    #[arg(
        long,
        value_name = "ARGUMENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["gpus", "show_code", "allow", "without", "keep_numerics"]
    )]
    pub max_batch: Option<String>,

    /// Memory of the card that the largest batch is to leave free
    #[arg(long, value_name = "SIZE", default_value = "0", requires = "max_batch")]
    pub margin: Bytes,

    /// Where the plan is written
    #[arg(short, long, value_name = "FILE", default_value = PLAN)]
    pub output: PathBuf,

    /// Levers that may be used although they change what is learned, such as autocast
    #[arg(long, value_name = "LEVER,...", value_delimiter = ',', value_parser = str::parse::<LeverName>)]
    pub allow: Vec<LeverName>,

    /// Levers that are not to be used
    #[arg(long, value_name = "LEVER,...", value_delimiter = ',', value_parser = str::parse::<LeverName>)]
    pub without: Vec<LeverName>,

    /// Use only levers under which results are the same bit for bit, or with `rounding` but for rounding, and so with
    /// the same random numbers
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "none",
        value_parser = ["none", "rounding"]
    )]
    pub keep_numerics: Option<String>,

    /// Where the script fits as it is, search for a plan all the same: one under which a step takes at least 2 % less time
    #[arg(long, conflicts_with_all = ["gpus", "max_batch"])]
    pub faster: bool,

    /// End the search after this long with the best plan so far
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration::parse)]
    pub time_limit: Duration,

    /// Print the edit that does the same by hand: for a plain loop, trainer, lightning or accelerate
    #[arg(
        long,
        value_name = "FRAMEWORK",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = AS_SEEN,
        value_parser = str::parse::<CodeFor>
    )]
    pub show_code: Option<CodeFor>,

    /// Start the script anew for each plan instead of forking it where it first uses the GPU
    #[arg(long)]
    pub no_forks: bool,

    /// Give up on a run of the whole script after this long
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub timeout: Duration,

    #[command(flatten)]
    pub values: ValueArgs,

    /// The Python to use: an interpreter or an environment's folder; by default the first in PATH
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// Where to keep the profile of the chosen plan; by default in the folder of profiles
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// A plan fits only when the upper end of what it may take does
    #[arg(long)]
    pub strict: bool,
}

/// For whom code is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeFor {
    /// The framework that the script was seen to use.
    AsSeen,
    /// This framework.
    Framework(Framework),
}

impl FromStr for CodeFor {
    type Err = FrameworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == AS_SEEN {
            return Ok(Self::AsSeen);
        }
        text.parse().map(Self::Framework)
    }
}

impl FitArgs {
    fn launch(&self) -> LaunchArgs {
        LaunchArgs {
            card: self.card.clone(),
            steps: None,
            full: false,
            timeout: self.timeout,
            real_init: false,
            no_labels: false,
            allow_writes: false,
            values: self.values.clone(),
            python: self.python.clone(),
            ranks: None,
            profile: None,
        }
    }

    pub(crate) fn goal(&self, request: &Launch, card: &Card) -> Goal {
        let mut goal = Goal::fit_into(room(card));
        goal.allow.extend(&self.allow);
        goal.forbid.extend(&self.without);
        goal.torch = torch_of(request);
        match self.keep_numerics.as_deref() {
            Some("rounding") => goal.numerics = Numerics::Rounding,
            Some(_) => goal.numerics = Numerics::None,
            None => {}
        }
        goal
    }

    pub(crate) fn strictness(&self) -> Strictness {
        if self.strict {
            Strictness::Strict
        } else {
            Strictness::Lenient
        }
    }
}

fn torch_of(request: &Launch) -> Option<TorchVersion> {
    request.torch.version.parse().ok()
}

/// Finds the cheapest plan, has it verified, and prints it.
pub(crate) fn fit(
    args: &FitArgs,
    user: Option<UserCommand>,
    resources: Resources,
) -> Result<Exit, Failure> {
    platform::check("fit")?;
    let typed = args.launch();
    let user = script_of("fit", user, &typed)?;
    let card = match &args.gpus {
        Some(_) => fleet::first()?,
        None => card(&args.card)?,
    };
    let request = resolve(&typed, card, &user, resources)?;
    let request = Launch {
        strictness: args.strictness(),
        ..request
    };
    if let Some(argument) = &args.max_batch {
        return max_batch::find(args, argument, &request, &user);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let searches = if args.gpus.is_some() { OF_ALL } else { 1 };
    let ends = Ends {
        at: Instant::now() + args.time_limit * searches,
        interrupted: warm::watch_interrupts(&stop)?,
        stop,
    };
    if args.gpus.is_some() {
        return fleet::fit(args, &request, &ends);
    }
    plan_file::check_target(&args.output)?;
    announce(&request, &user);
    let begun = Instant::now();
    let fitting = Fitting {
        args,
        request: &request,
        ends: &ends,
    };
    let report = match fitting.run()? {
        Ended::Report(report) => *report,
        Ended::NotMeasured(outcome) => return not_measured(args, &outcome),
    };
    if args.json {
        printer::json(&report)?;
    } else {
        printer::data(&fit_text::render(&report, begun.elapsed()))?;
    }
    Ok(report.exit())
}

/// What a script that cannot be planned for has shown, as `run` shows it.
fn not_measured(args: &FitArgs, outcome: &Outcome) -> Result<Exit, Failure> {
    if args.json {
        printer::json(&outcome.verdict)?;
    } else {
        printer::data(&verdict_text::render(&outcome.verdict, Glyphs::of_locale()))?;
    }
    Ok(match Exit::of_verdict(outcome.code) {
        // It is not the plan's doing, and a plan was asked for.
        Exit::Done | Exit::DoesNotFit => Exit::Unknown,
        other => other,
    })
}

enum Ended {
    Report(Box<FitReport>),
    /// The script as it is cannot be measured.
    NotMeasured(Box<Outcome>),
}

struct Fitting<'a> {
    args: &'a FitArgs,
    request: &'a Launch,
    ends: &'a Ends,
}

impl Fitting<'_> {
    fn run(&self) -> Result<Ended, Failure> {
        let ample = Setup {
            card: self.request.card.ample(),
            measured_on: None,
            plan: None,
            extent: Extent::Training,
            facts: Gathering::Gathered,
            timeout: self.args.timeout,
        };
        let as_it_is = Setup {
            card: self.request.card.clone(),
            extent: Extent::Steady,
            facts: Gathering::Ignored,
            ..ample.clone()
        };
        let begun = Instant::now();
        let (warm, ran) = started(self.args, self.request, &ample, self.ends)?;
        let trials = Trials::new(self.request, warm, self.args.strictness())?;
        let (plain, needed) = match ran {
            Some(needed) => (trials.run(&as_it_is), Ok(needed)),
            None => thread::scope(|scope| {
                let plain = scope.spawn(|| trials.run(&as_it_is));
                let needed = trials.run(&ample);
                let lost = || Failure::environment("io", "a thread of the launcher ended");
                (plain.join().unwrap_or_else(|_| Err(lost())), needed)
            }),
        };
        let (plain, needed) = (plain?, needed?);
        let one = begun.elapsed();
        let report = match Exit::of_verdict(plain.outcome.code) {
            Exit::Done => self.faster(&trials, &plain, &needed, one)?,
            Exit::DoesNotFit if Exit::of_verdict(needed.outcome.code) != Exit::Done => {
                return Ok(Ended::NotMeasured(Box::new(needed.outcome)));
            }
            Exit::DoesNotFit => {
                let report = FitReport::new(&plain.outcome.verdict, &needed.outcome.verdict);
                let facts = facts(&needed.profile)?;
                self.search(&trials, report, &needed, &facts, one)?
            }
            _ => return Ok(Ended::NotMeasured(Box::new(plain.outcome))),
        };
        Ok(Ended::Report(Box::new(report)))
    }

    /// The script fits as it is. A plan is looked for where the allocator had to give memory back for that, which costs
    /// time on a card, and where it is asked for.
    fn faster(
        &self,
        trials: &Trials<'_>,
        plain: &Ran,
        needed: &Ran,
        one: Duration,
    ) -> Result<FitReport, Failure> {
        let given_back = GivenBack::of(&plain.profile);
        let mut report = FitReport::fits_already(&plain.outcome.verdict, given_back);
        if given_back.steps == 0 && !self.args.faster {
            return Ok(report);
        }
        let facts = match facts(&needed.profile) {
            Ok(facts) if Exit::of_verdict(needed.outcome.code) == Exit::Done => facts,
            Ok(_) => return Ok(report),
            // What fits needs no plan.
            Err(failure) => {
                printer::say(&failure.text);
                return Ok(report);
            }
        };
        printer::say("it fits as it is; plans under which a step takes less time are looked for");
        report.base.step_device_ns = step_time(&needed.outcome.verdict).get();
        report.base.step_device_range_ns = needed.outcome.verdict.step_device_ns;
        report.finished = false;
        self.search(trials, report, needed, &facts, one)
    }

    fn search(
        &self,
        trials: &Trials<'_>,
        mut report: FitReport,
        needed: &Ran,
        facts: &Facts,
        one: Duration,
    ) -> Result<FitReport, Failure> {
        let is_fitting = report.fits_as_it_is;
        let measured_of = |needed: &Ran| Measured {
            // The run on the card has shown it, whatever the figures with ample memory are.
            fits: is_fitting,
            ..trials.measured(&needed.outcome.verdict, &self.request.card)
        };
        let (mut facts, mut measured) = (facts.clone(), measured_of(needed));
        let timeout = (one * HANGS).clamp(
            LEAST_TIMEOUT.min(self.args.timeout),
            self.args.timeout.max(LEAST_TIMEOUT),
        );
        let mut goal = self.args.goal(self.request, &self.request.card);
        goal.aim = Aim::Faster;
        let mut held: Option<(FitReport, Plan, Facts)> = None;
        // Evaluation or saving may need more than training; then they are part of every run.
        for extent in [Extent::Training, Extent::Steady] {
            if extent == Extent::Steady {
                let whole = self.whole(trials)?;
                if Exit::of_verdict(whole.outcome.code) == Exit::Done {
                    measured = measured_of(&whole);
                    report.needs_whole(&whole.outcome.verdict);
                    facts = self::facts(&whole.profile).unwrap_or(facts);
                }
            }
            let setup = Setup {
                card: self.request.card.clone(),
                measured_on: None,
                plan: None,
                extent,
                facts: Gathering::Ignored,
                timeout,
            };
            let search = Search::new(facts.clone(), measured, goal.clone());
            let found = find(trials, &setup, search, self.ends)?;
            report.take(&found, measured.step_ns, self.args.strictness());
            let most = if extent == Extent::Training {
                MOST_NEXT
            } else {
                0
            };
            for next in 0..=most {
                if next > 0 && (self.ends.have_come() || !report.turn_to_next()) {
                    break;
                }
                let Some(chosen) = report.chosen() else {
                    break;
                };
                let levers = chosen.levers.clone();
                let plan = plan_file::plan(&levers, self.request, &facts);
                match self.verify(trials, &plan, &setup)? {
                    Verification::Fits(verdict) => {
                        report.verified(&verdict);
                        held = Some((report.clone(), plan, facts.clone()));
                        break;
                    }
                    Verification::DoesNot(why) => {
                        printer::say(&format!(
                            "the plan ({}) does not hold for the whole script: {why}",
                            in_short(&levers)
                        ));
                        report.reject(why);
                        // What else there is was not looked for yet.
                        report.finished = false;
                    }
                    Verification::Interrupted => {
                        report.interrupted = true;
                        self.finish(&mut report, plan, &facts)?;
                        return Ok(report);
                    }
                }
            }
            // The cheapest plan held, nothing fits in training, or there is no time to look for a cheaper one than the
            // plan that held.
            if report.rejected.is_empty() || self.ends.have_come() {
                break;
            }
        }
        if let Some((of_plan, plan, facts)) = held {
            report = of_plan;
            self.finish(&mut report, plan, &facts)?;
        }
        report.interrupted |= self.ends.was_interrupted();
        Ok(report)
    }

    /// The whole script with ample memory: what evaluation and saving take belongs to what plans are made from then.
    fn whole(&self, trials: &Trials<'_>) -> Result<Ran, Failure> {
        printer::say("the search is repeated with the whole script in every run");
        trials.run(&Setup {
            card: self.request.card.ample(),
            measured_on: None,
            plan: None,
            extent: Extent::Steady,
            facts: Gathering::Gathered,
            timeout: self.args.timeout,
        })
    }

    /// Runs the whole script under the plan as the user will.
    fn verify(
        &self,
        trials: &Trials<'_>,
        plan: &Plan,
        setup: &Setup,
    ) -> Result<Verification, Failure> {
        if self.ends.was_interrupted() {
            return Ok(Verification::Interrupted);
        }
        printer::say("the whole script under the chosen plan");
        let whole = Setup {
            plan: Some(AppliedPlan::of(plan)),
            extent: Extent::Steady,
            timeout: self.args.timeout,
            ..setup.clone()
        };
        let outcome = trials.run_anew(&whole, self.args.profile.clone())?;
        Ok(Verification::of(outcome))
    }

    /// Writes the plan, and the code that was asked for.
    fn finish(&self, report: &mut FitReport, mut plan: Plan, facts: &Facts) -> Result<(), Failure> {
        if let Some(chosen) = report.chosen() {
            plan.verified = chosen.verified.then(|| seen(chosen));
        }
        plan_file::write(&plan, &self.args.output)?;
        report.plan_file = Some(self.args.output.clone());
        if let Some(framework) = self.args.show_code {
            let writing = Writing {
                framework: match framework {
                    CodeFor::AsSeen => Framework::of(facts),
                    CodeFor::Framework(framework) => framework,
                },
                torch: torch_of(self.request),
                facts,
            };
            report.code = Some(
                plan.levers
                    .iter()
                    .map(|lever| (lever.name, code(lever, &writing)))
                    .collect(),
            );
        }
        Ok(())
    }
}

/// The script where it waits to be forked; or, when it cannot be, what came of its run with ample memory.
pub(crate) fn started(
    args: &FitArgs,
    request: &Launch,
    ample: &Setup,
    ends: &Ends,
) -> Result<(Option<Warm>, Option<Ran>), Failure> {
    if args.no_forks {
        return Ok((None, None));
    }
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::io("make a folder in", &std::env::temp_dir(), &error))?;
    let first = Launch {
        card: ample.card.clone(),
        extent: ample.extent,
        facts: ample.facts,
        profile: Some(folder.path().join("first.oomprofile")),
        ..request.clone()
    };
    let limit = ends.at.saturating_duration_since(Instant::now()) + args.timeout * 2;
    match Warm::start(&first, limit, Arc::clone(&ends.stop))? {
        Started::Waiting(warm) => Ok((Some(warm), None)),
        Started::Ran(why, outcome) => {
            printer::say(&format!("each plan starts the script anew: {why}"));
            let profile = read(&first)?;
            let ran = Ran {
                outcome: *outcome,
                profile,
            };
            Ok((None, Some(ran)))
        }
    }
}

fn seen(chosen: &Listed) -> Verified {
    Verified {
        peak_allocated_bytes: chosen.peak_allocated_bytes,
        peak_reserved_bytes: chosen.peak_reserved_bytes,
        process_bytes: chosen.process_bytes.likely,
        relative_time: chosen.relative_time,
        numerics: chosen.numerics,
        numerics_reason: chosen.numerics_reason.clone(),
    }
}

/// What came of the whole script under a plan.
enum Verification {
    Fits(Box<Verdict>),
    DoesNot(String),
    Interrupted,
}

impl Verification {
    fn of(outcome: Outcome) -> Self {
        match Exit::of_verdict(outcome.code) {
            Exit::Done => Self::Fits(Box::new(outcome.verdict)),
            Exit::Interrupted => Self::Interrupted,
            _ => Self::DoesNot(match &outcome.applied {
                Some(crate::applied_plan::Applied::Refused(refusal)) => refusal.reason.clone(),
                _ => outcome
                    .verdict
                    .reasons
                    .first()
                    .map_or_else(|| "it was not measured".to_owned(), |why| why.text.clone()),
            }),
        }
    }
}

/// The profile that a run has left.
fn read(launch: &Launch) -> Result<Profile, Failure> {
    profile_file::read(launch.profile.as_deref().unwrap_or(Path::new(PLAN)))
}

pub(crate) fn facts(profile: &Profile) -> Result<Facts, Failure> {
    let unknown = |why: &str| {
        Failure::new(
            Exit::Unknown,
            "no_facts",
            format!("what plans are made from was not found out: {why}"),
        )
    };
    let Some(note) = facts_of(profile) else {
        return Err(unknown("no second training step was seen"));
    };
    Facts::from_json(&note).map_err(|error| unknown(&error.to_string()))
}

/// The figures that the report has of one plan.
pub(crate) fn figures(verdict: &Verdict) -> (Bytes, Bytes, Estimate) {
    let peak = &verdict.peak;
    (
        peak.allocated_bytes,
        peak.reserved_bytes,
        peak.process_bytes,
    )
}

/// The levers of a plan that was found, when it was run.
pub(crate) fn verdict_of<'a>(found: &'a Found, levers: &[LeverUse]) -> Option<&'a Verdict> {
    found
        .verdicts
        .iter()
        .find(|(of, _)| of == levers)
        .map(|(_, verdict)| verdict)
}
