//! From a profile to its verdict.

use oomproof_profile::{Phase, Profile, Range, RunSettings};
use oomproof_units::Bytes;
use serde::Deserialize;
use thiserror::Error;

use crate::answer::Evidence;
use crate::assumptions::{assumptions, epochs_grow, other_processes};
use crate::circumstances::Circumstances;
use crate::growth::{Steps, growth_per_epoch, growth_per_step};
use crate::holding::{Holding, Moments};
use crate::levels::Levels;
use crate::oom::last_oom;
use crate::processes::Beside;
use crate::roles::Roles;
use crate::scratch::ScratchRange;
use crate::step_time::step_time;
use crate::timeline::Timeline;
use crate::unsupported::unsupported;
use crate::verdict::{Answer, AskedBy, Device, Estimate, Oom, Peak, SCHEMA, Script, Verdict};

/// Why a profile yields no verdict.
#[derive(Debug, Error)]
pub enum AnalysisError {
    /// The note with the settings is missing: the process was killed before it used the device.
    #[error("the profile does not say which device it is of")]
    NoSettings,
    /// The note with the settings is of another form.
    #[error("the settings in the profile cannot be read: {0}")]
    Settings(#[from] serde_json::Error),
}

const WORTH_REACHING: [Phase; 5] = [
    Phase::Forward,
    Phase::Backward,
    Phase::Optimizer,
    Phase::Evaluation,
    Phase::Save,
];

impl Verdict {
    /// Judges one profile.
    pub fn from_profile(
        profile: &Profile,
        circumstances: &Circumstances,
    ) -> Result<Self, AnalysisError> {
        let timeline = Timeline::of(profile);
        let settings = settings(&timeline)?;
        let roles = Roles::of(&timeline, &settings);
        let oom = last_oom(&timeline, &roles, circumstances, &settings);

        let index = fullest(&timeline, oom.as_ref());
        let untouched = Levels::default();
        let levels = timeline.devices.get(&index).unwrap_or(&untouched);
        let device = device(&settings, index);
        let holding = levels.peak.map(|(moment, allocated)| {
            let moment = Moments {
                device: index,
                at: moment.at,
                allocated,
            };
            Holding::at(&timeline, &roles, moment)
        });
        let context = Estimate::from(settings.context_bytes);
        let counted = Bytes::new(levels.peak_outside)
            .saturating_sub(device.reserved_by_others_bytes)
            .saturating_sub(context.likely);
        let library = library(&timeline, index, counted);
        let scratch =
            ScratchRange::of(&timeline, levels.peak.map_or(0, |(_, allocated)| allocated));
        let peak = peak(
            levels,
            holding.as_ref(),
            &device,
            [context, library],
            scratch,
            &circumstances.beside,
        );
        let beside = circumstances
            .beside
            .held(peak.process_bytes, device.reserved_by_others_bytes);

        let step_peaks: Vec<_> = timeline.steps.iter().map(|s| s.peak_allocated).collect();
        let steps = Steps {
            peaks: &step_peaks,
            levels: &levels.at_step_ends,
        };
        let ends = timeline.steps_at_cuts();
        let growth = growth_per_step(&steps, &ends);
        let epoch_growth = growth_per_epoch(&steps, &ends);

        let (verdict, reasons) = Evidence {
            timeline: &timeline,
            circumstances,
            records_lost: profile.records_lost,
            device: &device,
            peak: &peak,
            beside,
            oom: oom.as_ref(),
            growth,
            epoch_growth,
        }
        .answer();
        Ok(Self {
            schema: SCHEMA,
            verdict,
            reasons,
            torch: noted_python(&timeline, "torch").unwrap_or(settings.torch_version.clone()),
            cuda: noted_python(&timeline, "cuda").unwrap_or(cuda_version(settings.cuda_version)),
            conf: circumstances.conf.clone(),
            context_bytes: context,
            library_bytes: library,
            beside_bytes: beside,
            other_processes: circumstances.beside.processes.clone(),
            phases: levels.phases.clone(),
            not_reached: WORTH_REACHING
                .into_iter()
                .filter(|phase| !timeline.entered(*phase))
                .collect(),
            steps_measured: timeline.steps.len() as u32,
            step_device_ns: step_time(timeline.steps.iter().map(|step| step.device_nanos)),
            growth_bytes_per_step: growth,
            assumptions: epochs_grow(epoch_growth)
                .into_iter()
                .chain(assumptions(&timeline, &settings, holding.as_ref(), scratch))
                .chain(other_processes(&circumstances.beside))
                .collect(),
            unsupported: unsupported(&timeline),
            script: Script {
                exit_code: circumstances.exit_code,
                signal: circumstances.signal,
            },
            rank: None,
            ranks: None,
            profile: circumstances.profile.clone(),
            device,
            peak,
            oom,
        })
    }

    /// Whether the script can be started on this card without changes.
    pub fn fits(&self) -> bool {
        matches!(self.verdict, Answer::Fits | Answer::Tight)
    }
}

impl Estimate {
    /// A figure that is known.
    pub const fn exact(bytes: Bytes) -> Self {
        Self {
            low: bytes,
            likely: bytes,
            high: bytes,
        }
    }

    /// Whether the figure is known.
    pub const fn is_exact(&self) -> bool {
        self.low.get() == self.high.get()
    }
}

impl From<Range> for Estimate {
    fn from(range: Range) -> Self {
        Self {
            low: Bytes::new(range.low),
            likely: Bytes::new(range.likely),
            high: Bytes::new(range.high),
        }
    }
}

impl std::ops::Add for Estimate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            likely: self.likely + other.likely,
            high: self.high + other.high,
        }
    }
}

/// What libraries took: counted, but for those whose share is an estimate, which was counted as the likely figure.
fn library(timeline: &Timeline, device: u8, counted: Bytes) -> Estimate {
    let mut estimate = Estimate::exact(counted);
    let notes = timeline
        .notes
        .iter()
        .filter(|note| note.kind == "library" && note.number("device") == Some(u64::from(device)));
    for note in notes {
        let size = |field| Bytes::new(note.number(field).unwrap_or(0));
        let likely = size("likely");
        estimate.low = estimate
            .low
            .saturating_sub(likely.saturating_sub(size("low")));
        estimate.high += size("high").saturating_sub(likely);
    }
    estimate
}

fn settings(timeline: &Timeline) -> Result<RunSettings, AnalysisError> {
    let note = timeline
        .notes
        .iter()
        .find(|note| note.kind == "settings")
        .ok_or(AnalysisError::NoSettings)?;
    let settings = note
        .fields
        .get("settings")
        .ok_or(AnalysisError::NoSettings)?;
    Ok(RunSettings::deserialize(settings)?)
}

/// The device that ran out of memory, or else the one with the highest reserved memory.
fn fullest(timeline: &Timeline, oom: Option<&Oom>) -> u8 {
    let fatal = oom.is_some_and(|oom| !oom.survived);
    let of_library = oom.is_some_and(|oom| oom.asked_by == AskedBy::Library);
    if let Some(refused) = timeline.unanswered.filter(|_| fatal && of_library) {
        return refused.device;
    }
    if let Some(gave_up) = timeline.gave_up.last().filter(|_| fatal) {
        return gave_up.record.device;
    }
    let by_reserved =
        |(index, levels): &(&u8, &Levels)| (levels.peak_reserved, std::cmp::Reverse(**index));
    timeline
        .devices
        .iter()
        .max_by_key(by_reserved)
        .map_or(0, |(index, _)| *index)
}

fn device(settings: &RunSettings, index: u8) -> Device {
    let (major, minor) = settings.device.compute_capability;
    Device {
        name: settings.device.name.clone(),
        total_bytes: Bytes::new(settings.device.total_bytes),
        compute_capability: format!("{major}.{minor}"),
        reserved_by_others_bytes: Bytes::new(settings.reserved_by_others_bytes),
        index,
    }
}

fn peak(
    levels: &Levels,
    holding: Option<&Holding<'_>>,
    device: &Device,
    outside: [Estimate; 2],
    scratch: ScratchRange,
    beside: &Beside,
) -> Peak {
    let reserved = Bytes::new(levels.peak_reserved);
    let held = Estimate {
        low: reserved.saturating_sub(scratch.below),
        likely: reserved,
        high: reserved + scratch.segment,
    };
    let process = outside.into_iter().fold(held, |sum, part| sum + part);
    let others = device.reserved_by_others_bytes;
    let taken = others + process.likely + beside.held(process, others).likely;
    Peak {
        allocated_bytes: Bytes::new(levels.peak.map_or(0, |(_, allocated)| allocated)),
        reserved_bytes: reserved,
        process_bytes: process,
        headroom_bytes: device.total_bytes.signed_difference(taken),
        phase: levels.peak.map_or(Phase::Load, |(moment, _)| moment.phase),
        step: levels.peak.map_or(0, |(moment, _)| moment.step),
        roles: holding.map(Holding::by_role).unwrap_or_default(),
        modules: holding.map(Holding::by_module).unwrap_or_default(),
        sites: holding.map(Holding::by_site).unwrap_or_default(),
    }
}

fn noted_python(timeline: &Timeline, field: &str) -> Option<String> {
    let note = timeline.notes.iter().find(|note| note.kind == "python")?;
    note.text(field).map(str::to_owned)
}

fn cuda_version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
