//! `oomproof gpus`: the cards that can be imitated, and which of them a profile fits on.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use oomproof_analysis::{Answer, Circumstances, Estimate, Strictness, Verdict};
use oomproof_gpus::{Architecture, Certainty, Gpu, Rate, all, context_bytes};
use oomproof_profile::{Profile, Record, RunSettings};
use oomproof_units::Bytes;
use serde::Serialize;

use crate::applied_plan::AppliedPlan;
use crate::card::Card;
use crate::commands::calibrate;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::launch::{Extent, Facts, Initialization, Labels, Launch, Writes, launch};
use crate::platform;
use crate::printer;
use crate::python;
use crate::resources::Resources;
use crate::torch;
use crate::torch::has_kernels_for;
use crate::valuation::Valuation;

/// The word for which slices are listed.
const SLICES: &str = "mig";
/// A card is tight when less than one part in this many is left, as in the verdict of a run.
const LEAST_HEADROOM: u64 = 50;

/// Arguments of `oomproof gpus`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GpusArgs {
    /// Only those with all of these words in their name or architecture, such as `ada` or `rtx 40`
    ///
    /// Slices of divided cards (MIG) are listed when `mig` is among the words.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,

    /// Say for each card whether the run of this profile would fit: an estimate across architectures
    #[arg(long = "for", value_name = "PROFILE")]
    pub profile: Option<PathBuf>,

    /// Run the script again on the smallest card said to fit, and on each said to be tight
    #[arg(long, requires = "profile")]
    pub verify: bool,

    /// The CUDA version for which the size of a context is given in the JSON
    #[arg(long, value_name = "VERSION", default_value = "13.2", value_parser = cuda_version, conflicts_with = "profile")]
    pub cuda: u32,

    /// Measure how fast the GPU of this machine is; `run` and `fit` go by that for cards of its name
    #[arg(long, conflicts_with_all = ["words", "profile", "verify"])]
    pub calibrate: bool,

    /// The Python that measures; by default the first in PATH
    #[arg(long, value_name = "PATH", requires = "calibrate")]
    pub python: Option<PathBuf>,

    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

/// The list in the form of its JSON.
#[derive(Clone, Debug, Serialize)]
struct List {
    schema: u32,
    r#for: Option<String>,
    gpus: Vec<Line>,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    id: &'static str,
    name: &'static str,
    /// The card that this is a slice of.
    slice_of: Option<&'static str>,
    architecture: &'static str,
    #[serde(skip)]
    generation: Architecture,
    compute_capability: String,
    total_bytes: Bytes,
    /// Memory as it is sold.
    sold_bytes: Bytes,
    /// How the total is known: `exact`, `whole_mib` or `estimated`.
    certainty: &'static str,
    multiprocessors: u32,
    context_bytes: Estimate,
    memory_bytes_per_second: u64,
    operations_per_second: Operations,
    sources: &'static [&'static str],
    fit: Option<Fit>,
}

/// Dense arithmetic by number format at the boost clock.
#[derive(Clone, Debug, Serialize)]
struct Operations {
    fp32: u64,
    tf32: Option<u64>,
    fp16: u64,
    bf16: Option<u64>,
    fp8: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Fit {
    answer: Guess,
    process_bytes: Estimate,
    /// The verdict of a rerun on this card.
    verified: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Guess {
    Fits,
    Tight,
    No,
    /// The run did not show all it needs, and what it showed fits.
    Unknown,
}

impl Guess {
    const fn word(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Tight => "tight",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// A recorded run, and what it needs on any card.
struct Recorded {
    settings: RunSettings,
    need: Need,
}

/// What a run needs apart from the context.
#[derive(Clone, Copy, Debug)]
struct Need {
    reserved: Bytes,
    libraries: Estimate,
    /// More than this much was asked for on the recorded card.
    at_least: Bytes,
    /// The run showed all it needs.
    whole: Extent,
}

/// Prints the list.
pub(crate) fn gpus(args: &GpusArgs, resources: Resources) -> Result<Exit, Failure> {
    if args.calibrate {
        return calibrate::calibrate(args.python.as_deref());
    }
    let recorded = args.profile.as_deref().map(read).transpose()?;
    let chosen = chosen(&args.words)?;
    let mut lines: Vec<Line> = chosen
        .into_iter()
        .map(|gpu| line(gpu, recorded.as_ref(), args.cuda))
        .collect();
    if let Some(recorded) = recorded.as_ref().filter(|_| args.verify) {
        verify(&mut lines, recorded, resources)?;
    }
    let list = List {
        schema: 1,
        r#for: args.profile.as_ref().map(|path| path.display().to_string()),
        gpus: lines,
    };
    if args.json {
        printer::json(&list)?;
    } else {
        printer::data(&table(&list))?;
    }
    Ok(Exit::Done)
}

/// `12.8` as CUDA writes it.
fn cuda_version(text: &str) -> Result<u32, String> {
    let refused = || format!("`{text}` is no CUDA version such as 12.8");
    let (major, minor) = text.split_once('.').ok_or_else(refused)?;
    match (major.parse::<u32>(), minor.parse::<u32>()) {
        (Ok(major @ 9..=99), Ok(minor @ 0..=9)) => Ok(major * 1000 + minor * 10),
        _ => Err(refused()),
    }
}

fn chosen(words: &[String]) -> Result<Vec<&'static Gpu>, Failure> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let slices = words.iter().any(|word| word == SLICES);
    let has_all = |gpu: &Gpu| {
        let text = format!("{} {} {}", gpu.id, gpu.name, gpu.architecture.word()).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let found: Vec<&Gpu> = all()
        .iter()
        .filter(|gpu| (slices || gpu.slice_of().is_none()) && has_all(gpu))
        .collect();
    if found.is_empty() {
        return Err(Failure::usage(
            "unknown_gpu",
            format!(
                "no GPU of the catalog has `{}` in its name",
                words.join(" ")
            ),
        )
        .hint("`oomproof gpus` lists all"));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Recorded, Failure> {
    let refused = |why: String| {
        Failure::new(
            Exit::InputRefused,
            "corrupt_profile",
            format!("the profile {} cannot be read: {why}", path.display()),
        )
        .hint("`oomproof run` prints the path of the profile it made")
    };
    let bytes = fs::read(path).map_err(|error| refused(crate::failure::reason(&error)))?;
    let profile = Profile::read(&bytes).map_err(|error| refused(error.to_string()))?;
    let ended_by_itself = Circumstances {
        exit_code: Some(0),
        ..Circumstances::default()
    };
    let verdict = Verdict::from_profile(&profile, &ended_by_itself)
        .map_err(|error| refused(error.to_string()))?;
    let settings = profile
        .records
        .iter()
        .find_map(|record| match record {
            Record::Note { json, .. } => {
                let note: serde_json::Value = serde_json::from_str(json).ok()?;
                (note["kind"] == "settings")
                    .then(|| serde_json::from_value(note["settings"].clone()).ok())?
            }
            _ => None,
        })
        .ok_or_else(|| refused("it does not say under which settings it was made".to_owned()))?;
    Ok(Recorded {
        settings,
        need: need(&verdict),
    })
}

fn need(verdict: &Verdict) -> Need {
    let fatal = verdict.oom.as_ref().filter(|oom| !oom.survived);
    Need {
        reserved: verdict.peak.reserved_bytes,
        libraries: verdict.library_bytes,
        at_least: fatal
            .and_then(|oom| oom.would_have_fitted_bytes)
            .unwrap_or(Bytes::ZERO),
        whole: if matches!(verdict.verdict, Answer::Fits | Answer::Tight) {
            Extent::Full
        } else {
            Extent::Steady
        },
    }
}

fn line(gpu: &'static Gpu, recorded: Option<&Recorded>, cuda: u32) -> Line {
    let cuda = recorded.map_or(cuda, |recorded| recorded.settings.cuda_version);
    let rates = gpu.rates();
    let context = Estimate::from(context_bytes(gpu, cuda));
    let (major, minor) = gpu.device_settings().compute_capability;
    Line {
        id: gpu.id,
        name: gpu.name,
        slice_of: gpu.slice_of(),
        architecture: gpu.architecture.word(),
        generation: gpu.architecture,
        compute_capability: format!("{major}.{minor}"),
        total_bytes: gpu.total,
        sold_bytes: gpu.marketing_memory,
        certainty: match gpu.certainty {
            Certainty::Exact => "exact",
            Certainty::WholeMib => "whole_mib",
            Certainty::Estimated => "estimated",
        },
        multiprocessors: gpu.multiprocessors,
        context_bytes: context,
        memory_bytes_per_second: gpu.memory_bandwidth().per_second(),
        operations_per_second: Operations {
            fp32: rates.fp32.per_second(),
            tf32: rates.tf32.map(Rate::per_second),
            fp16: rates.fp16.per_second(),
            bf16: rates.bf16.map(Rate::per_second),
            fp8: rates.fp8.map(Rate::per_second),
        },
        sources: gpu.sources,
        fit: recorded.map(|recorded| {
            let mut fit = fit(recorded.need, context, gpu.total);
            if !has_kernels_for(&recorded.settings.torch_version, cuda, (major, minor)) {
                fit.answer = Guess::No;
            }
            fit
        }),
    }
}

fn fit(need: Need, context: Estimate, total: Bytes) -> Fit {
    let process = Estimate::exact(need.reserved) + need.libraries + context;
    let left = total.saturating_sub(process.likely);
    let answer = if process.likely > total || need.at_least > total {
        Guess::No
    } else if need.whole != Extent::Full {
        Guess::Unknown
    } else if process.high > total || left < Bytes::new(total.get() / LEAST_HEADROOM) {
        Guess::Tight
    } else {
        Guess::Fits
    };
    Fit {
        answer,
        process_bytes: process,
        verified: None,
    }
}

/// Runs the recorded script again where the estimate matters most.
fn verify(lines: &mut [Line], recorded: &Recorded, resources: Resources) -> Result<(), Failure> {
    platform::check("gpus --verify")?;
    let settings = &recorded.settings;
    let [python, arguments @ ..] = &settings.command[..] else {
        return Err(Failure::new(
            Exit::InputRefused,
            "corrupt_profile",
            "the profile does not say which command it is of",
        ));
    };
    let python = python::interpreter(Some(Path::new(python)))?;
    let torch = torch::usable(&python)?;
    let resources = resources.found()?;
    let smallest = |lines: &[Line], guess| {
        lines
            .iter()
            .filter(|line| line.fit.as_ref().is_some_and(|fit| fit.answer == guess))
            .min_by_key(|line| line.total_bytes)
            .map(|line| line.id)
    };
    let chosen = [
        smallest(lines, Guess::Fits),
        smallest(lines, Guess::Unknown),
    ];
    for line in lines {
        let Some(fit) = &mut line.fit else { continue };
        if fit.answer != Guess::Tight && !chosen.contains(&Some(line.id)) {
            continue;
        }
        let Some(gpu) = all().iter().find(|gpu| gpu.id == line.id) else {
            continue;
        };
        printer::say(&format!(
            "{} again, on a virtual {}",
            arguments.join(" "),
            gpu.name
        ));
        let outcome = launch(&Launch {
            card: Card::of_gpu(gpu),
            n_devices: settings.device_count,
            python: python.clone(),
            torch: torch.clone(),
            resources: resources.clone(),
            arguments: arguments.iter().map(Into::into).collect(),
            name: arguments.join(" "),
            folder: Some(settings.cwd.clone()),
            steps: settings.steps,
            timeout: Duration::from_secs(settings.timeout_secs.max(1)),
            extent: if settings.full {
                Extent::Full
            } else {
                Extent::Steady
            },
            initialization: if settings.real_init {
                Initialization::Real
            } else {
                Initialization::Skipped
            },
            labels: if settings.labels {
                Labels::Attached
            } else {
                Labels::Absent
            },
            // Only the user can say so, for this run.
            writes: Writes::Redirected,
            valuation: Valuation {
                values: settings.values,
                routing: settings.routing,
                assume: settings.assume.clone(),
            },
            batch_size: settings.batch_size,
            profile: None,
            snapshot: None,
            plan: settings.plan.clone().map(AppliedPlan::from_json),
            facts: Facts::Ignored,
            warm: None,
            strictness: Strictness::Lenient,
        })?;
        fit.verified = Some(outcome.verdict.verdict);
    }
    Ok(())
}

/// By generation from the oldest, each from the smallest memory to the largest.
fn table(list: &List) -> String {
    let mut text = String::new();
    let wide = list.gpus.iter().map(|line| line.id.len()).max();
    let wide = wide.unwrap_or_default();
    let generations: BTreeSet<_> = list.gpus.iter().map(|line| line.generation).collect();
    let mut words: Vec<&str> = generations.iter().map(|one| one.word()).collect();
    words.dedup();
    for word in words {
        let _ = writeln!(text, "{word}");
        for line in list.gpus.iter().filter(|line| line.architecture == word) {
            let memory = match line.certainty {
                "estimated" => format!("~{}", line.total_bytes),
                _ => line.total_bytes.to_string(),
            };
            let end = match &line.fit {
                None => line.name.to_owned(),
                Some(fit) => format!(
                    "{:<8}about {}{}",
                    fit.answer.word(),
                    fit.process_bytes.likely,
                    fit.verified.map_or_else(String::new, |answer| format!(
                        ", verified: {}",
                        verified_word(answer)
                    ))
                ),
            };
            let _ = writeln!(
                text,
                "  {:<wide$}{memory:>12}{:>6}  {end}",
                line.id, line.compute_capability
            );
        }
        text.push('\n');
    }
    text.push_str(
        "~ before a memory: estimated. `oomproof gpus mig` lists the slices of divided cards.\n",
    );
    if list.r#for.is_some() {
        text.push_str(
            "\nEstimated from the recorded run: kernels and workspaces differ between\n\
             architectures. `--verify` runs the script again on the cards in question.\n",
        );
    }
    text
}

const fn verified_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Fits => "fits",
        Answer::Tight => "tight",
        Answer::DoesNotFit => "does not fit",
        Answer::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reserved_mib: u64, at_least_mib: u64, whole: Extent, total_mib: u64, expected: Guess) {
        let mib = Bytes::from_mib;
        let need = Need {
            reserved: mib(reserved_mib),
            libraries: Estimate::default(),
            at_least: mib(at_least_mib),
            whole,
        };
        let context = Estimate {
            low: mib(100),
            likely: mib(200),
            high: mib(400),
        };
        assert_eq!(fit(need, context, mib(total_mib)).answer, expected);
    }

    #[test]
    fn words_choose() {
        fn check(words: &str, ids: &[&str]) {
            let words: Vec<String> = words.split_whitespace().map(Into::into).collect();
            let found: Vec<&str> = chosen(&words).unwrap().iter().map(|gpu| gpu.id).collect();
            assert_eq!(found, ids, "{words:?}");
        }
        check("volta sxm2", &["v100-16gb", "v100-32gb"]);
        check("3090", &["rtx-3090-ti", "rtx-3090"]);
        check("MIG a30", &["a30:1g.6gb", "a30:2g.12gb"]);
        check("a30", &["rtx-a3000-12gb-laptop", "a30"]);
        assert_eq!(
            chosen(&["toaster".to_owned()]).unwrap_err().id,
            "unknown_gpu"
        );
        assert!(
            chosen(&[])
                .unwrap()
                .iter()
                .all(|gpu| gpu.slice_of().is_none())
        );
    }

    #[test]
    fn cuda_versions_are_read() {
        fn check(text: &str, expected: Option<u32>) {
            assert_eq!(cuda_version(text).ok(), expected, "{text}");
        }
        check("12.8", Some(12_080));
        check("13.2", Some(13_020));
        check("12", None);
        check("12.x", None);
        check("1.2", None);
    }

    #[test]
    fn cards_are_judged_by_the_process_total() {
        check(7000, 0, Extent::Full, 8000, Guess::Fits);
        check(7600, 0, Extent::Full, 8000, Guess::Fits);
        check(7601, 0, Extent::Full, 8000, Guess::Tight);
        check(7700, 0, Extent::Full, 8000, Guess::Tight);
        check(7800, 0, Extent::Full, 8000, Guess::Tight);
        check(7801, 0, Extent::Full, 8000, Guess::No);
    }

    #[test]
    fn a_run_that_was_cut_short_only_excludes() {
        check(100, 0, Extent::Steady, 8000, Guess::Unknown);
        check(7801, 0, Extent::Steady, 8000, Guess::No);
        check(100, 9000, Extent::Steady, 8000, Guess::No);
    }
}
