//! Timelines in one line, so that a case is data.
//!
//! ```text
//! phase forward 1; alloc a 4MiB m=fc s=train.py:3; label a gradient fc.weight; touch a workspace; free a; step
//! oom 8MiB free=2MiB refused=10MiB; used 600MiB; unknown-read 4 kernel s=train.py:9; unsupported cufftPlan s=train.py:2
//! note {"kind":"stop","reason":"steady"}; reserved 40MiB; base 3MiB; device 1; lost
//! ```
//!
//! `base` is memory that was allocated before recording began. Levels follow from the blocks.

use std::collections::HashMap;

use oomproof_analysis::{Circumstances, Verdict};
use oomproof_profile::{
    AllocatorEvent, ArithmeticRates, Basis, DeviceSettings, DriverAction, OutOfMemory, Phase,
    Profile, Range, Record, Role, Routing, RunSettings, Touch, UnknownRead, Values,
};
use oomproof_units::Bytes;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const CARD: u64 = 1024 * MIB;

#[derive(Default)]
struct Writer {
    records: Vec<Record>,
    ids: HashMap<String, u32>,
    texts: u32,
    sites: u32,
    modules: u32,
    blocks: HashMap<String, (u64, u64)>,
    phase: Option<Phase>,
    step: u32,
    device: u8,
    allocated: u64,
    reserved: u64,
    step_peak: u64,
    next: u64,
    lost: bool,
}

/// The profile of a timeline on a card of 1 GiB whose context takes 100 to 200 MiB, likely 150.
pub(crate) fn profile(timeline: &str) -> Profile {
    let mut writer = Writer {
        next: 1 << 40,
        ..Writer::default()
    };
    let settings = serde_json::json!({"kind": "settings", "settings": settings()});
    writer.note(&settings.to_string());
    for action in timeline.split(';').map(str::trim).filter(|a| !a.is_empty()) {
        writer.act(action);
    }
    Profile {
        pid: 1,
        records_lost: writer.lost,
        counters: Default::default(),
        records: writer.records,
    }
}

/// The verdict on a timeline whose script ended with exit code 0.
pub(crate) fn verdict(timeline: &str) -> Verdict {
    let circumstances = Circumstances {
        exit_code: Some(0),
        profile: "run/1.oomprofile".to_owned(),
        ..Circumstances::default()
    };
    Verdict::from_profile(&profile(timeline), &circumstances).expect("settings are there")
}

fn settings() -> RunSettings {
    RunSettings {
        schema: 1,
        device: DeviceSettings {
            name: "Test Card".to_owned(),
            total_bytes: CARD,
            compute_capability: (9, 0),
            multiprocessors: 132,
            max_threads_per_multiprocessor: 2048,
            max_blocks_per_multiprocessor: 32,
            registers_per_multiprocessor: 65536,
            shared_memory_per_multiprocessor: 233_472,
            shared_memory_per_block_optin: 232_448,
            l2_cache_bytes: 52_428_800,
            clock_khz: 1_980_000,
            memory_clock_khz: 2_619_000,
            memory_bus_bits: 5120,
            arithmetic: ArithmeticRates::default(),
            measured: None,
        },
        device_count: 1,
        reserved_by_others_bytes: 0,
        context_bytes: Range {
            low: 100 * MIB,
            likely: 150 * MIB,
            high: 200 * MIB,
        },
        cuda_version: 13_020,
        cudnn_version: 92_600,
        nccl_version: 23_007,
        torch_version: "2.15.0+cu132".to_owned(),
        torch_assumption: None,
        standins: "standins".into(),
        vgpu: "liboomproof_vgpu.so".into(),
        run_dir: "run".into(),
        scratch: "scratch".into(),
        steps: None,
        full: false,
        timeout_secs: 600,
        real_init: false,
        allow_writes: false,
        labels: true,
        snapshot: false,
        plan: None,
        probe: false,
        training_only: false,
        warm: None,
        command: Vec::new(),
        cwd: "project".into(),
        values: Values::On,
        routing: Routing::Balanced,
        assume: Vec::new(),
        batch_size: None,
    }
}

pub(crate) fn bytes(text: &str) -> u64 {
    text.parse::<Bytes>().expect("a size").get()
}

impl Writer {
    fn act(&mut self, action: &str) {
        let (verb, rest) = action.split_once(' ').unwrap_or((action, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let line = option("s=").map_or(0, |place| self.line(place));
        let module = option("m=").map_or(0, |path| self.module(path));
        match verb {
            "phase" => {
                self.phase = phase(words[0]);
                self.step = words.get(1).map_or(self.step, |step| step.parse().unwrap());
                self.records.push(Record::Phase {
                    nanos: 0,
                    phase: self.phase.expect("a phase"),
                    step: self.step,
                });
            }
            "alloc" => {
                let size = bytes(words[1]);
                let address = self.next;
                self.next += size.next_multiple_of(512) + 512;
                self.blocks.insert(words[0].to_owned(), (address, size));
                self.allocated += size;
                let event = self.event([address, size], [line, module]);
                self.records.push(Record::Alloc(event));
            }
            "free" => {
                let (address, size) = self.blocks[words[0]];
                self.allocated -= size;
                let event = self.event([address, size], [line, module]);
                self.records.push(Record::Free(event));
            }
            "label" => {
                let name = words.get(2).map_or(0, |name| self.text(name));
                let role = words[1].replace('-', " ");
                let role = Role::ALL.iter().find(|known| known.word() == role);
                self.records.push(Record::Label {
                    nanos: 0,
                    address: self.blocks[words[0]].0,
                    role: *role.expect("a role"),
                    name,
                });
            }
            "touch" => self.records.push(Record::Touch {
                nanos: 0,
                address: self.blocks[words[0]].0 + 7,
                touch: match words[1] {
                    "workspace" => Touch::Workspace,
                    _ => Touch::HostToDevice,
                },
            }),
            _ => self.act_beside(verb, rest, [line, module]),
        }
    }

    /// What is neither a block nor a phase.
    fn act_beside(&mut self, verb: &str, rest: &str, [line, module]: [u32; 2]) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        match verb {
            "step" => {
                self.records.push(Record::Step {
                    nanos: 0,
                    step: self.step,
                    peak_allocated: self.step_peak,
                    peak_reserved: self.reserved,
                    device_nanos: option("device=")
                        .map_or(0, |nanos| nanos.parse().expect("nanoseconds")),
                });
                self.step_peak = self.allocated;
            }
            "oom" => {
                if let Some(size) = option("refused=") {
                    self.driver(DriverAction::Refused, bytes(size), 0);
                }
                self.records.push(Record::OutOfMemory(OutOfMemory {
                    nanos: 0,
                    requested: bytes(words[0]),
                    allocated: self.allocated,
                    reserved: self.reserved,
                    free: option("free=").map_or(0, bytes),
                    total: CARD,
                    device: self.device,
                    phase: self.phase.unwrap_or(Phase::Load),
                    step: self.step,
                    site: line,
                    module,
                }));
            }
            "refused" => {
                let used = option("used=").map_or(0, bytes);
                self.driver(DriverAction::Refused, bytes(words[0]), used);
            }
            "used" => self.driver(DriverAction::Malloc, 0, bytes(words[0])),
            "reserved" => self.reserved = bytes(words[0]),
            "base" => self.allocated += bytes(words[0]),
            "device" => self.device = words[0].parse().unwrap(),
            "lost" => self.lost = true,
            "unknown-read" => {
                let origin = self.text(words[1]);
                let assumption =
                    option("hangs-on=").map_or(0, |text| self.text(&text.replace('_', " ")));
                let assumed_at = option("assumed-at=").map_or(0, |place| self.line(place));
                self.records.push(Record::UnknownRead(UnknownRead {
                    nanos: 0,
                    address: 0,
                    size: words[0].parse().unwrap(),
                    given: option("given=").map_or(0, |given| given.parse().unwrap()),
                    origin,
                    basis: option("basis=").map_or(Basis::Plain, |word| {
                        let found = Basis::ALL.iter().find(|basis| basis.word() == word);
                        *found.unwrap_or_else(|| panic!("`{word}` is no basis"))
                    }),
                    assumption,
                    assumed_at,
                    phase: Phase::Idle,
                    step: 0,
                    site: line,
                    module,
                }));
            }
            "unsupported" => {
                let function = self.text(words[0]);
                let library = self.text("libtest.so.1");
                self.records.push(Record::Unsupported {
                    nanos: 0,
                    function,
                    library,
                    site: line,
                });
            }
            "note" => self.note(rest),
            other => panic!("`{other}` is no action"),
        }
    }

    fn event(&mut self, [address, size]: [u64; 2], [line, module]: [u32; 2]) -> AllocatorEvent {
        self.reserved = self.reserved.max(self.allocated.next_multiple_of(2 * MIB));
        self.step_peak = self.step_peak.max(self.allocated);
        AllocatorEvent {
            nanos: 0,
            address,
            size,
            allocated: self.allocated,
            reserved: self.reserved,
            device: self.device,
            phase: self.phase.unwrap_or(Phase::Load),
            step: self.step,
            site: line,
            module,
        }
    }

    fn driver(&mut self, action: DriverAction, size: u64, used: u64) {
        self.records.push(Record::Driver {
            nanos: 0,
            action,
            device: self.device,
            address: 0,
            size,
            used,
        });
    }

    fn note(&mut self, json: &str) {
        self.records.push(Record::Note {
            nanos: 0,
            json: json.to_owned(),
        });
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        self.texts += 1;
        self.ids.insert(text.to_owned(), self.texts);
        self.records.push(Record::Text(text.to_owned()));
        self.texts
    }

    fn line(&mut self, place: &str) -> u32 {
        let key = format!("line {place}");
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let (place, lever) = place.split_once('@').unwrap_or((place, ""));
        let (file, line) = place.split_once(':').expect("file:line");
        let function = match lever {
            "" => "main".to_owned(),
            lever => format!("lever {lever}"),
        };
        let record = Record::Site {
            file: self.text(file),
            line: line.parse().unwrap(),
            function: self.text(&function),
        };
        self.records.push(record);
        self.sites += 1;
        self.ids.insert(key, self.sites);
        self.sites
    }

    fn module(&mut self, path: &str) -> u32 {
        let key = format!("module {path}");
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let record = Record::Module {
            path: self.text(path),
            class: self.text("Module"),
        };
        self.records.push(record);
        self.modules += 1;
        self.ids.insert(key, self.modules);
        self.modules
    }
}

fn phase(word: &str) -> Option<Phase> {
    Phase::ALL
        .iter()
        .copied()
        .find(|phase| phase.word() == word)
}
