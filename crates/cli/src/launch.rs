//! One virtual run: folders, settings, the script, its profile, its verdict.
//!
//! Everything that can be refused is refused before the script starts, and from then on there is always a verdict:
//! whatever ends the script, the profile holds what was seen until then.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use oomproof_analysis::{AnalysisError, Circumstances, EndedBy, Strictness, Verdict};
use oomproof_profile::{RunSettings, WarmSettings};

use crate::applied_plan::{self, Applied, AppliedPlan, allocator_settings};
use crate::calibration;
use crate::card::Card;
use crate::child::{self, Ended};
use crate::failure::{Failure, reason};
use crate::folders;
use crate::notebook::{self, NotebookCommand};
use crate::profile_file;
use crate::pruning;
use crate::python::Interpreter;
use crate::ranks::{self, RankProfiles};
use crate::resources::FoundResources;
use crate::smi;
use crate::standin_cache;
use crate::torch::Torch;
use crate::valuation::Valuation;

/// Everything a run needs, checked.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The card to imitate.
    pub card: Card,
    /// How many of it there are.
    pub n_devices: u32,
    /// The user's Python.
    pub python: Interpreter,
    /// The torch in it.
    pub torch: Torch,
    /// The agent and the virtual device.
    pub resources: FoundResources,
    /// What Python gets: `SCRIPT ARGS` or `-m MODULE ARGS`.
    pub arguments: Vec<OsString>,
    /// The name the profile gets.
    pub name: String,
    /// The folder to start in; `None` for the current one.
    pub folder: Option<PathBuf>,
    /// Stop after so many steps.
    pub steps: Option<u32>,
    /// How long the script may run.
    pub timeout: Duration,
    /// Whether a steady peak ends the run.
    pub extent: Extent,
    /// Whether large parameters are initialized.
    pub initialization: Initialization,
    /// Whether memory is labeled.
    pub labels: Labels,
    /// Whether the script's files are out of its reach.
    pub writes: Writes,
    /// What the user says about unknown values.
    pub valuation: Valuation,
    /// The batch size of its loaders in place of the script's own.
    pub batch_size: Option<u64>,
    /// Where the profile goes; `None` for the folder of profiles.
    pub profile: Option<PathBuf>,
    /// Where PyTorch's memory snapshot of the run goes; `None` when none is wanted.
    pub snapshot: Option<PathBuf>,
    /// What is changed in the script; `None` to run it as it is.
    pub plan: Option<AppliedPlan>,
    /// Whether what a plan is made from is found out.
    pub facts: Facts,
    /// Where the script waits before its first use of the device; `None` when it does not.
    pub warm: Option<WarmSettings>,
    /// What a tight fit counts as.
    pub strictness: Strictness,
}

/// How much of the script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Until the peak of its steps is steady, and then what comes after training.
    Steady,
    /// Until the peak of its steps is steady.
    Training,
    /// All.
    Full,
}

/// What becomes of the initialization of large parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initialization {
    /// It is skipped: their values do not matter to memory.
    Skipped,
    /// It is done.
    Real,
}

/// What is known of memory besides its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// Its role, module and source line.
    Attached,
    /// Nothing: the script runs without the hooks that find them out.
    Absent,
}

/// Whether the agent finds out what a plan is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facts {
    /// It leaves the note `plan_facts`.
    Gathered,
    /// It does not.
    Ignored,
}

/// What becomes of what the script writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// It goes to a scratch folder that is removed.
    Redirected,
    /// It goes where the script wants it.
    Allowed,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The exit code that goes with it.
    pub code: u8,
    /// What became of the plan; `None` when there was none.
    pub applied: Option<Applied>,
}

/// The folder of one run; it vanishes with its owner.
struct RunFolder {
    folder: tempfile::TempDir,
    profiles: PathBuf,
    scratch: PathBuf,
    settings: PathBuf,
}

impl RunFolder {
    fn new() -> Result<Self, Failure> {
        let place = env::temp_dir();
        let failed = |error: &std::io::Error| {
            let failure = Failure::io("make a folder for the run in", &place, error);
            if failure.hints.is_empty() {
                failure.hint("set TMPDIR to a folder that you can write to")
            } else {
                failure
            }
        };
        let folder = tempfile::Builder::new()
            .prefix("oomproof-")
            .tempdir()
            .map_err(|error| failed(&error))?;
        let profiles = folder.path().join("profiles");
        let scratch = folder.path().join("scratch");
        for path in [&profiles, &scratch] {
            fs::create_dir(path).map_err(|error| failed(&error))?;
        }
        let settings = folder.path().join("run.json");
        Ok(Self {
            folder,
            profiles,
            scratch,
            settings,
        })
    }
}

/// Runs the script and judges it.
pub(crate) fn launch(launch: &Launch) -> Result<Outcome, Failure> {
    let mut prepared = Prepared::new(launch)?;
    let ended = child::run(prepared.command()?, launch.timeout)
        .map_err(|error| not_started(launch, &error))?;
    prepared.judge(&ended)
}

/// The interpreter could not be started.
pub(crate) fn not_started(launch: &Launch, error: &std::io::Error) -> Failure {
    Failure::environment(
        "no_python",
        format!(
            "`{}` cannot be started: {}",
            launch.python.path.display(),
            reason(error)
        ),
    )
}

/// A run with its folder and its settings written, before anything is started.
pub(crate) struct Prepared<'a> {
    launch: &'a Launch,
    run: RunFolder,
    settings: RunSettings,
    notebook: Option<NotebookCommand>,
    /// The script's `PATH`.
    path: OsString,
}

impl<'a> Prepared<'a> {
    /// Makes the folder and writes the settings.
    pub(crate) fn new(launch: &'a Launch) -> Result<Self, Failure> {
        let run = RunFolder::new()?;
        let standins = standin_cache::standins(
            launch.torch.cuda_major(),
            &launch.resources.vgpu,
            folders::standins().as_deref(),
            run.folder.path(),
        )?;
        let settings = settings(launch, &run, &standins)?;
        let notebook = notebook::command(&launch.arguments, &settings.cwd, run.folder.path())?;
        let text = serde_json::to_vec_pretty(&settings).map_err(|error| {
            Failure::environment("io", format!("the settings cannot be written: {error}"))
        })?;
        fs::write(&run.settings, text)
            .map_err(|error| Failure::io("write", &run.settings, &error))?;
        let bin = run.folder.path().join("bin");
        let path = smi::install(
            &bin,
            &launch.python.path,
            &launch.resources.agent,
            &run.settings,
        )
        .map_err(|error| Failure::io("write", &bin, &error))?;
        Ok(Self {
            launch,
            run,
            settings,
            notebook,
            path,
        })
    }

    /// What starts the script in a process of its own.
    pub(crate) fn command(&mut self) -> Result<Command, Failure> {
        command(self.launch, &self.run, self.notebook.take(), &self.path)
    }

    /// The file of the settings.
    pub(crate) fn settings_file(&self) -> &Path {
        &self.run.settings
    }

    /// The folder of the run, which vanishes when it is judged.
    pub(crate) fn folder(&self) -> &Path {
        self.run.folder.path()
    }

    /// The folder alone, for a process that is not to be judged; it vanishes when that is dropped.
    pub(crate) fn into_folder(self) -> tempfile::TempDir {
        self.run.folder
    }

    /// What the ended run has shown.
    pub(crate) fn judge(self, ended: &Ended) -> Result<Outcome, Failure> {
        if let Some(target) = &self.launch.snapshot {
            keep_snapshot(&self.run.profiles, ended.pid, target)?;
        }
        judge(self.launch, self.run, &self.settings, ended)
    }
}

/// Takes the snapshot that the process left, or of several the largest: a launcher of ranks leaves none itself.
fn keep_snapshot(profiles: &Path, pid: u32, target: &Path) -> Result<(), Failure> {
    let own = profiles.join(format!("{pid}.snapshot"));
    let entries = fs::read_dir(profiles).map_err(|error| Failure::io("read", profiles, &error))?;
    let mut others: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|end| end == "snapshot")
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path())))
        .collect();
    others.sort();
    let found = if own.exists() {
        Some(own)
    } else {
        others.pop().map(|(_, path)| path)
    };
    let Some(found) = found else {
        crate::printer::say("there is no snapshot: the script did not use the GPU or was killed");
        return Ok(());
    };
    fs::copy(&found, target)
        .map(|_| ())
        .map_err(|error| Failure::io("write", target, &error))
}

fn command(
    launch: &Launch,
    run: &RunFolder,
    notebook: Option<NotebookCommand>,
    path: &OsStr,
) -> Result<Command, Failure> {
    let agent = &launch.resources.agent;
    let inherited = env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
    let paths = std::iter::once(agent.clone())
        .chain(inherited.iter().flat_map(|path| env::split_paths(path)));
    let python_path = env::join_paths(paths).map_err(|_| {
        Failure::environment(
            "incomplete_installation",
            format!("the folder {} cannot stand in PYTHONPATH", agent.display()),
        )
        .hint("install oomproof in a folder whose path has no colon")
    })?;
    let (arguments, folder) = match notebook {
        Some(notebook) => (notebook.arguments, Some(notebook.folder)),
        None => (launch.arguments.clone(), launch.folder.clone()),
    };
    let mut command = Command::new(&launch.python.path);
    command
        .args(arguments)
        .env("OOMPROOF_RUN", &run.settings)
        .env("PYTHONPATH", python_path)
        .env("PATH", path)
        .envs(launch.plan.as_ref().and_then(AppliedPlan::environment))
        // Both streams of the script are talk: our standard output carries the verdict alone.
        .stdout(Stdio::from(std::io::stderr()));
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    Ok(command)
}

fn settings(launch: &Launch, run: &RunFolder, standins: &Path) -> Result<RunSettings, Failure> {
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| Failure::io("find", path, &error));
    let cwd = match &launch.folder {
        Some(folder) => folder.clone(),
        None => env::current_dir().map_err(|error| Failure::io("find", Path::new("."), &error))?,
    };
    Ok(RunSettings {
        schema: 1,
        device: calibration::applied(launch.card.device_settings())?,
        device_count: launch.n_devices,
        reserved_by_others_bytes: launch.card.others.get(),
        context_bytes: launch.card.context(launch.torch.cuda_version),
        cuda_version: launch.torch.cuda_version,
        cudnn_version: launch.torch.cudnn_version,
        nccl_version: launch.torch.nccl_version,
        torch_version: launch.torch.version.clone(),
        torch_assumption: launch.torch.assumption.clone(),
        standins: absolute(standins)?,
        vgpu: absolute(&launch.resources.vgpu)?,
        run_dir: absolute(&run.profiles)?,
        scratch: absolute(&run.scratch)?,
        steps: launch.steps,
        full: launch.extent == Extent::Full,
        timeout_secs: launch.timeout.as_secs(),
        real_init: launch.initialization == Initialization::Real,
        allow_writes: launch.writes == Writes::Allowed,
        labels: launch.labels == Labels::Attached,
        command: std::iter::once(launch.python.path.as_os_str())
            .chain(launch.arguments.iter().map(OsString::as_os_str))
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        cwd,
        values: launch.valuation.values,
        routing: launch.valuation.routing,
        assume: launch.valuation.assume.clone(),
        batch_size: launch.batch_size,
        snapshot: launch.snapshot.is_some(),
        plan: launch.plan.as_ref().map(AppliedPlan::to_json),
        probe: launch.facts == Facts::Gathered,
        training_only: launch.extent == Extent::Training,
        warm: launch.warm.clone(),
    })
}

fn judge(
    launch: &Launch,
    run: RunFolder,
    settings: &RunSettings,
    ended: &Ended,
) -> Result<Outcome, Failure> {
    if let Some(failure) = profile_file::agent_failure(&run.profiles) {
        return Err(failure);
    }
    let applied = match &launch.plan {
        Some(_) => Some(applied_plan::outcome(&run.profiles)?),
        None => None,
    };
    if let Some(profiles) = ranks::of_run(&run.profiles)? {
        return judge_ranks(launch, run, &profiles, ended, applied);
    }
    let mut paths = profile_file::of_script(&run.profiles, ended.pid)?;
    if paths.is_empty() {
        paths.push(profile_file::write_empty(
            &run.profiles,
            ended.pid,
            settings,
        )?);
    }
    let mut profiles = Vec::new();
    for path in &paths {
        let mut notes = launcher_notes(launch);
        if applied == Some(Applied::NotReached) {
            notes.push(applied_plan::not_reached());
        }
        if ended.by == EndedBy::Timeout {
            let waiting_for = profile_file::waiting_for(path)?;
            notes.push(serde_json::json!({
                "kind": "stop", "reason": "timeout", "waiting_for": waiting_for,
            }));
        }
        profile_file::append_notes(path, &notes)?;
        profiles.push(profile_file::read(path)?);
    }
    let circumstances = circumstances(launch, ended);
    let judged = Verdict::of_processes(&profiles, u64::from(ended.pid), &circumstances);
    let (at, mut verdict) = judged
        .and_then(|judged| judged.ok_or(AnalysisError::NoSettings))
        .map_err(|error| profile_file::corrupt(&paths[0], &error.to_string()))?;
    let kept = keep(launch, run, &paths[at], ended);
    verdict.profile = kept.to_string_lossy().into_owned();
    let code = verdict.exit_code(&circumstances);
    Ok(Outcome {
        verdict,
        code,
        applied,
    })
}

/// What only the launcher knows and every profile is to say.
fn launcher_notes(launch: &Launch) -> Vec<serde_json::Value> {
    let mut notes = Vec::new();
    if let Some(text) = &launch.card.assumption {
        notes.push(serde_json::json!({
            "kind": "assumption", "assumption": "generic_card", "text": text, "where": null,
        }));
    }
    notes
}

/// Judges a run of several ranks.
fn judge_ranks(
    launch: &Launch,
    run: RunFolder,
    profiles: &RankProfiles,
    ended: &Ended,
    applied: Option<Applied>,
) -> Result<Outcome, Failure> {
    for path in profiles.paths.values() {
        let mut notes = launcher_notes(launch);
        if ended.by == EndedBy::Timeout {
            let waiting_for = profile_file::waiting_for(path)?;
            notes.push(serde_json::json!({
                "kind": "stop", "reason": "timeout", "waiting_for": waiting_for,
            }));
        }
        profile_file::append_notes(path, &notes)?;
    }
    let circumstances = circumstances(launch, ended);
    let mut verdict = profiles.judge(&circumstances)?;
    let target = target(launch, ended);
    let mut kept = Ok(());
    for line in verdict.ranks.iter_mut().flatten() {
        let path = &profiles.paths[&line.rank];
        let to = target.as_ref().map(|target| {
            if verdict.rank == Some(line.rank) {
                target.clone()
            } else {
                ranks::beside(target, line.rank)
            }
        });
        let moved = match &to {
            Some(to) => profile_file::move_to(path, to),
            None => Err(std::io::Error::other("there is no home folder")),
        };
        let stays = to.filter(|_| moved.is_ok()).unwrap_or_else(|| path.clone());
        line.profile = stays.to_string_lossy().into_owned();
        if verdict.rank == Some(line.rank) {
            verdict.profile.clone_from(&line.profile);
        }
        kept = kept.and(moved);
    }
    if let Err(error) = kept {
        stay(run, target.as_deref(), &error);
    }
    let code = verdict.exit_code(&circumstances);
    Ok(Outcome {
        verdict,
        code,
        applied,
    })
}

fn circumstances(launch: &Launch, ended: &Ended) -> Circumstances {
    Circumstances {
        exit_code: ended.exit_code,
        signal: ended.signal,
        ended_by: ended.by,
        profile: String::new(),
        conf: allocator_settings(launch.plan.as_ref()),
        strictness: launch.strictness,
        ..Circumstances::default()
    }
}

/// Moves the profile to where it stays. When it cannot be moved the folder of the run stays instead.
fn keep(launch: &Launch, run: RunFolder, path: &Path, ended: &Ended) -> PathBuf {
    let target = target(launch, ended);
    let moved = match &target {
        Some(target) => profile_file::move_to(path, target),
        None => Err(std::io::Error::other("there is no home folder")),
    };
    match (moved, target) {
        (Ok(()), Some(target)) => {
            if launch.profile.is_none()
                && let Some(folder) = folders::profiles()
            {
                pruning::prune(&folder, pruning::ALLOWANCE);
            }
            target
        }
        (Err(error), target) => {
            stay(run, target.as_deref(), &error);
            path.to_path_buf()
        }
        (Ok(()), None) => path.to_path_buf(),
    }
}

/// Where the profile is to be kept.
fn target(launch: &Launch, ended: &Ended) -> Option<PathBuf> {
    match &launch.profile {
        Some(named) => Some(named.clone()),
        None => {
            folders::profiles().map(|folder| folder.join(profile_name(&launch.name, ended.pid)))
        }
    }
}

/// The folder of the run stays, because a profile is worth more than a tidy temporary folder.
fn stay(run: RunFolder, target: Option<&Path>, error: &std::io::Error) {
    let folder = run.folder.keep();
    let where_to = target.map_or_else(String::new, |target| format!(" to {}", target.display()));
    crate::printer::say(&format!(
        "the profile cannot be moved{where_to}: {}; it stays in {}",
        reason(error),
        folder.display()
    ));
    let _ = fs::remove_dir_all(folder.join("scratch"));
}

/// `train-1796047112-4242.oomprofile`.
fn profile_name(script: &str, pid: u32) -> String {
    let stem = Path::new(script)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let stem: String = stem
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let stem = stem.trim_matches(['-', '.']);
    let stem = if stem.is_empty() { "script" } else { stem };
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    format!("{stem}-{seconds}-{pid}.{}", profile_file::EXTENSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, begins: &str) {
        let name = profile_name(script, 7);
        assert!(name.starts_with(begins), "{name}");
        assert!(name.ends_with("-7.oomprofile"), "{name}");
    }

    #[test]
    fn profiles_are_named_after_the_script() {
        check("train.py", "train-1");
        check("a/b/finetune llama.py", "finetune-llama-1");
        check("-m pkg", "m-pkg-1");
        check("-", "script-1");
    }
}
