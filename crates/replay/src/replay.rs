//! A snapshot made ready to be replayed: for each device the program, the state it began in, and what it had.

use std::sync::atomic::{AtomicUsize, Ordering};

use oomproof_allocator::{Configuration, Release, Settings, SettingsError, StateError};
use oomproof_snapshot::{MinorRelease, ReleaseRange, Snapshot, SnapshotBuilder};
use oomproof_units::Bytes;
use thiserror::Error;

use crate::capacity::{Available, available};
use crate::conf::{Options, candidates, is_since};
use crate::growth::{Growth, growth_in};
use crate::lifetimes::peak_of_live_bytes;
use crate::matching::{self, Keep, Match, Matched};
use crate::packing::pack;
use crate::program::{Program, Step, Traced};
use crate::recorded_settings::recorded_settings;
use crate::recording::{Recording, devices};
use crate::start::{Segment, undo};
use crate::trial::{Stage, Trial};
use crate::undecided::{Question, Undecided};
use crate::written::write_device;

/// Bytes of a card where nothing says how many: more than any has, so that address space never ends.
const LARGEST_CARD: Bytes = Bytes::from_gib(1024);
/// Comparisons of two blocks that a packing may take: a second or two.
const PACKING_BUDGET: u64 = 30_000_000;

/// Why a snapshot cannot be replayed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReplayError {
    /// It shows a moment and not the way there.
    #[error("the snapshot has no trace, only the segments of one moment")]
    NoTrace,
    /// It shows nothing at all.
    #[error("the snapshot is empty: no segments and no trace")]
    Empty,
    /// The device that was asked for is not in it.
    #[error("the snapshot has no trace of device {0}")]
    NoSuchDevice(u32),
    /// The state that its trace leads back to is none that an allocator can be in.
    #[error("the trace of device {device} contradicts the segments of the snapshot: {error}")]
    Contradiction {
        /// The device.
        device: u32,
        /// What is wrong with the state.
        error: StateError,
    },
}

/// What is known beside the snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knowledge {
    /// The release of torch.
    pub release: Option<Release>,
    /// Bytes that PyTorch may take from each device.
    pub available: Option<Bytes>,
    /// Bytes of each card.
    pub total: Option<Bytes>,
    /// Only this device.
    pub device: Option<u32>,
}

/// A snapshot ready to be replayed.
#[derive(Debug)]
pub struct Replay {
    release: Release,
    releases: ReleaseRange,
    conf: String,
    settings: Settings,
    total: Bytes,
    devices: Vec<DeviceReplay>,
}

/// One device of it.
#[derive(Debug)]
pub struct DeviceReplay {
    recording: Recording,
    start: Vec<Segment>,
    program: Program,
    available: Available,
    found: Match,
    growth: Option<Growth>,
    undecided: Undecided,
}

impl DeviceReplay {
    /// The number of the device.
    pub fn device(&self) -> u32 {
        self.recording.device
    }

    /// How far the replay equals the recording.
    pub fn found(&self) -> &Match {
        &self.found
    }

    /// What the device had for PyTorch.
    pub fn available(&self) -> Available {
        self.available
    }

    /// What the trace left open.
    pub fn undecided(&self) -> &Undecided {
        &self.undecided
    }

    /// Entries of the trace.
    pub fn n_entries(&self) -> usize {
        self.recording.events.len()
    }

    /// Granted requests in the trace.
    pub fn n_requests(&self) -> usize {
        let steps = self.program.steps.iter();
        steps
            .filter(|step| matches!(step, Step::Allocate { .. }))
            .count()
    }

    /// Whether nothing was in use when the trace began.
    pub fn is_complete(&self) -> bool {
        self.start.is_empty()
    }

    /// The peak of live bytes, which no allocator gets below; a failed request counts as if it had been granted.
    pub fn floor(&self) -> Bytes {
        peak_of_live_bytes(&self.program.lifetimes).0
    }

    /// The lowest peak that was found with every lifetime known beforehand, and whether it is proven the lowest.
    pub fn packed(&self) -> (Bytes, bool) {
        let packing = pack(&self.program.lifetimes, PACKING_BUDGET);
        (packing.height, packing.is_optimal)
    }

    /// Memory that every round of a loop left behind, if it did so until the end.
    pub fn growth(&self) -> Option<&Growth> {
        self.growth.as_ref()
    }
}

/// What settings would have meant on all devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The text of the settings.
    pub conf: String,
    /// By device, in the order of [`Replay::devices`].
    pub trials: Vec<Trial>,
}

impl Tried {
    /// Whether every request was granted on every device.
    pub fn survives(&self) -> bool {
        self.trials.iter().all(Trial::survives)
    }

    /// The highest peak of reserved bytes of a device.
    pub fn peak_reserved(&self) -> Bytes {
        let peaks = self.trials.iter().map(|trial| trial.peak_reserved);
        peaks.max().unwrap_or_default()
    }

    /// Calls of `cudaMalloc`, or of mapping, on all devices.
    pub fn n_device_allocations(&self) -> u64 {
        let calls = self.trials.iter().map(|trial| trial.n_device_allocations);
        calls.sum()
    }

    /// `num_alloc_retries` on all devices.
    pub fn n_retries(&self) -> u64 {
        self.trials.iter().map(|trial| trial.n_retries).sum()
    }

    /// What is better when it is smaller: first that it fails, then its peak, then calls and retries.
    fn cost(&self) -> (bool, Bytes, u64) {
        let calls = self.n_device_allocations() + self.n_retries();
        (!self.survives(), self.peak_reserved(), calls)
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Settings that were tried.
    pub n_tried: usize,
    /// Of them, those under which every request was granted.
    pub n_surviving: usize,
    /// The default settings.
    pub default: Tried,
    /// Settings that no other beats in peak and in calls of the device at once, the lowest peak first.
    pub best: Vec<Tried>,
}

impl Replay {
    /// Prepares every device of a snapshot that has a trace, and compares each with its recording.
    pub fn new(snapshot: &Snapshot, knowledge: &Knowledge) -> Result<Self, ReplayError> {
        let total = knowledge.total.unwrap_or(LARGEST_CARD);
        let releases = snapshot.origin().releases;
        let possible = possible_releases(releases, knowledge.release);
        let devices = prepared(snapshot, knowledge, possible[0])?;
        let recorded = snapshot.settings();
        let mut best: Option<(Release, Vec<Match>)> = None;
        let mut contradiction = None;
        for &release in &possible {
            let settings = recorded_settings(recorded, release, &mut Undecided::default());
            let found = devices
                .iter()
                .map(|device| device.run(release, &settings, total, Keep::Nothing))
                .map(|ran| ran.map(|matched| matched.found))
                .collect::<Result<Vec<Match>, ReplayError>>();
            match found {
                Ok(found) => {
                    if best
                        .as_ref()
                        .is_none_or(|(_, best)| mismatches(&found) < mismatches(best))
                    {
                        best = Some((release, found));
                    }
                }
                Err(error) => contradiction = Some(error),
            }
            if best.as_ref().is_some_and(|(_, best)| mismatches(best) == 0) {
                break;
            }
        }
        let Some((release, found)) = best else {
            return Err(contradiction.unwrap_or(ReplayError::NoTrace));
        };
        let mut shared = Undecided::default();
        let settings = recorded_settings(recorded, release, &mut shared);
        let is_told = releases != ReleaseRange::ANY && !releases.is_contradictory();
        if knowledge.release.is_none() && (possible.len() > 1 || !is_told) {
            shared.ask(Question::ReleaseUnsure);
        }
        let devices = devices.into_iter().zip(found).map(|(mut device, found)| {
            device.found = found;
            if !is_since(release, 12) {
                device.undecided.ask(Question::DriverAddresses);
            }
            if !device.is_complete() && is_since(release, 12) {
                device.undecided.ask(Question::StartOrder);
            }
            device.undecided.extend(&shared);
            if let Some(available) = knowledge.available {
                device.undecided.answer(Question::CapacityUnknown);
                device.undecided.answer(Question::CapacityIsRange);
                device.available = Available::Given(available);
            }
            device
        });
        Ok(Self {
            release,
            releases,
            conf: recorded.map_or_else(String::new, |recorded| recorded.conf.clone()),
            settings,
            total,
            devices: devices.collect(),
        })
    }

    /// The devices that have a trace, by number.
    pub fn devices(&self) -> &[DeviceReplay] {
        &self.devices
    }

    /// The release whose rules are used.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The releases whose snapshots have these keys.
    pub fn releases(&self) -> ReleaseRange {
        self.releases
    }

    /// The recorded text of the settings.
    pub fn conf(&self) -> &str {
        &self.conf
    }

    /// The program under the recorded settings, on devices that have what is known of them.
    pub fn under_recorded(&self) -> Tried {
        self.under(&self.settings, self.conf.clone())
    }

    /// The program under the settings of `conf`, as a process has them that starts with this text.
    pub fn what_if(&self, conf: &str) -> Result<Tried, SettingsError> {
        let settings = Settings::parse(conf, self.release)?;
        Ok(self.under(&settings, conf.to_owned()))
    }

    /// The least memory for PyTorch with which every device gets through under `conf`; the recorded settings when it is
    /// `None`. No answer when no memory is enough.
    pub fn smallest_sufficient(&self, conf: Option<&str>) -> Result<Option<Bytes>, SettingsError> {
        let settings = self.parsed(conf)?;
        let mut least = Bytes::ZERO;
        for device in &self.devices {
            match self
                .stage(device)
                .smallest_sufficient(&settings, device.floor())
            {
                Some(enough) => least = least.max(enough),
                None => return Ok(None),
            }
        }
        Ok(Some(least))
    }

    /// The largest free piece at the peak of reserved bytes, of each device.
    pub fn largest_free_at_peak(&self, conf: Option<&str>) -> Result<Vec<Bytes>, SettingsError> {
        let settings = self.parsed(conf)?;
        let devices = self.devices.iter();
        Ok(devices
            .map(|device| {
                let available = device.available.bytes();
                self.stage(device)
                    .largest_free_at_peak(&settings, available)
            })
            .collect())
    }

    /// Tries the sensible settings of the release on `n_threads` threads; `progress` hears how many of how many are done.
    pub fn search(&self, n_threads: usize, progress: &(dyn Fn(usize, usize) + Sync)) -> Search {
        let all = candidates(self.release);
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let work = || {
            let mut tried: Vec<(usize, Tried)> = Vec::new();
            loop {
                let idx = next.fetch_add(1, Ordering::Relaxed);
                let Some(options) = all.get(idx) else {
                    return tried;
                };
                let conf = options.text();
                if let Ok(settings) = Settings::parse(&conf, self.release) {
                    tried.push((idx, self.under(&settings, conf)));
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
            }
        };
        let mut tried: Vec<(usize, Tried)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n_threads.max(1)).map(|_| scope.spawn(work)).collect();
            let results = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default());
            results.flatten().collect()
        });
        tried.sort_by_key(|(idx, _)| *idx);
        let n_surviving = tried.iter().filter(|(_, tried)| tried.survives()).count();
        let default = tried.first().map(|(_, tried)| tried.clone());
        let default = default.unwrap_or_else(|| self.under(&Settings::default(), String::new()));
        Search {
            n_tried: tried.len(),
            n_surviving,
            default,
            best: unbeaten(&all, &tried),
        }
    }

    /// The replay under the recorded settings as a snapshot, with the stacks of `snapshot`, which it was made from.
    pub fn written(&self, snapshot: &Snapshot) -> Result<Snapshot, ReplayError> {
        let mut builder = SnapshotBuilder::with_tables_of(snapshot);
        if let Some(settings) = snapshot.settings() {
            builder.settings(settings.clone());
        }
        for device in &self.devices {
            let matched = device.run(self.release, &self.settings, self.total, Keep::Entries)?;
            write_device(&mut builder, snapshot, device.device(), &matched);
        }
        Ok(builder.finish())
    }

    fn parsed(&self, conf: Option<&str>) -> Result<Settings, SettingsError> {
        match conf {
            Some(conf) => Settings::parse(conf, self.release),
            None => Ok(self.settings.clone()),
        }
    }

    fn under(&self, settings: &Settings, conf: String) -> Tried {
        let devices = self.devices.iter();
        Tried {
            conf,
            trials: devices
                .map(|device| self.stage(device).run(settings, device.available.bytes()))
                .collect(),
        }
    }

    fn stage<'a>(&self, device: &'a DeviceReplay) -> Stage<'a> {
        Stage {
            device: device.device(),
            program: &device.program,
            start: &device.start,
            release: self.release,
            total: self.total,
        }
    }
}

impl DeviceReplay {
    fn new(
        snapshot: &Snapshot,
        recording: Recording,
        release: Release,
        knowledge: &Knowledge,
    ) -> Self {
        let settings = recorded_settings(snapshot.settings(), release, &mut Undecided::default());
        let block_size = |requested| settings.block_size(Bytes::new(requested), release).get();
        let mut undecided = recording.undecided.clone();
        let start = undo(
            &recording.end,
            &recording.events,
            &block_size,
            &mut undecided,
        );
        let program = Program::new(&Traced {
            start: &start,
            events: &recording.events,
            end: &recording.end,
            settings: &settings,
            available: knowledge.available,
        });
        undecided.extend(&program.undecided);
        let growth = growth_in(
            snapshot,
            recording.device,
            &recording.events,
            &program.lifetimes,
        );
        let available = available(&program, &start, &recording.events, &mut undecided);
        Self {
            recording,
            start,
            program,
            available,
            found: Match::default(),
            growth,
            undecided,
        }
    }

    fn run(
        &self,
        release: Release,
        settings: &Settings,
        total: Bytes,
        keep: Keep,
    ) -> Result<Matched, ReplayError> {
        let configuration = Configuration {
            device: u8::try_from(self.device()).unwrap_or(u8::MAX),
            ..Configuration::new(release).with_settings(settings.clone())
        };
        let matched = matching::replay(
            &self.program,
            &self.start,
            &self.recording.events,
            &self.recording.end,
            configuration,
            total,
            keep,
        );
        matched.map_err(|error| ReplayError::Contradiction {
            device: self.device(),
            error,
        })
    }
}

fn prepared(
    snapshot: &Snapshot,
    knowledge: &Knowledge,
    release: Release,
) -> Result<Vec<DeviceReplay>, ReplayError> {
    let all = devices(snapshot);
    if all.is_empty() {
        return Err(ReplayError::Empty);
    }
    let wanted = all
        .into_iter()
        .filter(|device| knowledge.device.is_none_or(|only| only == *device));
    let prepared: Vec<DeviceReplay> = wanted
        .map(|device| Recording::of(snapshot, device))
        .filter(Recording::has_requests)
        .map(|recording| DeviceReplay::new(snapshot, recording, release, knowledge))
        .collect();
    match (prepared.is_empty(), knowledge.device) {
        (false, _) => Ok(prepared),
        (true, Some(device)) => Err(ReplayError::NoSuchDevice(device)),
        (true, None) => Err(ReplayError::NoTrace),
    }
}

/// The releases to try, the oldest first: what it honors, later ones honor too.
fn possible_releases(range: ReleaseRange, given: Option<Release>) -> Vec<Release> {
    if let Some(given) = given {
        return vec![given];
    }
    let all = (0..=Release::NEWEST.minor()).filter(|minor| {
        let minor = u8::try_from(*minor).unwrap_or(u8::MAX);
        range.contains(MinorRelease::new(2, minor))
    });
    let mut found: Vec<Release> = all
        .filter_map(|minor| Release::new(2, minor).ok())
        .collect();
    if found.is_empty() || range == ReleaseRange::ANY {
        found = vec![Release::NEWEST];
    }
    found
}

fn mismatches(found: &[Match]) -> u64 {
    let shares = found
        .iter()
        .flat_map(|one| [one.entries, one.segments, one.blocks]);
    shares.map(|share| share.all - share.equal).sum()
}

/// Those that no other equals or beats in everything; of equal ones the one with the fewest options.
fn unbeaten(all: &[Options], tried: &[(usize, Tried)]) -> Vec<Tried> {
    let mut order: Vec<&(usize, Tried)> = tried.iter().collect();
    order.sort_by_key(|(idx, tried)| (tried.cost(), all[*idx].n_given(), *idx));
    let mut best: Vec<Tried> = Vec::new();
    for (_, one) in order {
        let (fails, _, calls) = one.cost();
        let is_beaten = best.iter().any(|better| {
            let (better_fails, _, better_calls) = better.cost();
            better_fails <= fails && better_calls <= calls
        });
        if !is_beaten {
            best.push(one.clone());
        }
    }
    best
}
