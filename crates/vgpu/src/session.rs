//! The one virtual machine of this process: settings, devices, memory, profile. Everything exported to C starts here.
//!
//! The library may be loaded long before it is told what to be, and may find itself in a forked child; until
//! [`attach`] has succeeded, and in a child whose parent had used the device, there is no session and every CUDA call
//! says so.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use oomproof_profile::{
    AssumedValue, Basis, Record, RunSettings, Touch, UnknownRead, layout::counter,
};

use crate::arena::Arena;
use crate::clock::{self, Speeds, Timing};
use crate::deferred::LockedMemory;
use crate::handles::{Handles, Registry};
use crate::kernels::Read;
use crate::ledger::Ledger;
use crate::memory::{DriverEvent, Memory};
use crate::ranks::{Board, MAX_DEVICES, Mailbox};
use crate::recorder::{Header, Recorder};

/// In a forked child, another session in place of the parent's.
mod restart;

pub(crate) use restart::restart;

/// Ids of texts, source lines and modules that the profile already has.
#[derive(Clone, Default)]
struct Interned {
    texts: HashMap<String, u32>,
    sites: HashMap<(u32, u32, u32), u32>,
    modules: HashMap<(u32, u32), u32>,
    notes: HashSet<String>,
    /// What the user said is read, by the id of the source line.
    assumed: HashMap<u32, AssumedValue>,
}

/// A virtual machine with its devices.
pub(crate) struct Session {
    pub(crate) settings: RunSettings,
    pub(crate) header: Header,
    pub(crate) registry: Registry,
    start: Instant,
    recorder: Mutex<Recorder>,
    memory: Mutex<Memory>,
    interned: Mutex<Interned>,
    pub(crate) ledger: Ledger,
    pub(crate) speeds: Speeds,
    /// What the clock of the device said when the last step ended.
    step_began: AtomicU64,
    /// Devices that have a context, as the machine counts them, before `CUDA_VISIBLE_DEVICES`.
    contexts: Vec<AtomicBool>,
    /// The most that all processes of the run held of each device.
    together: Vec<AtomicU64>,
    visible: OnceLock<Vec<u32>>,
    board: Arc<Board>,
    mailbox: Mailbox,
}

/// Leaked when it is made, and replaced in a forked child alone, before that uses the device.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// This is a forked child, which must not write to its parent's profile.
static FORKED: AtomicBool = AtomicBool::new(false);
/// The device was in use when the process forked: no driver goes on in such a child.
static LOST: AtomicBool = AtomicBool::new(false);

/// The session of this process, if it has one.
pub(crate) fn session() -> Option<&'static Session> {
    let session = any_session()?;
    (!LOST.load(Ordering::Relaxed)).then_some(session)
}

fn any_session() -> Option<&'static Session> {
    // SAFETY: null, or a leaked session.
    unsafe { SESSION.load(Ordering::Acquire).as_ref() }
}

/// Whether this is a forked child of a process that had used the device.
pub(crate) fn lost_by_fork() -> bool {
    any_session().is_some() && session().is_none()
}

/// Starts the session that the settings in `path` describe.
pub(crate) fn attach(path: &Path) -> Result<(), String> {
    if any_session().is_some() {
        return Ok(());
    }
    let (text, settings) = read_settings(path)?;
    let file = profile_of_this_process(&settings);
    let recorder = Recorder::create(&file).map_err(|error| not_created(&file, &error))?;
    let board = open_board(&settings)?;
    let session = Session::new(settings, recorder, board);
    session.note_settings(&text);
    let session = Box::into_raw(Box::new(session));
    let null = std::ptr::null_mut();
    match SESSION.compare_exchange(null, session, Ordering::AcqRel, Ordering::Relaxed) {
        // SAFETY: the handler only touches atomics, a try-lock and one mmap.
        Ok(_) => unsafe {
            libc::pthread_atfork(None, None, Some(after_fork_in_child));
        },
        // SAFETY: another thread was first, and nobody has seen this one.
        Err(_) => drop(unsafe { Box::from_raw(session) }),
    }
    Ok(())
}

/// The settings in a file, as text and as values, which a machine can have.
fn read_settings(path: &Path) -> Result<(String, RunSettings), String> {
    let text = std::fs::read(path)
        .map_err(|error| format!("the settings `{}` cannot be read: {error}", path.display()))?;
    let settings: RunSettings = serde_json::from_slice(&text).map_err(|error| {
        format!(
            "the settings `{}` are not understood: {error}",
            path.display()
        )
    })?;
    if settings.device_count as usize > MAX_DEVICES {
        return Err(format!(
            "{} devices are more than the {MAX_DEVICES} that a machine can have",
            settings.device_count
        ));
    }
    Ok((String::from_utf8_lossy(&text).into_owned(), settings))
}

fn open_board(settings: &RunSettings) -> Result<Board, String> {
    Board::open(&settings.run_dir).map_err(|error| {
        format!(
            "the list of processes in `{}` cannot be opened: {error}",
            settings.run_dir.display()
        )
    })
}

fn not_created(file: &Path, error: &std::io::Error) -> String {
    format!(
        "the profile `{}` cannot be created: {error}",
        file.display()
    )
}

fn profile_of_this_process(settings: &RunSettings) -> PathBuf {
    settings
        .run_dir
        .join(format!("{}.oomprofile", std::process::id()))
}

/// The first note of every profile.
fn settings_note(json: &str) -> String {
    format!(r#"{{"kind":"settings","settings":{json}}}"#)
}

extern "C" fn after_fork_in_child() {
    let Some(session) = any_session() else {
        return;
    };
    FORKED.store(true, Ordering::Relaxed);
    LOST.fetch_or(session.has_any_context(), Ordering::Relaxed);
    match session.recorder.try_lock() {
        Ok(mut recorder) => recorder.abandon(),
        // Another thread of the parent was recording: nobody will unlock it here, and nobody may record either.
        Err(_) => session.header.make_private(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn new(settings: RunSettings, recorder: Recorder, board: Board) -> Self {
        let board = Arc::new(board);
        let devices = settings.device_count as usize;
        let total = settings.device.total_bytes;
        // Expandable segments reserve 9/8 of the card for each stream and size class, on each device.
        let needed = total
            .saturating_mul(10)
            .saturating_mul(devices.max(1) as u64)
            .min(1 << 46);
        let arena = Arena::reserve(needed);
        let header = recorder.header();
        header
            .counter(counter::USED)
            .store(settings.reserved_by_others_bytes, Ordering::Relaxed);
        Self {
            header,
            registry: Registry::default(),
            start: Instant::now(),
            recorder: Mutex::new(recorder),
            memory: Mutex::new(
                Memory::new(arena, devices, total, settings.reserved_by_others_bytes)
                    .beside(Arc::clone(&board)),
            ),
            interned: Mutex::default(),
            ledger: Ledger::default(),
            speeds: Speeds::of(&settings.device),
            step_began: AtomicU64::new(0),
            contexts: (0..devices).map(|_| AtomicBool::new(false)).collect(),
            together: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            visible: OnceLock::new(),
            board,
            mailbox: Mailbox::in_folder(&settings.run_dir),
            settings,
        }
    }

    /// What the processes of the run know of each other.
    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Messages between the processes of the run.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Nanoseconds since the session began.
    pub(crate) fn nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The memory of all devices, locked.
    pub(crate) fn memory(&self) -> LockedMemory<'_> {
        LockedMemory::new(lock(&self.memory))
    }

    /// Handles of objects of type `T`.
    pub(crate) fn handles<T: Send + 'static>(&self) -> &'static Handles<T> {
        self.registry.of::<T>()
    }

    /// Appends a record to the profile.
    pub(crate) fn record(&self, record: &Record) {
        if !FORKED.load(Ordering::Relaxed) {
            lock(&self.recorder).append(record);
        }
    }

    fn note_settings(&self, json: &str) {
        self.note(&settings_note(json));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = now
            .unwrap_or_default()
            .as_nanos()
            .saturating_sub(u128::from(self.nanos()));
        let parent = std::os::unix::process::parent_id();
        self.note(&format!(
            r#"{{"kind":"process","parent":{parent},"started_unix_nanos":{started}}}"#
        ));
    }

    /// A forked child begins to use the device: from now on it has a profile of its own.
    fn record_again(&self) {
        let restarted = self.recorder.try_lock().is_ok_and(|mut recorder| {
            recorder
                .restart(&profile_of_this_process(&self.settings))
                .is_ok()
        });
        let settings = serde_json::to_string(&self.settings);
        let (true, Ok(settings), Ok(mut interned)) =
            (restarted, settings, self.interned.try_lock())
        else {
            // What cannot be recorded must not happen unseen.
            LOST.store(true, Ordering::Relaxed);
            return;
        };
        *interned = Interned::default();
        drop(interned);
        self.board.enter();
        FORKED.store(false, Ordering::Relaxed);
        self.note_settings(&settings);
    }

    /// Appends a JSON object.
    pub(crate) fn note(&self, json: &str) {
        self.record(&Record::Note {
            nanos: self.nanos(),
            json: json.to_owned(),
        });
    }

    /// Appends a JSON object unless the very same one was appended before.
    pub(crate) fn note_once(&self, json: &str) {
        if lock(&self.interned).notes.insert(json.to_owned()) {
            self.note(json);
        }
    }

    /// Trims the file of the profile.
    pub(crate) fn trim(&self) {
        if !FORKED.load(Ordering::Relaxed) {
            lock(&self.recorder).trim();
        }
    }

    /// Ordinals of the machine's devices that this process may see, as the driver reads `CUDA_VISIBLE_DEVICES`.
    pub(crate) fn visible(&self) -> &[u32] {
        self.visible.get_or_init(|| {
            let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            crate::visible::visible_devices(list.as_deref(), self.settings.device_count)
        })
    }

    fn has_any_context(&self) -> bool {
        self.contexts
            .iter()
            .any(|context| context.load(Ordering::Relaxed))
    }

    /// Whether the device has a context.
    pub(crate) fn has_context(&self, device: usize) -> bool {
        self.contexts
            .get(device)
            .is_some_and(|context| context.load(Ordering::Relaxed))
    }

    /// Makes the context of a device if it has none; it takes memory.
    pub(crate) fn ensure_context(&self, device: usize) {
        let Some(context) = self.contexts.get(device) else {
            return;
        };
        if !context.load(Ordering::Relaxed) && !context.swap(true, Ordering::Relaxed) {
            if FORKED.load(Ordering::Relaxed) {
                self.record_again();
            }
            let mut memory = self.memory();
            memory.charge(device, self.settings.context_bytes.likely);
            let used = memory.used(device);
            drop(memory);
            self.count_used(used);
            self.note_together(device, used);
        }
    }

    fn count_used(&self, used: u64) {
        self.header
            .counter(counter::USED)
            .store(used, Ordering::Relaxed);
        self.header
            .counter(counter::PEAK_USED)
            .fetch_max(used, Ordering::Relaxed);
    }

    /// Tells how much all processes of the run hold of a device whenever that is more than ever, if there are others.
    fn note_together(&self, device: usize, own: u64) {
        let others = self.board.others(device);
        let Some(highest) = self.together.get(device) else {
            return;
        };
        let together = own.saturating_add(others);
        if others > 0 && highest.fetch_max(together, Ordering::Relaxed) < together {
            self.note(&format!(
                r#"{{"kind":"beside","device":{device},"together":{together}}}"#
            ));
        }
    }

    /// Records what the driver did with memory.
    pub(crate) fn driver_event(&self, event: DriverEvent) {
        self.record_driver(&event);
        self.note_together(event.device, event.used);
        self.ledger.hear(self, &event);
    }

    fn record_driver(&self, event: &DriverEvent) {
        self.count_used(event.used);
        self.record(&Record::Driver {
            nanos: self.nanos(),
            action: event.action,
            device: event.device as u8,
            address: event.address,
            size: event.size,
            used: event.used,
        });
    }

    /// The id of a text in the profile.
    pub(crate) fn text(&self, text: &str) -> u32 {
        let mut interned = lock(&self.interned);
        if let Some(&id) = interned.texts.get(text) {
            return id;
        }
        let id = interned.texts.len() as u32 + 1;
        interned.texts.insert(text.to_owned(), id);
        // Recorded under the lock, so that ids follow the order of the records.
        self.record(&Record::Text(text.to_owned()));
        id
    }

    /// The text with this id; empty for 0.
    pub(crate) fn text_of(&self, id: u32) -> String {
        lock(&self.interned)
            .texts
            .iter()
            .find(|(_, known)| **known == id)
            .map_or_else(String::new, |(text, _)| text.clone())
    }

    /// The id of a source line.
    pub(crate) fn site(&self, file: &str, line: u32, function: &str) -> u32 {
        let (file_text, function) = (self.text(file), self.text(function));
        let mut interned = lock(&self.interned);
        if let Some(&site) = interned.sites.get(&(file_text, line, function)) {
            return site;
        }
        let site = interned.sites.len() as u32 + 1;
        interned.sites.insert((file_text, line, function), site);
        self.record(&Record::Site {
            file: file_text,
            line,
            function,
        });
        let mut said = self.settings.assume.iter();
        if let Some(assumed) = said.find(|assumed| assumed.is_at(file, line)) {
            interned.assumed.insert(site, assumed.value);
        }
        site
    }

    /// The id of a module.
    pub(crate) fn module(&self, path: &str, class: &str) -> u32 {
        let (path, class) = (self.text(path), self.text(class));
        let mut interned = lock(&self.interned);
        let next = interned.modules.len() as u32 + 1;
        *interned.modules.entry((path, class)).or_insert_with(|| {
            self.record(&Record::Module { path, class });
            next
        })
    }

    /// Records that the block at `address` is used in some way, the first time.
    pub(crate) fn touch(&self, memory: &mut Memory, address: u64, touch: Touch) {
        let bit = 1 << touch.code();
        if let Some((_, block)) = memory.block_of(address)
            && block.touched & bit == 0
        {
            block.touched |= bit;
            self.record(&Record::Touch {
                nanos: self.nanos(),
                address,
                touch,
            });
        }
    }

    /// A library function called `name` would have written device memory from each of `outputs` on. Its time is that of
    /// writing those blocks.
    pub(crate) fn library_wrote(&self, name: &str, outputs: &[u64]) {
        self.library_worked(name, outputs, Timing::default());
    }

    /// The same of a function of whose time more is known.
    pub(crate) fn library_worked(&self, name: &str, outputs: &[u64], timing: Timing) {
        let origin = self.text(name);
        let write = || {
            let mut memory = self.memory();
            let mut written = 0;
            for &address in outputs {
                written += memory.block_of(address).map_or(0, |(_, block)| block.size);
                memory.overwritten(address, origin);
            }
            written
        };
        let take_time = |written| clock::library(self, timing, written);
        let is_captured = crate::runtime::submit_to_all(self, || take_time(write()));
        let written = write();
        if !is_captured {
            take_time(written);
        }
    }

    /// Puts what the clock of the device says into the header, and returns it.
    pub(crate) fn note_device_time(&self) -> u64 {
        let now = clock::latest();
        self.header
            .counter(counter::DEVICE_TIME)
            .store(now, Ordering::Relaxed);
        now
    }

    /// A step ends: by how much the clock of the device moved on in it.
    pub(crate) fn device_time_of_step(&self) -> u64 {
        let now = self.note_device_time();
        now.saturating_sub(self.step_began.swap(now, Ordering::Relaxed))
    }

    /// A library was given scratch memory at `address`.
    pub(crate) fn workspace(&self, address: u64) {
        if address != 0 {
            let mut memory = self.memory();
            self.touch(&mut memory, address, Touch::Workspace);
        }
    }

    /// What the user said is read at a source line.
    pub(crate) fn assumed_at(&self, site: u32) -> Option<AssumedValue> {
        if self.settings.assume.is_empty() {
            return None;
        }
        lock(&self.interned).assumed.get(&site).copied()
    }

    /// Records that the host read `size` bytes that are not known, or hang on an assumption, and was given `given`.
    pub(crate) fn unknown_read(
        &self,
        address: u64,
        size: u64,
        given: u64,
        read: Read,
        basis: Basis,
    ) {
        let [site, module, phase, step] = self.header.state();
        self.header
            .counter(counter::UNKNOWN_READS)
            .fetch_add(1, Ordering::Relaxed);
        let assumption = read.assumption;
        self.record(&Record::UnknownRead(UnknownRead {
            nanos: self.nanos(),
            address,
            size,
            given,
            origin: read.origin,
            basis,
            assumption: assumption.map_or(0, |assumption| assumption.text.get()),
            assumed_at: assumption.map_or(0, |assumption| assumption.site),
            phase: crate::agent::phase_of(phase),
            step,
            site,
            module,
        }));
    }
}
