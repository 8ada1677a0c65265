//! `oomproof replay`: a recorded trace under the allocator's settings, the recorded ones and others.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use oomproof_allocator::{Release, SettingsError};
use oomproof_gpus::{all, context_bytes, find};
use oomproof_replay::{
    Available, DeviceReplay, Knowledge, Question, Replay, ReplayError, Search, Stop, Tried,
    Undecided, variable,
};
use oomproof_snapshot::{Snapshot, write_snapshot};
use oomproof_units::Bytes;
use serde::Serialize;

use crate::card::unknown_gpu;
use crate::commands::diff::GrowthForm;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer;
use crate::replay_text;
use crate::snapshot_file;

/// Settings of a search that are shown.
const MOST_SHOWN: usize = 6;
/// The context is that of this CUDA version, where a card's is needed.
const CUDA: u32 = 12_080;
/// Anything longer says that it goes on.
const SILENCE: Duration = Duration::from_secs(1);

/// Arguments of `oomproof replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The snapshot, plain, compressed or in a page of PyTorch's viewer, or a profile of `oomproof run`
    #[arg(value_name = "SNAPSHOT")]
    pub snapshot: PathBuf,

    /// Settings to try, such as `expandable_segments:True`; can be given several times
    #[arg(long, value_name = "STR")]
    pub conf: Vec<String>,

    /// Try the sensible settings of the release, a few hundred, and print the best
    #[arg(long)]
    pub search: bool,

    /// Replay on this card; by default on what the snapshot shows of the memory that there was
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// The memory that PyTorch may take, such as 22g; the context of CUDA is not part of it
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,

    /// The release of torch that recorded it, such as 2.8; by default it is inferred
    #[arg(long, value_name = "VERSION")]
    pub torch: Option<Release>,

    /// Only this device
    #[arg(long, value_name = "N")]
    pub device: Option<u32>,

    /// Write the replay under the recorded settings as a snapshot that PyTorch's viewer opens
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The result in the form of its JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub schema: u32,
    pub snapshot: String,
    pub torch: TorchForm,
    pub devices: Vec<DeviceForm>,
    pub recorded: SettingForm,
    pub match_percent: f64,
    pub undecided: Vec<UndecidedForm>,
    pub settings: Vec<SettingForm>,
    pub search: Option<SearchForm>,
    /// The highest floor of a device.
    pub floor_bytes: Bytes,
    /// The highest packing of a device.
    pub packed_bytes: Bytes,
    pub packed_is_optimal: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct TorchForm {
    /// Whose rules were used.
    pub release: String,
    /// What the keys of the snapshot allow.
    pub possible: String,
}

/// One device.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceForm {
    pub device: u32,
    pub entries: usize,
    pub requests: usize,
    pub complete: bool,
    pub match_percent: f64,
    pub first_difference: Option<DifferenceForm>,
    pub peak_reserved_bytes: Bytes,
    pub replayed_peak_reserved_bytes: Bytes,
    pub retries: u64,
    pub ooms: u64,
    pub available_bytes: Option<Bytes>,
    /// `unknown`, `at_failure`, `limited`, `between` or `given`.
    pub available_is: &'static str,
    pub available_below_bytes: Option<Bytes>,
    pub floor_bytes: Bytes,
    pub packed_bytes: Bytes,
    pub packed_is_optimal: bool,
    pub growth: Option<GrowthForm>,
    #[serde(skip)]
    pub growth_text: Option<String>,
    #[serde(skip)]
    pub compared: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct DifferenceForm {
    pub entry: usize,
    pub recorded: String,
    pub replayed: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct UndecidedForm {
    pub id: &'static str,
    pub count: u64,
    pub text: &'static str,
}

/// What settings mean.
#[derive(Debug, Serialize)]
pub(crate) struct SettingForm {
    pub conf: String,
    pub peak_reserved_bytes: Bytes,
    pub oom: bool,
    pub stop: Option<StopForm>,
    pub cudamalloc_calls: u64,
    pub retries: u64,
    pub peak_allocated_bytes: Bytes,
    /// Reserved and not allocated at the peak of reserved bytes.
    pub unused_at_peak_bytes: Bytes,
    pub largest_free_at_peak_bytes: Bytes,
    pub above_floor_bytes: Bytes,
    /// The least memory for PyTorch that is enough; null where it was not looked for, or no memory is.
    pub smallest_bytes: Option<Bytes>,
    pub smallest_card: Option<&'static str>,
    pub peak_reserved_bytes_by_device: Vec<Bytes>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StopForm {
    /// `out_of_memory`, `rejected` or `internal`.
    pub kind: &'static str,
    pub device: u32,
    pub entry: usize,
    pub requested_bytes: Option<Bytes>,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct SearchForm {
    pub tried: usize,
    pub surviving: usize,
    /// Whether some settings are better than the recorded ones.
    pub helps: bool,
    pub reason: String,
    pub set: Option<VariableForm>,
    pub best: Vec<SettingForm>,
}

#[derive(Debug, Serialize)]
pub(crate) struct VariableForm {
    pub variable: &'static str,
    pub value: String,
    pub peak_reserved_bytes: Bytes,
}

/// Replays and prints.
pub(crate) fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    let snapshot = snapshot_file::read(&args.snapshot)?;
    let knowledge = knowledge(args)?;
    let replay = Replay::new(&snapshot, &knowledge).map_err(|error| refused(args, &error))?;
    let asked = args
        .conf
        .iter()
        .map(|conf| replay.what_if(conf).map_err(|error| not_a_setting(&error)))
        .collect::<Result<Vec<Tried>, Failure>>()?;
    let search = args.search.then(|| searched(&replay));
    let report = report(args, &replay, &asked, search.as_ref())?;
    if let Some(path) = &args.write {
        write(args, &snapshot, &replay, path)?;
    }
    if args.json {
        printer::json(&report)?;
    } else {
        printer::data(&replay_text::text(&report))?;
    }
    let is_asked = !asked.is_empty() || search.is_some();
    let gets_through =
        asked.iter().any(Tried::survives) || search.is_some_and(|search| search.n_surviving > 0);
    Ok(if is_asked && !gets_through {
        Exit::DoesNotFit
    } else {
        Exit::Done
    })
}

fn write(
    args: &ReplayArgs,
    snapshot: &Snapshot,
    replay: &Replay,
    path: &std::path::Path,
) -> Result<(), Failure> {
    let written = replay
        .written(snapshot)
        .map_err(|error| refused(args, &error))?;
    fs::write(path, write_snapshot(&written)).map_err(|error| Failure::io("write", path, &error))
}

fn knowledge(args: &ReplayArgs) -> Result<Knowledge, Failure> {
    if args.memory == Some(Bytes::ZERO) {
        return Err(Failure::usage(
            "no_memory",
            "PyTorch needs more than 0 bytes",
        ));
    }
    if let Some(release) = args.torch.filter(|release| *release > Release::NEWEST) {
        let newest = Release::NEWEST;
        let text = format!("the allocator of PyTorch {release} is not known, only up to {newest}");
        return Err(Failure::usage("unknown_release", text)
            .hint(format!("`--torch {newest}` goes by its rules")));
    }
    let gpu = args
        .gpu
        .as_deref()
        .map(|name| find(name).map_err(|unknown| unknown_gpu(&unknown)))
        .transpose()?;
    let left = gpu.map(|gpu| {
        gpu.total
            .saturating_sub(Bytes::new(context_bytes(gpu, CUDA).likely))
    });
    Ok(Knowledge {
        release: args.torch,
        available: args.memory.or(left),
        total: gpu.map(|gpu| gpu.total),
        device: args.device,
    })
}

fn refused(args: &ReplayArgs, error: &ReplayError) -> Failure {
    let text = format!("{} cannot be replayed: {error}", args.snapshot.display());
    let failure = Failure::new(Exit::InputRefused, "replay", text);
    match error {
        ReplayError::NoTrace | ReplayError::Empty => failure.hint(
            "call torch.cuda.memory._record_memory_history() before the first tensor, then _dump_snapshot",
        ),
        ReplayError::NoSuchDevice(_) => failure.hint("leave `--device` out to replay all devices"),
        ReplayError::Contradiction { .. } => failure,
    }
}

fn not_a_setting(error: &SettingsError) -> Failure {
    let failure = Failure::usage("settings", error.to_string());
    match error {
        SettingsError::UnknownKey { .. } => {
            failure.hint("`--torch VERSION` says which release it is for")
        }
        _ => failure,
    }
}

/// Searches with every processor, and says how far it is when it takes longer.
fn searched(replay: &Replay) -> Search {
    let n_threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let last = Mutex::new(Instant::now());
    replay.search(n_threads, &|done, of| {
        if let Ok(mut last) = last.lock()
            && last.elapsed() > SILENCE
        {
            *last = Instant::now();
            printer::say(&format!("{done} of {of} settings tried"));
        }
    })
}

fn report(
    args: &ReplayArgs,
    replay: &Replay,
    asked: &[Tried],
    search: Option<&Search>,
) -> Result<Report, Failure> {
    let devices: Vec<DeviceForm> = replay.devices().iter().map(device_form).collect();
    let floor = devices.iter().map(|device| device.floor_bytes).max();
    let floor = floor.unwrap_or_default();
    let mut undecided = Undecided::default();
    for device in replay.devices() {
        undecided.extend(device.undecided());
    }
    let form = |tried: &Tried, conf: Option<&str>| setting_form(replay, tried, conf, floor);
    let recorded = form(&replay.under_recorded(), None)?;
    let settings = asked
        .iter()
        .map(|tried| form(tried, Some(&tried.conf)))
        .collect::<Result<Vec<SettingForm>, Failure>>()?;
    let search = search
        .map(|search| search_form(replay, search, &recorded, floor))
        .transpose()?;
    let worst = devices.iter().map(|device| device.match_percent);
    Ok(Report {
        schema: 1,
        snapshot: args.snapshot.display().to_string(),
        torch: TorchForm {
            release: replay.release().to_string(),
            possible: replay.releases().to_string(),
        },
        match_percent: worst.fold(100.0, f64::min),
        undecided: undecided
            .iter()
            .map(|(question, count): (Question, u64)| UndecidedForm {
                id: question.id(),
                count,
                text: question.sentence(),
            })
            .collect(),
        recorded,
        settings,
        search,
        floor_bytes: floor,
        packed_bytes: devices
            .iter()
            .map(|device| device.packed_bytes)
            .max()
            .unwrap_or_default(),
        packed_is_optimal: devices.iter().all(|device| device.packed_is_optimal),
        devices,
    })
}

fn device_form(device: &DeviceReplay) -> DeviceForm {
    let found = device.found();
    let (packed_bytes, packed_is_optimal) = device.packed();
    let (available_is, available_below_bytes) = match device.available() {
        Available::Unknown => ("unknown", None),
        Available::AtFailure(_) => ("at_failure", None),
        Available::Limited { below, .. } => ("limited", Some(below)),
        Available::Between { below, .. } => ("between", Some(below)),
        Available::Given(_) => ("given", None),
    };
    DeviceForm {
        device: device.device(),
        entries: device.n_entries(),
        requests: device.n_requests(),
        complete: device.is_complete(),
        match_percent: found.percent(),
        first_difference: found.first_difference.as_ref().map(|first| DifferenceForm {
            entry: first.entry,
            recorded: first.recorded.clone(),
            replayed: first.replayed.clone(),
        }),
        peak_reserved_bytes: found.recorded_peak,
        replayed_peak_reserved_bytes: found.replayed_peak,
        retries: found.recorded_retries,
        ooms: found.recorded_ooms,
        available_bytes: device.available().bytes(),
        available_is,
        available_below_bytes,
        floor_bytes: device.floor(),
        packed_bytes,
        packed_is_optimal,
        growth: device
            .growth()
            .map(|growth| GrowthForm::of(device.device(), growth)),
        growth_text: device
            .growth()
            .map(|growth| replay_text::growth_lines(device.device(), growth)),
        compared: found.entries.all + found.segments.all + found.blocks.all,
    }
}

fn setting_form(
    replay: &Replay,
    tried: &Tried,
    conf: Option<&str>,
    floor: Bytes,
) -> Result<SettingForm, Failure> {
    let smallest = replay
        .smallest_sufficient(conf)
        .map_err(|error| not_a_setting(&error))?;
    let largest = replay
        .largest_free_at_peak(conf)
        .map_err(|error| not_a_setting(&error))?;
    let peak = tried.peak_reserved();
    let worst = tried
        .trials
        .iter()
        .position(|trial| trial.peak_reserved == peak);
    let worst = worst.unwrap_or_default();
    let stop = replay
        .devices()
        .iter()
        .zip(&tried.trials)
        .find_map(|(device, trial)| Some(stop_form(device.device(), trial.stop.as_ref()?)));
    Ok(SettingForm {
        conf: tried.conf.clone(),
        peak_reserved_bytes: peak,
        oom: !tried.survives(),
        stop,
        cudamalloc_calls: tried.n_device_allocations(),
        retries: tried.n_retries(),
        peak_allocated_bytes: tried
            .trials
            .iter()
            .map(|trial| trial.peak_allocated)
            .max()
            .unwrap_or_default(),
        unused_at_peak_bytes: tried
            .trials
            .get(worst)
            .map_or(Bytes::ZERO, oomproof_replay::Trial::unused_at_peak),
        largest_free_at_peak_bytes: largest.get(worst).copied().unwrap_or_default(),
        above_floor_bytes: peak.saturating_sub(floor),
        smallest_bytes: smallest,
        smallest_card: smallest.and_then(smallest_card),
        peak_reserved_bytes_by_device: tried
            .trials
            .iter()
            .map(|trial| trial.peak_reserved)
            .collect(),
    })
}

/// The card with the least memory that leaves so much beside its context.
fn smallest_card(needed: Bytes) -> Option<&'static str> {
    let enough = all().iter().filter(|gpu| {
        gpu.slice_of().is_none() && gpu.total >= needed + Bytes::new(context_bytes(gpu, CUDA).high)
    });
    enough.min_by_key(|gpu| gpu.total).map(|gpu| gpu.id)
}

fn stop_form(device: u32, stop: &Stop) -> StopForm {
    let (kind, entry, requested_bytes, text) = match stop {
        Stop::OutOfMemory { entry, figures } => (
            "out_of_memory",
            *entry,
            Some(figures.requested),
            format!(
                "out of memory on GPU {device}: {} were asked for, {} of {} reserved were allocated",
                figures.requested, figures.allocated, figures.reserved
            ),
        ),
        Stop::Rejected { entry } => (
            "rejected",
            *entry,
            None,
            format!("a request on GPU {device} was refused before the device was asked"),
        ),
        Stop::Internal { entry, text } => ("internal", *entry, None, text.clone()),
    };
    StopForm {
        kind,
        device,
        entry,
        requested_bytes,
        text,
    }
}

fn search_form(
    replay: &Replay,
    search: &Search,
    recorded: &SettingForm,
    floor: Bytes,
) -> Result<SearchForm, Failure> {
    let best = search
        .best
        .iter()
        .filter(|tried| tried.survives() || search.n_surviving == 0)
        .take(MOST_SHOWN)
        .map(|tried| setting_form(replay, tried, Some(&tried.conf), floor))
        .collect::<Result<Vec<SettingForm>, Failure>>()?;
    let first = chosen(&best);
    let rescues = first.is_some() && recorded.oom;
    let saves = first.map_or(Bytes::ZERO, |first| {
        recorded
            .peak_reserved_bytes
            .saturating_sub(first.peak_reserved_bytes)
    });
    // Less than this is not worth a setting.
    let is_worth_it = saves.get() * 100 >= recorded.peak_reserved_bytes.get();
    let helps = rescues || (first.is_some() && is_worth_it);
    let reason = reason(replay, search, recorded, helps, floor);
    Ok(SearchForm {
        tried: search.n_tried,
        surviving: search.n_surviving,
        helps,
        reason,
        set: first.filter(|_| helps).map(|first| VariableForm {
            variable: variable(replay.release()),
            value: first.conf.clone(),
            peak_reserved_bytes: first.peak_reserved_bytes,
        }),
        best,
    })
}

/// Of the settings whose peak is within 2 % of the lowest, the simplest, and of those the one that asks the device least.
fn chosen(best: &[SettingForm]) -> Option<&SettingForm> {
    let through = || best.iter().filter(|setting| !setting.oom);
    let lowest = through().map(|setting| setting.peak_reserved_bytes).min()?;
    through()
        .filter(|setting| setting.peak_reserved_bytes.get() * 98 <= lowest.get() * 100)
        .min_by_key(|setting| {
            (
                setting.conf.matches(':').count(),
                setting.cudamalloc_calls + setting.retries,
            )
        })
}

fn reason(
    replay: &Replay,
    search: &Search,
    recorded: &SettingForm,
    helps: bool,
    floor: Bytes,
) -> String {
    if helps {
        return "settings help".to_owned();
    }
    let short = replay.devices().iter().find_map(|device| {
        let available = device.available().bytes()?;
        (device.floor() > available).then_some((device.device(), device.floor(), available))
    });
    if let Some((device, floor, available)) = short {
        return format!(
            "settings cannot help: the blocks in use at one moment sum up to {floor} on GPU {device}, and PyTorch had \
             {available}"
        );
    }
    if search.n_surviving == 0 {
        return "none of the settings that were tried gets through, though the blocks in use would have fitted"
            .to_owned();
    }
    format!(
        "settings cannot help here: the recorded ones reserve {}, and the blocks in use at one moment already sum up to \
         {floor}",
        recorded.peak_reserved_bytes
    )
}
